"""Node: transports, routing and timers of one Zenoh node, without I/O.

A driver feeds it links, octets and the time, and writes what `pull` gives back. Sessions are faces
of the node: they call `local_push` and `local_send`, and get what is for them through their sink.
Everything here runs under the driver's one lock; nothing here calls user code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elea.answers import QUEUED, SENT
from elea.errors import DecodeError, RemoteProtocolError
from elea.ids import Rng, WhatAmI, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.node.admission import TOO_MANY_GUESSES, Admission, content
from elea.node.connectors import Connectors
from elea.node.egress_hot import Door, Egress, Outlet
from elea.node.expiry import EXPIRED, Expiries
from elea.node.group import Group, Groups
from elea.node.guards import Guards
from elea.node.holding import Holding
from elea.node.intake_hot import Intake
from elea.node.neighbour import ConnectionState, Neighbour, NodeLink, Session, state_of
from elea.node.ports import CloseLink, Effect, LinkInfo, NeighbourDown, NeighbourUp, Teller, Told
from elea.node.receive_hot import FaceSink
from elea.node.room import Room
from elea.node.settings import EndpointGroups, NodeSettings
from elea.node.stamping_hot import Stamper
from elea.node.stats import Refusal
from elea.node.views import Departed, NeighbourView, view_of
from elea.routing.core import Routing
from elea.routing.effects import Output
from elea.routing.face import FaceSpec, local_face
from elea.routing.pubsub_hot import PushSource
from elea.timestamp import HybridClock
from elea.transport.events import Events, KeepAliveDue, LinkLost
from elea.transport.handshake import Acceptor, Opener, State
from elea.transport.negotiation import Agreed
from elea.transport.reassembly import FragmentPool
from elea.transport.stats_hot import TransportStats
from elea.transport.unicast_hot import Phase as TransportPhase
from elea.transport.unicast_hot import Transport
from elea.wire.codec_hot import NetworkMessage
from elea.wire.fields_hot import Stamp
from elea.wire.framing_hot import frame
from elea.wire.transport.close import CloseReason


class Node:
    """One Zenoh node."""

    def __init__(
        self, settings: NodeSettings, *, rng: Rng, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.settings = settings
        self.zid = settings.zid
        self.whatami = settings.whatami
        self.limits = limits
        self.egress = Egress(self._wait)
        output = self._output()
        # Where samples may go without a message; None if the output must see each.
        self.direct = self.egress if output is self.egress else None
        role = settings.role()
        self.routing = Routing(settings.zid, role, output, limits, settings.routing)
        # A sample of a session goes out. Bound once: it takes no interpreted step.
        self.local_push = Door(self.egress, self.routing.push).push
        self.awaits = self.routing.queries.awaits
        room = Room(self.routing, self._place)
        self.has_room, self.has_reply_room = room.for_sample, room.for_reply
        self._clock = HybridClock(ZenohId.from_bytes(settings.zid))
        self._stamper: Stamper | None = None
        self._effects: list[Effect] = []
        self._links: dict[int, NodeLink] = {}
        self._neighbours: dict[bytes, Neighbour] = {}
        who = Admission(settings, role, self._neighbours, self._links, rng, limits, self._give_up)
        self.admission, self.stats = who, who.stats
        self._expiries = Expiries()
        self._connectors = Connectors(
            settings, self._neighbours, self._effects.append, rng, limits, who.stats
        )
        self._by_face: dict[int, Neighbour] = {}
        self.departed = Departed()
        self._sessions: dict[int, Session] = {}
        self.holding = Holding(self._links, settings, limits, self._effects.append)
        self.guards = Guards(
            settings.policy, self.routing, self.egress, self.holding, self._told_ns, limits
        )
        self.asker = self.guards.asker
        self._fragments = FragmentPool(limits.fragments_node_len)
        self._dirty: dict[int, None] = {}
        self._last_id = self._now_ns = 0
        self._closed = False
        self._blocked = False  # what a session just sent waits for room
        self.groups = Groups(
            settings,
            self.routing,
            self.egress,
            rng,
            limits,
            self._dirty,
            self._next_id,
            self._announce,
            self.guards,
        )

    # Life.

    def tell_time(self, wall_ns: Callable[[], int]) -> None:
        """Whom to ask for the time of day: a router stamps the samples that it forwards."""
        self._expiries.tell_time(wall_ns)
        if self.settings.timestamping and self.whatami is WhatAmI.ROUTER:
            self._stamper = Stamper(self._clock, wall_ns, drops_future=self.settings.drop_future)
            self.routing.stamp_samples(self._stamper.stamp)

    def start(self, now_ns: int) -> None:
        """Begin to connect. Listening is the driver's: it reads `settings.listen`."""
        self._now_ns = now_ns
        self._connectors.start(now_ns)
        self.handle_timer(now_ns)

    def close(self, now_ns: int) -> None:
        """Say CLOSE on every link; the driver closes them once it has written that."""
        self._now_ns = now_ns
        self._closed = True
        self._connectors.clear()
        for neighbour in list(self._neighbours.values()):
            self._mute(neighbour)
            neighbour.transport.close(CloseReason.GENERIC, now_ns)
        for link in list(self._links.values()):
            self._dirty[link.id] = None
            self._end_link(link, "closed here")
        for link_id in self.groups.leave():
            self._effects.append(CloseLink(link_id, "closed here"))

    def effects(self) -> list[Effect]:
        """What the driver shall do, oldest first; taken once."""
        if self.routing.candidates:
            self._consider_candidates()
        if self.routing.debts:
            self.guards.hold_debtors(self.routing.debts)
        taken, self._effects[:] = self._effects[:], []  # the list itself stays
        return taken

    def dirty_links(self) -> list[int]:
        """Links that have something to pull; taken once."""
        if self.egress.dirty:
            for outlet in self.egress.take_dirty():
                place = self._place(outlet.face_id)
                if place is not None:
                    self._dirty.update(place.links)
        taken = list(self._dirty)
        self._dirty.clear()
        return taken

    def has_work(self) -> bool:
        """Whether there is something to write, or something else for the driver to do."""
        routing = self.routing.candidates or self.routing.debts
        return bool(self._effects or self._dirty or routing or self.egress.dirty)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        machines = (self.routing, self.groups, self._connectors, self.guards, self._expiries)
        times = [one.next_timer_ns() for one in machines]
        times += [session.next_timer_ns() for session in self._sessions.values()]
        for link in self._links.values():
            if link.handshake is not None:
                times.append(link.handshake.next_timer_ns())
        for neighbour in self._neighbours.values():
            times.append(neighbour.transport.next_timer_ns())
            times.append(self.holding.due_ns(neighbour.backlog))
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        self._now_ns = now_ns
        self._connectors.handle_timer(now_ns)
        for link_id in self._expiries.take(now_ns):
            self._expire(self._links[link_id], now_ns)
        for link in list(self._links.values()):
            if link.handshake is not None:
                link.handshake.handle_timer(now_ns)
                self._advance(link, now_ns)
        for neighbour in list(self._neighbours.values()):
            self._time_neighbour(neighbour, now_ns)
        for face_id, reason in self.guards.overdue(now_ns):
            self._give_up(self._by_face[face_id], reason, now_ns)
        fat = self.holding.excess(list(self._neighbours.values()))
        if fat is not None:
            self._give_up(fat, "too much waits for it", now_ns, CloseReason.UNRESPONSIVE)
        self.groups.handle_timer(now_ns)
        self.routing.handle_timer(now_ns)
        for session in list(self._sessions.values()):
            session.handle_timer(now_ns)

    # Links.

    def link_opened(
        self,
        link_id: int,
        info: LinkInfo,
        now_ns: int,
        *,
        connector_id: int | None = None,
        opened: bool = False,
    ) -> None:
        """A link was made: `opened` by us, or accepted."""
        self._now_ns, connector = now_ns, self._connectors.get(connector_id)
        link = self.admission.begin(link_id, info, connector, now_ns, opened=opened)
        self._links[link_id] = link
        self._expiries.watch(link_id, info.expires_s, now_ns)
        if link.handshake is None:
            self._dirty[link_id] = None
            self.guards.login_refused(info, TOO_MANY_GUESSES)
            self._end_link(link, TOO_MANY_GUESSES)
        self._advance(link, now_ns)

    def connect_failed(self, connector_id: int, reason: str, now_ns: int) -> None:
        """No link could be made for a Connect effect."""
        self._now_ns = now_ns
        connector = self._connectors.get(connector_id)
        if connector is not None:
            self._connectors.failed(connector, reason, now_ns)

    def connect_to(self, groups: EndpointGroups, now_ns: int) -> None:
        """Want to be connected to these from now on; neighbours stay."""
        self.settings = replace(self.settings, connect=groups)
        self._connectors.configure(groups, now_ns)

    def heard_of(self, told: Told, now_ns: int) -> None:
        """Somebody told of a node: connect to it, if it is one to connect to."""
        self._now_ns = now_ns
        known = self.admission.upstream() is not None or told.zid in (
            *self._neighbours,
            *(one.zid for one in self.groups.members()),  # whom samples would reach twice
        )
        if not (self._closed or known or self.routing.role.place(told.whatami) is None):
            self._connectors.hear(told, now_ns)

    def link_data(self, link_id: int, data: bytes, now_ns: int) -> int:
        """Octets arrived: any number of a stream, or one datagram.

        Returns:
            How many it would be best to read next; 0: as many as there are.
        """
        self._now_ns = now_ns
        link = self._links.get(link_id)
        if link is None or link.closing:
            return 0
        if link.intake is not None:
            return link.intake.receive(data, now_ns)
        stream = link.stream
        try:
            if stream is None:
                self._shake(link, data, now_ns)
                return 0
            stream.feed(data)
            while link.handshake is not None and stream.next_window():
                self._shake(link, stream.data[stream.start : stream.stop], now_ns)
        except (DecodeError, RemoteProtocolError) as error:
            self._lose(link, f"protocol violation: {error}", now_ns)  # without a word (1.8)
        intake = self.intake(link_id)
        return 0 if intake is None else intake.receive(b"", now_ns)  # what came in the same read

    def link_held(self, link_id: int, held: bool, now_ns: int) -> None:
        """The driver does not read a link, on purpose: it does not expire. Or reads it again."""
        link = self._links.get(link_id)
        if link is not None and link.neighbour is not None:
            link.neighbour.transport.hold_link(link_id, held, now_ns)

    def intake(self, link_id: int) -> Intake | None:
        """Where the octets of a link go once it is part of a transport."""
        link = self._links.get(link_id)
        return None if link is None or link.closing else link.intake

    def link_closed(self, link_id: int, reason: str, now_ns: int) -> None:
        """The link is gone: the other end closed it, or it broke."""
        self._now_ns = now_ns
        link = self._links.pop(link_id, None)
        self._expiries.forget(link_id)
        if link is not None:
            self._dirty.pop(link_id, None)
            self._drop_link(link, reason, now_ns)
        self.groups.closed(link_id, reason, now_ns)

    def pull(self, link_id: int, now_ns: int) -> bytes | None:
        """The next batch to write on a link, or None."""
        parts: list[bytes | memoryview] = []
        return b"".join(parts) if self.pull_into(link_id, now_ns, parts) else None

    def pull_into(self, link_id: int, now_ns: int, parts: list[bytes | memoryview]) -> bool:
        """As `pull`, into a list: one entry if the link is no stream. Whether there was a batch."""
        link = self._links.get(link_id)
        if link is None:
            batch = self.groups.pull(link_id, now_ns)
            if batch is not None:
                parts.append(batch)
            return batch is not None
        if link.outgoing:
            parts.append(link.outgoing.popleft())
            return True
        neighbour = link.neighbour
        if neighbour is None:
            return False
        found = neighbour.transport.pull_into(link_id, now_ns, parts)
        if neighbour.backlog:
            neighbour.backlog.retry(now_ns)
            neighbour.outlet.stuck = bool(neighbour.backlog)
            self.holding.shrank(neighbour.face_id, neighbour.backlog)
            found = found or neighbour.transport.pull_into(link_id, now_ns, parts)
        return found

    # Sessions.

    def attach(self, session: Session, now_ns: int | None = None) -> int:
        """A face for a session."""
        now_ns = self._now_ns = self._now_ns if now_ns is None else now_ns
        face_id = self._next_id()
        self._sessions[face_id] = session
        self.egress.outlets[face_id] = Outlet(face_id, session, None)
        self.routing.open_face(face_id, local_face(self.zid, self.whatami.index), now_ns)
        return face_id

    def detach(self, face_id: int, now_ns: int) -> None:
        """The session is gone, and with it all it declared."""
        self._now_ns = now_ns
        self.routing.close_face(face_id, now_ns)
        self._sessions.pop(face_id, None)
        self.egress.outlets.pop(face_id, None)

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """Anything else of a session goes out."""
        self._now_ns = now_ns
        self._blocked = False
        self.routing.receive(face_id, message, reliable, now_ns)
        self.egress.timers_moved = True
        return QUEUED if self._blocked else SENT

    def set_timer(self) -> None:
        """A session may have set a nearer timer."""
        self.egress.timers_moved = True

    def push_source(self, face_id: int) -> PushSource | None:
        """The routes of what a session publishes."""
        return self.routing.push_source(face_id)

    def sessions(self) -> list[Session]:
        """The sessions there are."""
        return list(self._sessions.values())

    def connection_state(self) -> ConnectionState:
        """Whether what was to be connected is (behaviour.md 1.11, 1.12)."""
        awaited = self._by_face if self.settings.awaits_declarations else ()
        ready = all(map(self.routing.is_ready, awaited))
        phases = [one.phase for one in self._connectors]
        return state_of(phases, self.settings, connected=bool(self._neighbours), ready=ready)

    def neighbours(self) -> list[NeighbourUp]:
        """Who is connected, or in a group with this node."""
        return [one.up() for one in self._neighbours.values()] + self.groups.members()

    def views(self) -> list[NeighbourView]:
        """The neighbours as operators see them."""
        known = self._neighbours.values()
        return [view_of(one, self._links, self.routing, self.guards) for one in known]

    def face_of(self, zid: bytes) -> int | None:
        """The face of a neighbour in routing."""
        neighbour = self._neighbours.get(zid)
        return None if neighbour is None else neighbour.face_id

    def transport_stats(self) -> dict[bytes, TransportStats]:
        """What went through, and what did not, by neighbour."""
        return {one.zid: one.stats for one in self._neighbours.values()}

    def is_empty(self) -> bool:
        """Whether nothing is remembered and nothing is due: true when all is closed."""
        places = (self._links, self._neighbours, self._by_face, self._sessions, self.guards)
        others = (self.egress.outlets, self._connectors, self.groups, self._fragments)
        remembered = any((*places, *others, self._effects, self._dirty, self._expiries))
        return not remembered and self.next_timer_ns() is None and self.routing.is_empty()

    def is_congested(self) -> bool:
        """Whether a message that may not be dropped waits for room, anywhere."""
        waits = any(one.backlog for one in self._by_face.values())
        return waits or any(one.backlog for one in self.groups.by_face.values())

    def timestamp(self, wall_ns: int) -> Stamp:
        """A timestamp of this node's clock."""
        return Stamp(self._clock.tick(wall_ns), self._clock.id.to_bytes())

    # Inside.

    def _output(self) -> Output:
        """Where the messages of routing go; a seam for simulations that plant bugs."""
        return self.egress

    def _wait(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        """A message finds no room, or others of its priority that wait for some."""
        place = self._place(face_id)
        assert place is not None  # it has an outlet
        result = place.backlog.send(message, reliable, self._told_ns())
        self._blocked |= result == QUEUED
        place.outlet.stuck = bool(place.backlog)
        self.holding.grew(face_id, place.backlog, self.egress.source_link_id)
        return result

    def _told_ns(self) -> int:
        """The time; a session's put and octets tell it to the egress alone."""
        return max(self._now_ns, self.egress.now_ns)

    def _place(self, face_id: int) -> Neighbour | Group | None:
        return self._by_face.get(face_id) or self.groups.by_face.get(face_id)

    def _consider_candidates(self) -> None:
        """Gossip told of nodes."""
        for one in self.routing.connect_candidates():
            teller = self._by_face.get(one.face_id)
            if teller is not None:
                at = Teller.behind(teller.info)
                told = Told(one.zid, one.whatami, one.locators, at, by_gossip=True)
                self.heard_of(told, self._now_ns)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _shake(self, link: NodeLink, batch: bytes, now_ns: int) -> None:
        assert link.handshake is not None
        link.handshake.receive_batch(batch, now_ns)
        self._advance(link, now_ns)

    def _advance(self, link: NodeLink, now_ns: int) -> None:
        """Act on what a handshake came to."""
        handshake = link.handshake
        if handshake is None:
            return
        if isinstance(handshake, Opener) and handshake.state is State.PEER_KNOWN:
            self.admission.opening(link, handshake, now_ns)
        elif isinstance(handshake, Acceptor) and handshake.state is State.ADMITTING:
            self.admission.accepting(link, handshake, now_ns)
        for batch in handshake.outgoing():
            link.outgoing.append(frame(batch) if link.info.stream else batch)
            self._dirty[link.id] = None
        failure = handshake.failure
        if failure is not None:
            self.admission.failed(link, failure, now_ns)
            link.handshake = None
            connector = link.connector
            if connector is not None and connector.expected_zid and not failure.by_peer:
                link.connector = None
                self._connectors.refuted(connector, link.info.remote, failure.reason, now_ns)
            if isinstance(handshake, Acceptor):
                self.guards.login_refused(link.info, failure.reason)
            self._lose(link, failure.reason, now_ns)
        elif handshake.agreed is not None:
            link.handshake = None
            self._establish(link, handshake.agreed, now_ns)

    def _establish(self, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        known = self._neighbours.get(agreed.peer_zid)
        if known is not None:
            if not agreed.joins(known.agreed):
                self._lose(link, "parameters differ from the first link's", now_ns)
                return
            self._join(known, link, agreed, now_ns)
            return
        upstream = self.admission.upstream()
        if upstream is not None:  # two answered at the same time, and a client needs one
            content(link, upstream)
            self._end_link(link, "connected already")
            return
        placement = self.admission.place(link.info, agreed)
        if placement is None:
            reason = "the roles and gateway/south of the two nodes contradict each other"
            self._lose(link, reason, now_ns)
            return
        face_id = self._next_id()
        limits, how = self.limits, self.settings.transport
        transport = Transport(agreed, limits=limits, pool=self._fragments, settings=how)
        sink = FaceSink(self.routing, face_id, self.direct, self._stamper, limits.routes_count)
        neighbour = Neighbour.new(transport, sink, link.info, now_ns)
        self._neighbours[agreed.peer_zid] = neighbour
        self._by_face[face_id] = neighbour
        self.egress.outlets[face_id] = neighbour.outlet
        self._join(neighbour, link, agreed, now_ns)
        self._announce(neighbour.up())
        spec = FaceSpec(
            zid=agreed.peer_zid,
            whatami=agreed.peer_whatami,
            region=placement.region,
            gateway=placement.gateway,
            request_id_max=agreed.request_id_max,
        )
        self.routing.open_face(face_id, spec, now_ns)

    def _join(self, neighbour: Neighbour, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        neighbour.join(link, agreed, now_ns, self.limits)
        self.guards.join(neighbour, self._links)
        if link.connector is not None:
            link.connector.connected()
        self._connectors.satisfied(link.connector)
        link.intake = Intake(
            link.id,
            neighbour.transport,
            neighbour.sink,
            link.stream,
            self.egress,
            self._settle,
            lambda error, now_ns: self._lose(link, f"protocol violation: {error}", now_ns),
        )

    def _announce(self, event: NeighbourUp | NeighbourDown) -> None:
        self._effects.append(event)
        for session in self._sessions.values():
            session.neighbour(event)

    def _settle(self, events: Events, now_ns: int) -> None:
        """Act on what a transport noticed."""
        for event in events:
            if isinstance(event, KeepAliveDue):
                self._dirty[event.link_id] = None
            elif isinstance(event, LinkLost):
                link = self._links.get(event.link_id)
                if link is not None:
                    self._lose(link, event.reason, now_ns)

    def _time_neighbour(self, neighbour: Neighbour, now_ns: int) -> None:
        self._settle(neighbour.transport.handle_timer(now_ns), now_ns)
        due_ns = self.holding.due_ns(neighbour.backlog)
        if due_ns is not None and now_ns >= due_ns:
            self._give_up(neighbour, "closed here: unresponsive", now_ns, CloseReason.UNRESPONSIVE)

    def _expire(self, link: NodeLink, now_ns: int) -> None:
        """A certificate of a link has ended: the neighbour has to prove itself anew."""
        self.stats.refuse(Refusal.EXPIRED)
        if link.neighbour is None:
            self._lose(link, EXPIRED, now_ns)
        else:
            self._give_up(link.neighbour, EXPIRED, now_ns, CloseReason.EXPIRED)

    def _mute(self, neighbour: Neighbour) -> None:
        """Nothing more goes to a neighbour that is being closed."""
        neighbour.backlog.clear()
        self.holding.shrank(neighbour.face_id, neighbour.backlog)
        neighbour.outlet.stuck = True  # who knows the outlet finds that it is gone
        neighbour.outlet.link_id = -1
        self.egress.outlets.pop(neighbour.face_id, None)

    def _drop_link(self, link: NodeLink, reason: str, now_ns: int) -> None:
        """Forget what depended on a link; the link itself may still write its last words."""
        connector, link.connector = link.connector, None
        neighbour, link.neighbour = link.neighbour, None
        if link.intake is not None:
            link.intake.closed = True
            link.intake = None  # it knows the link: what both hold is freed now, not some time
        if connector is not None:
            self._connectors.dropped(connector, reason, now_ns)
        if neighbour is None:
            return
        neighbour.transport.remove_link(link.id, reason)
        neighbour.links.pop(link.id, None)
        if neighbour.links:
            neighbour.note_sole_link()
            is_open = neighbour.transport.phase is TransportPhase.OPEN
            if is_open and neighbour.transport.has_carried(link.id):
                # Declarations on their way are lost: only a new transport repairs the tables.
                self._give_up(neighbour, reason, now_ns)
            return
        del self._by_face[neighbour.face_id]
        self.guards.leave(neighbour.face_id, reason)
        self._mute(neighbour)
        self.departed.add(self._neighbours.pop(neighbour.zid))
        self.routing.close_face(neighbour.face_id, now_ns)
        self._connectors.lost(neighbour, now_ns)
        self._announce(NeighbourDown(neighbour.zid, neighbour.whatami, reason))

    def _give_up(
        self, neighbour: Neighbour, reason: str, now_ns: int, why: CloseReason = CloseReason.GENERIC
    ) -> None:
        """Give a neighbour up, with all its links; what waits for it is dropped."""
        self._mute(neighbour)
        neighbour.transport.close(why, now_ns, flush=False)
        for link_id in list(neighbour.links):
            link = self._links[link_id]
            last_words = neighbour.transport.pull(link_id, now_ns)
            if last_words is not None:
                link.outgoing.append(last_words)
                self._dirty[link_id] = None
            self._lose(link, reason, now_ns)

    def _lose(self, link: NodeLink, reason: str, now_ns: int) -> None:
        """Forget what depended on a link, and close it when its last words are written."""
        self._drop_link(link, reason, now_ns)
        self._end_link(link, reason)

    def _end_link(self, link: NodeLink, reason: str) -> None:
        if not link.closing:
            link.closing = True
            self._effects.append(CloseLink(link.id, reason))

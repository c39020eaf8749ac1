"""Node: transports, routing and timers of one Zenoh node, without I/O.

A driver feeds it links, octets and the time, and writes what `pull` gives back. Sessions are faces
of the node: they call `local_push` and `local_send`, and get what is for them through their sink.
Everything here runs under the driver's one lock; nothing here calls user code.

The node passes inputs on to machines that own their state, and collects their effects: `Links`,
`Handshakes` (with `Admission`), `Neighbours` (with `Holding` and `Guards`), `Dialling`, `Groups`.
"""

from __future__ import annotations

from collections.abc import Callable

from elea.answers import QUEUED, SENT
from elea.errors import DecodeError, RemoteProtocolError
from elea.fast.egress import Door, Egress
from elea.fast.intake import Intake
from elea.fast.stamping import Stamper
from elea.fast.traffic import KeyTraffic
from elea.ids import Rng, WhatAmI, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.node.admission import Admission
from elea.node.dialling import Dialling
from elea.node.expiry import Expiries
from elea.node.groups import Group, Groups
from elea.node.guards import Guards
from elea.node.handshakes import Handshakes
from elea.node.holding import Holding
from elea.node.links import Links
from elea.node.neighbour import ConnectionState, Neighbour, state_of
from elea.node.neighbours import Neighbours
from elea.node.ports import CloseLink, Effect, LinkInfo, NeighbourDown, NeighbourUp, Teller, Told
from elea.node.room import Room
from elea.node.sessions import Session, Sessions
from elea.node.settings import EndpointGroups, NodeSettings
from elea.node.stats import NodeStats, Refusal
from elea.node.views import NeighbourView, view_of
from elea.records import replace
from elea.routing.core import Routing
from elea.routing.effects import Output
from elea.routing.now import Now
from elea.routing.push import PushSource
from elea.timestamp import HybridClock
from elea.transport.stats import TransportStats
from elea.wire.codec import NetworkMessage
from elea.wire.fields import Stamp


class Node:
    """One Zenoh node."""

    def __init__(
        self, settings: NodeSettings, *, rng: Rng, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.settings = settings
        self.zid, self.whatami = settings.zid, settings.whatami
        self.limits = limits
        self.egress = Egress(self._wait)
        output = self._output()
        # Where samples may go without a message; None if the output must see each.
        self.direct = self.egress if output is self.egress else None
        role = settings.role()
        self._now = Now()
        self.routing = Routing(settings.zid, role, output, limits, settings.routing, self._now)
        # A sample of a session goes out. Bound once: it takes no interpreted step.
        self.local_push = Door(self._now, self.routing.push).push
        self.awaits = self.routing.queries.awaits
        room = Room(self.routing, self._place)
        self.has_room, self.has_reply_room = room.for_sample, room.for_reply
        self._clock = HybridClock(ZenohId.from_bytes(settings.zid))
        self._effects: list[Effect] = []
        self._sessions = Sessions(self.zid, self.whatami.index, self.routing, self.egress)
        self._last_face_id = 0
        self.traffic = KeyTraffic(limits.counted_keys_count, limits.counted_keys_ns)
        self._closed = self._blocked = False  # blocked: what a session just sent waits for room
        self.stats = NodeStats()
        ask = self._effects.append
        self._links = links = Links(ask)
        self._expiries = Expiries()
        self.holding = Holding(links, settings, limits, ask)
        self.guards = Guards(settings.policy, self.routing, self.egress, self.holding, limits)
        self.asker = self.guards.asker
        self._dialling = Dialling(settings, ask, rng, limits, self.stats)
        self._neighbours = Neighbours(
            settings,
            limits,
            self.routing,
            self.egress,
            self.direct,
            links,
            self.holding,
            self.guards,
            self._dialling,
            self._announce,
            self.traffic,
        )
        self.departed = self._neighbours.departed
        self.admission = Admission(
            settings, role, self._neighbours, links, self._dialling, rng, limits, self.stats
        )
        self._handshakes = Handshakes(
            self.admission, links, self._neighbours, self._dialling, self.guards, self._next_face_id
        )
        self.groups = Groups(
            settings,
            self.routing,
            self.egress,
            rng,
            limits,
            links,
            self._next_face_id,
            self._announce,
            self.guards,
            self.traffic,
        )

    # Life.

    def tell_time(self, wall_ns: Callable[[], int]) -> None:
        """Whom to ask for the time of day: a router stamps the samples that it forwards."""
        self._expiries.tell_time(wall_ns)
        if self.settings.timestamping and self.whatami is WhatAmI.ROUTER:
            stamper = Stamper(self._clock, wall_ns, drops_future=self.settings.drop_future)
            self._neighbours.stamp_with(stamper)
            self.routing.stamp_samples(stamper.stamp)

    def start(self, now_ns: int) -> None:
        """Begin to connect. Listening is the driver's: it reads `settings.listen`."""
        self._now.ns = now_ns
        self._dialling.start(now_ns)
        self.handle_timer(now_ns)

    def close(self, now_ns: int) -> None:
        """Say CLOSE on every link; the driver closes them once it has written that."""
        self._now.ns = now_ns
        self._closed = True
        self._dialling.clear()
        self._neighbours.close(now_ns)
        for link in self._links.all():
            self._links.mark_dirty(link.id)
            self._links.end(link, "closed here")
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
                    self._links.mark_dirty(*place.links)
        return self._links.take_dirty()

    def has_work(self) -> bool:
        """Whether there is something to write, or something else for the driver to do."""
        to_write = self._links.is_dirty() or self.egress.dirty
        return bool(self._effects or to_write or self.routing.candidates or self.routing.debts)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        times = (
            self.routing.next_timer_ns(),
            self.groups.next_timer_ns(),
            self.guards.next_timer_ns(),
            self._dialling.next_timer_ns(),
            self._expiries.next_timer_ns(),
            self._handshakes.next_timer_ns(),
            self._neighbours.next_timer_ns(),
            self._sessions.next_timer_ns(),
        )
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        self._now.ns = now_ns
        self._dialling.handle_timer(now_ns)
        for link_id in self._expiries.take(now_ns):
            link = self._links.get(link_id)
            assert link is not None  # a link that goes is forgotten there, too
            self.stats.refuse(Refusal.EXPIRED)
            self._neighbours.expire(link, now_ns)
        self._handshakes.handle_timer(now_ns)
        self._neighbours.handle_timer(now_ns)
        self.groups.handle_timer(now_ns)
        self.routing.handle_timer(now_ns)
        self._sessions.handle_timer(now_ns)

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
        self._now.ns = now_ns
        self._expiries.watch(link_id, info.expires_s, now_ns)
        self._handshakes.begin(link_id, info, connector_id, now_ns, opened=opened)

    def connect_failed(self, connector_id: int, reason: str, now_ns: int) -> None:
        """No link could be made for a Connect effect."""
        self._now.ns = now_ns
        connector = self._dialling.get(connector_id)
        if connector is not None:
            self._dialling.failed(connector, reason, now_ns)

    def connect_to(self, groups: EndpointGroups, now_ns: int) -> None:
        """Want to be connected to these from now on; neighbours stay."""
        self.settings = replace(self.settings, connect=groups)
        self._dialling.configure(groups, now_ns)

    def heard_of(self, told: Told, now_ns: int) -> None:
        """Somebody told of a node: connect to it, if it is one to connect to."""
        self._now.ns = now_ns
        is_known = (
            self.admission.upstream() is not None
            or self._neighbours.get(told.zid) is not None
            or any(told.zid == one.zid for one in self.groups.members())  # it would get all twice
        )
        if not (self._closed or is_known or self.routing.role.place(told.whatami) is None):
            self._dialling.hear(told, now_ns)

    def link_data(self, link_id: int, data: bytes, now_ns: int) -> int:
        """Octets arrived: any number of a stream, or one datagram.

        Returns:
            How many it would be best to read next; 0: as many as there are.
        """
        self._now.ns = now_ns
        link = self._links.get(link_id)
        if link is None or link.closing:
            return 0
        if link.intake is None:
            try:
                self._handshakes.receive(link, data, now_ns)
            except (DecodeError, RemoteProtocolError) as error:  # without a word (1.8)
                self._neighbours.lose(link, f"protocol violation: {error}", now_ns)
            if link.stream is None:
                return 0
            data = b""  # what came in the same read is in the stream
        intake = self.intake(link_id)
        return 0 if intake is None else intake.receive(data, now_ns)

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
        self._now.ns = now_ns
        self._expiries.forget(link_id)
        link = self._links.remove(link_id)
        if link is not None:
            self._neighbours.drop_link(link, reason, now_ns)
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
        return self._neighbours.pull_into(neighbour, link_id, now_ns, parts)

    # Sessions.

    def attach(self, session: Session, now_ns: int | None = None) -> int:
        """A face for a session."""
        now_ns = self._now.ns = self._now.ns if now_ns is None else now_ns
        face_id = self._next_face_id()
        self._sessions.attach(session, face_id, now_ns)
        return face_id

    def detach(self, face_id: int, now_ns: int) -> None:
        """The session is gone, and with it all it declared."""
        self._now.ns = now_ns
        self._sessions.detach(face_id, now_ns)

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """Anything else of a session goes out."""
        self._now.ns = now_ns
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
        return list(self._sessions)

    def connection_state(self) -> ConnectionState:
        """Whether what was to be connected is (behaviour.md 1.11, 1.12)."""
        awaited = self._neighbours.faces() if self.settings.awaits_declarations else ()
        ready = all(map(self.routing.is_ready, awaited))
        phases = [one.phase for one in self._dialling]
        return state_of(phases, self.settings, connected=bool(self._neighbours), ready=ready)

    def neighbours(self) -> list[NeighbourUp]:
        """Who is connected, or in a group with this node."""
        return [one.up() for one in self._neighbours] + self.groups.members()

    def views(self) -> list[NeighbourView]:
        """The neighbours as operators see them."""
        return [view_of(one, self._links, self.routing, self.guards) for one in self._neighbours]

    def face_of(self, zid: bytes) -> int | None:
        """The face of a neighbour in routing."""
        neighbour = self._neighbours.get(zid)
        return None if neighbour is None else neighbour.face_id

    def transport_stats(self) -> dict[bytes, TransportStats]:
        """What went through, and what did not, by neighbour."""
        return {one.zid: one.stats for one in self._neighbours}

    def is_empty(self) -> bool:
        """Whether nothing is remembered and nothing is due: true when all is closed."""
        machines = (self._links, self._dialling, self.groups, self.guards, self._expiries)
        remembered = any((*machines, self._sessions, self.egress.outlets, self._effects))
        pending = self._links.is_dirty() or self.next_timer_ns() is not None
        return (
            not (remembered or pending) and self._neighbours.is_empty() and self.routing.is_empty()
        )

    def is_congested(self) -> bool:
        """Whether a message that may not be dropped waits for room, anywhere."""
        waits = any(one.backlog for one in self._neighbours)
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
        result = place.backlog.send(message, reliable, self._now.ns)
        self._blocked |= result == QUEUED
        place.outlet.stuck = bool(place.backlog)
        self.holding.grew(face_id, place.backlog, self.egress.source_link_id)
        return result

    def _place(self, face_id: int) -> Neighbour | Group | None:
        return self._neighbours.at(face_id) or self.groups.by_face.get(face_id)

    def _consider_candidates(self) -> None:
        """Gossip told of nodes."""
        for one in self.routing.connect_candidates():
            teller = self._neighbours.at(one.face_id)
            if teller is not None:
                at = Teller.behind(teller.info)
                told = Told(one.zid, one.whatami, one.locators, at, by_gossip=True)
                self.heard_of(told, self._now.ns)

    def _next_face_id(self) -> int:
        self._last_face_id += 1
        return self._last_face_id

    def _announce(self, event: NeighbourUp | NeighbourDown) -> None:
        self._effects.append(event)
        self._sessions.announce(event)

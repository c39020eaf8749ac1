"""Node: transports, routing and timers of one Zenoh node, without I/O.

A driver feeds it links, octets and the time, and writes what `pull` gives back. Sessions are faces
of the node: they call `local_push` and `local_send`, and get what is for them through their sink.
Everything here runs under the driver's one lock; nothing here calls user code.
"""

from __future__ import annotations

from typing import Final

from elea.errors import ConfigError, DecodeError, RemoteProtocolError
from elea.ids import Rng, WhatAmI, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.node.backlog import Backlog
from elea.node.connector import Connector, Phase
from elea.node.egress_hot import FULL, SENT, Door, Egress, Outlet
from elea.node.neighbour import (
    ConnectionState,
    Neighbour,
    NodeLink,
    Session,
    may_join,
    state_of,
)
from elea.node.ports import (
    CloseLink,
    Connect,
    ConnectFailed,
    Effect,
    HoldReading,
    LinkInfo,
    NeighbourDown,
    NeighbourUp,
)
from elea.node.receive_hot import FaceSink
from elea.node.settings import NodeSettings
from elea.routing.core import Routing
from elea.routing.effects import Output
from elea.routing.face import FaceSpec, local_face
from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.timestamp import HybridClock
from elea.transport.cookie import CookieJar
from elea.transport.events import Events, KeepAliveDue, LinkLost
from elea.transport.handshake import Acceptor, Opener, State
from elea.transport.negotiation import Agreed
from elea.transport.reassembly import FragmentPool
from elea.transport.stats_hot import TransportStats
from elea.transport.unicast import Phase as TransportPhase
from elea.transport.unicast import Transport
from elea.wire.codec_hot import NetworkMessage
from elea.wire.fields_hot import Stamp
from elea.wire.framing import StreamDecoder, frame
from elea.wire.transport.close import CloseReason

_ROLES: Final = {WhatAmI.CLIENT: CLIENT_ROLE, WhatAmI.PEER: PEER_ROLE}


class Node:
    """One Zenoh node."""

    def __init__(
        self, settings: NodeSettings, *, rng: Rng, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.settings = settings
        self.zid = settings.zid
        self.whatami = settings.whatami
        self.limits = limits
        role = _ROLES.get(settings.whatami)
        if role is None:
            raise ConfigError("mode", f"a node of role {settings.whatami} cannot be run yet")
        self.egress = Egress(self._wait)
        self.routing = Routing(settings.zid, role, self._output(), limits, settings.routing)
        # A sample of a session goes out. Bound once: it takes no interpreted step.
        self.local_push = Door(self.egress, self.routing.push).push
        self._rng = rng
        self._fragments = FragmentPool(limits.fragments_node_len)
        self._source: NodeLink | None = None  # the link that is being read
        self._cookies = CookieJar(rng, limits=limits)
        self._clock = HybridClock(ZenohId.from_bytes(settings.zid))
        self._links: dict[int, NodeLink] = {}
        self._neighbours: dict[bytes, Neighbour] = {}
        self._by_face: dict[int, Neighbour] = {}
        self._sessions: dict[int, Session] = {}
        self._connectors: dict[int, Connector] = {}
        self._effects: list[Effect] = []
        self._dirty: dict[int, None] = {}
        self.timers_moved = False  # a session did something that may have set a nearer timer
        self._last_id = 0
        self._now_ns = 0
        self._closed = False

    # Life.

    def start(self, now_ns: int) -> None:
        """Begin to connect. Listening is the driver's: it reads `settings.listen`."""
        self._now_ns = now_ns
        timeout_ns = self.settings.connect_timeout_ns
        for group in self.settings.connect:
            id_ = self._next_id()
            self._connectors[id_] = Connector(
                id_, group, self.settings.retry, self._rng, now_ns, timeout_ns=timeout_ns
            )
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

    def effects(self) -> list[Effect]:
        """What the driver shall do, oldest first; taken once."""
        taken, self._effects = self._effects, []
        return taken

    def dirty_links(self) -> list[int]:
        """Links that have something to pull; taken once."""
        egress = self.egress
        if egress.dirty:
            egress.backlog = 0
            egress.express = False
            dirty, egress.dirty = egress.dirty, []
            for outlet in dirty:
                outlet.dirty = False
                neighbour = self._by_face.get(outlet.face_id)
                if neighbour is not None:
                    self._dirty.update(neighbour.links)
        taken = list(self._dirty)
        self._dirty.clear()
        return taken

    def has_work(self) -> bool:
        """Whether there is something to write, or something else for the driver to do."""
        return bool(self._effects or self.egress.dirty or self._dirty)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        times = [self.routing.next_timer_ns()]
        times += [session.next_timer_ns() for session in self._sessions.values()]
        for link in self._links.values():
            if link.handshake is not None:
                times.append(link.handshake.next_timer_ns())
        for neighbour in self._neighbours.values():
            times.append(neighbour.transport.next_timer_ns())
            stuck_ns = neighbour.backlog.stuck_since_ns()
            if stuck_ns is not None:
                times.append(stuck_ns + self.settings.wait_before_close_ns)
        times += [one.due_ns for one in self._connectors.values() if one.phase is Phase.WAITING]
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        self._now_ns = now_ns
        for connector in self._connectors.values():
            if connector.phase is Phase.WAITING and connector.due_ns <= now_ns:
                self._try(connector)
        for link in list(self._links.values()):
            if link.handshake is not None:
                link.handshake.handle_timer(now_ns)
                self._advance(link, now_ns)
        for neighbour in list(self._neighbours.values()):
            self._time_neighbour(neighbour, now_ns)
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
        expected_zid: bytes | None = None,
    ) -> None:
        """A link was made: `opened` by us, or accepted."""
        self._now_ns = now_ns
        offer = self.settings.offer(info.batch_len_max)
        handshake: Opener | Acceptor
        if opened:
            handshake = Opener(offer, now_ns, expected_zid=expected_zid, limits=self.limits)
        else:
            address = str(info.remote)
            handshake = Acceptor(offer, self._cookies, address, now_ns, limits=self.limits)
        link = NodeLink(
            link_id,
            info,
            self._connectors.get(connector_id) if connector_id is not None else None,
            handshake,
            StreamDecoder(batch_len_max=info.batch_len_max) if info.stream else None,
            now_ns,
        )
        self._links[link_id] = link
        self._advance(link, now_ns)

    def connect_failed(self, connector_id: int, reason: str, now_ns: int) -> None:
        """No link could be made for a Connect effect."""
        self._now_ns = now_ns
        connector = self._connectors.get(connector_id)
        if connector is not None:
            self._failed(connector, reason, now_ns)

    def link_data(self, link_id: int, data: bytes, now_ns: int) -> None:
        """Octets arrived: any number of a stream, or one datagram."""
        self._now_ns = now_ns
        link = self._links.get(link_id)
        if link is None or link.closing:
            return
        self._source = link
        try:
            if link.stream is None:
                self._batch(link, data, now_ns)
                return
            stream = link.stream
            stream.feed(data)
            while not link.closing:
                batch = stream.next_batch()
                if batch is None:
                    return
                self._batch(link, batch, now_ns)
        except (DecodeError, RemoteProtocolError) as error:
            # A link that breaks the rules is closed without a word (behaviour.md 1.8).
            self._drop_link(link, f"protocol violation: {error}", now_ns)
            self._end_link(link, str(error))
        finally:
            self._source = None

    def link_held(self, link_id: int, held: bool, now_ns: int) -> None:
        """The driver does not read a link, on purpose: it does not expire. Or reads it again."""
        link = self._links.get(link_id)
        if link is not None and link.neighbour is not None:
            link.neighbour.transport.hold_link(link_id, held, now_ns)

    def link_closed(self, link_id: int, reason: str, now_ns: int) -> None:
        """The link is gone: the other end closed it, or it broke."""
        self._now_ns = now_ns
        link = self._links.pop(link_id, None)
        if link is not None:
            self._dirty.pop(link_id, None)
            self._drop_link(link, reason, now_ns)

    def pull(self, link_id: int, now_ns: int) -> bytes | None:
        """The next octets to write on a link, or None."""
        link = self._links.get(link_id)
        if link is None:
            return None
        if link.outgoing:
            return link.outgoing.popleft()
        neighbour = link.neighbour
        if neighbour is None:
            return None
        data = neighbour.transport.pull(link_id, now_ns)
        if neighbour.backlog:
            neighbour.backlog.retry(now_ns)
            neighbour.outlet.stuck = bool(neighbour.backlog)
            if neighbour.backlog.sources:
                self._let_sources_go(neighbour)
            if data is None:
                data = neighbour.transport.pull(link_id, now_ns)
        return data

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
        self.routing.receive(face_id, message, reliable, now_ns)
        self.timers_moved = True
        return SENT if self.has_room(face_id) else FULL

    def sessions(self) -> list[Session]:
        """The sessions there are."""
        return list(self._sessions.values())

    def is_established(self, link_id: int) -> bool:
        """Whether a link has become part of a transport."""
        link = self._links.get(link_id)
        return link is not None and link.neighbour is not None

    def connection_state(self) -> ConnectionState:
        """Whether what was to be connected is (behaviour.md 1.11, 1.12)."""
        ready = all(self.routing.is_ready(one.face_id) for one in self._neighbours.values())
        phases = [one.phase for one in self._connectors.values()]
        is_client = self.whatami is WhatAmI.CLIENT
        return state_of(phases, is_client, connected=bool(self._neighbours), ready=ready)

    def neighbours(self) -> list[NeighbourUp]:
        """Who is connected."""
        return [NeighbourUp(one.zid, one.whatami, one.info) for one in self._neighbours.values()]

    def links_count(self, zid: bytes) -> int:
        """How many links lead to a neighbour."""
        neighbour = self._neighbours.get(zid)
        return 0 if neighbour is None else len(neighbour.links)

    def face_of(self, zid: bytes) -> int | None:
        """The face of a neighbour in routing."""
        neighbour = self._neighbours.get(zid)
        return None if neighbour is None else neighbour.face_id

    def transport_stats(self) -> dict[bytes, TransportStats]:
        """What went through, and what did not, by neighbour."""
        return {one.zid: one.transport.stats for one in self._neighbours.values()}

    def is_empty(self) -> bool:
        """Whether nothing is remembered and nothing is due: true when all is closed."""
        return (
            not self._links
            and not self._neighbours
            and not self._by_face
            and not self._sessions
            and not self.egress.outlets
            and not self._connectors
            and not self._effects
            and not self._dirty
            and not self._fragments
            and self.next_timer_ns() is None
            and self.routing.is_empty()
        )

    def has_room(self, face_id: int) -> bool:
        """Whether no blocking message waits for room."""
        return not any(one.backlog for one in self._neighbours.values())

    def timestamp(self, wall_ns: int) -> Stamp:
        """A timestamp of this node's clock."""
        stamp = self._clock.now(wall_ns)
        return Stamp(stamp.time.value, stamp.id.to_bytes())

    # Inside.

    def _output(self) -> Output:
        """Where the messages of routing go; a seam for simulations that plant bugs."""
        return self.egress

    def _wait(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        """A message finds no room, or others of its priority that wait for some."""
        neighbour = self._by_face[face_id]
        # A session's put tells the time to the egress alone.
        now_ns = max(self._now_ns, self.egress.now_ns)
        result = neighbour.backlog.send(message, reliable, now_ns)
        neighbour.outlet.stuck = bool(neighbour.backlog)
        source = self._source
        if source is not None and neighbour.backlog.pending_len > self.limits.backlog_len:
            neighbour.backlog.sources[source.id] = None
            if not source.waits_for:
                self._effects.append(HoldReading(source.id, True))
            source.waits_for.add(face_id)
        return result

    def _let_sources_go(self, neighbour: Neighbour) -> None:
        """Read again from links whose messages found no room at a neighbour, if there is some."""
        backlog = neighbour.backlog
        if 2 * backlog.pending_len > self.limits.backlog_len:
            return
        for link_id in backlog.sources:
            link = self._links.get(link_id)
            if link is not None:
                link.waits_for.discard(neighbour.face_id)
                if not link.waits_for:
                    self._effects.append(HoldReading(link_id, False))
        backlog.sources.clear()

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _try(self, connector: Connector) -> None:
        connector.trying()
        self._effects.append(
            Connect(connector.id, connector.endpoints, self.settings.open_timeout_ns)
        )

    def _failed(self, connector: Connector, reason: str, now_ns: int) -> None:
        connector.failed(reason, now_ns)
        self._effects.append(ConnectFailed(connector.id, reason))

    def _batch(self, link: NodeLink, batch: bytes, now_ns: int) -> None:
        neighbour = link.neighbour
        if neighbour is not None:
            neighbour.sink.now_ns = now_ns
            events = neighbour.transport.receive_batch(link.id, batch, now_ns, neighbour.sink)
            if events:
                self._settle(events, now_ns)
            return
        assert link.handshake is not None
        link.handshake.receive_batch(batch, now_ns)
        self._advance(link, now_ns)

    def _advance(self, link: NodeLink, now_ns: int) -> None:
        """Act on what a handshake came to."""
        handshake = link.handshake
        if handshake is None:
            return
        if isinstance(handshake, Opener) and handshake.state is State.PEER_KNOWN:
            self._decide_opening(link, handshake, now_ns)
        elif isinstance(handshake, Acceptor) and handshake.state is State.ADMITTING:
            self._decide_accepting(link, handshake, now_ns)
        for batch in handshake.outgoing():
            link.outgoing.append(frame(batch) if link.info.stream else batch)
            self._dirty[link.id] = None
        if handshake.failure is not None:
            link.handshake = None
            self._drop_link(link, handshake.failure.reason, now_ns)
            self._end_link(link, handshake.failure.reason)
        elif handshake.agreed is not None:
            link.handshake = None
            self._establish(link, handshake.agreed, now_ns)

    def _decide_opening(self, link: NodeLink, handshake: Opener, now_ns: int) -> None:
        zid = handshake.peer_known
        assert zid is not None  # what makes it a peer that is known
        known = self._neighbours.get(zid)
        if zid == self.zid:
            handshake.refuse(CloseReason.CONNECTION_TO_SELF)
        elif known is not None and not may_join(link, known):
            # Connected already, or found by scouting and connected meanwhile: one link is enough.
            connector, link.connector = link.connector, None
            if connector is not None:
                connector.connected()
                known.content.append(connector)
            handshake.refuse(CloseReason.GENERIC)
        else:
            handshake.proceed(now_ns)

    def _decide_accepting(self, link: NodeLink, handshake: Acceptor, now_ns: int) -> None:
        assert handshake.proposed is not None
        zid = handshake.proposed.peer_zid
        known = self._neighbours.get(zid)
        if zid == self.zid:
            handshake.refuse(CloseReason.CONNECTION_TO_SELF)
        elif known is not None and (
            not may_join(link, known)
            or any(self._links[one].connector is None for one in known.links)
        ):
            handshake.refuse(CloseReason.MAX_LINKS)
        elif known is None and len(self._neighbours) >= self.settings.sessions_max:
            handshake.refuse(CloseReason.INVALID)
        else:
            handshake.admit(now_ns)

    def _establish(self, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        known = self._neighbours.get(agreed.peer_zid)
        if known is not None:
            if not agreed.joins(known.agreed):
                self._drop_link(link, "parameters differ from the first link's", now_ns)
                self._end_link(link, "parameters differ")
                return
            self._join(known, link, agreed, now_ns)
            return
        placement = self.routing.role.place(agreed.peer_whatami, agreed.peer_remote_bound)
        if placement is None:
            self._drop_link(link, "a client does not connect to a client", now_ns)
            self._end_link(link, "a client does not connect to a client")
            return
        face_id = self._next_id()
        transport = Transport(agreed, limits=self.limits, pool=self._fragments)
        neighbour = Neighbour(
            agreed.peer_zid,
            agreed.peer_whatami,
            face_id,
            transport,
            Backlog(transport),
            FaceSink(self.routing, face_id),
            link.info,
            agreed,
            Outlet(face_id, None, transport.queues),
            now_ns,
        )
        self._neighbours[agreed.peer_zid] = neighbour
        self._by_face[face_id] = neighbour
        self.egress.outlets[face_id] = neighbour.outlet
        self._join(neighbour, link, agreed, now_ns)
        self._announce(NeighbourUp(neighbour.zid, neighbour.whatami, link.info))
        spec = FaceSpec(
            zid=agreed.peer_zid,
            whatami=agreed.peer_whatami,
            region=placement.region,
            gateway=placement.gateway,
        )
        self.routing.open_face(face_id, spec, now_ns)

    def _join(self, neighbour: Neighbour, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        link.neighbour = neighbour
        neighbour.links[link.id] = None
        neighbour.transport.add_link(link.id, agreed, now_ns, stream=link.info.stream)
        if link.stream is not None:
            link.stream.low_latency = agreed.low_latency
            prefix_len = 4 if agreed.low_latency else 2
            link.stream.batch_len_max = agreed.batch_len - prefix_len
        if link.connector is not None:
            link.connector.connected()

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
                    self._drop_link(link, event.reason, now_ns)
                    self._end_link(link, event.reason)

    def _time_neighbour(self, neighbour: Neighbour, now_ns: int) -> None:
        self._settle(neighbour.transport.handle_timer(now_ns), now_ns)
        stuck_ns = neighbour.backlog.stuck_since_ns()
        if stuck_ns is not None and now_ns - stuck_ns >= self.settings.wait_before_close_ns:
            self._mute(neighbour)
            neighbour.transport.close(CloseReason.UNRESPONSIVE, now_ns, flush=False)
        if neighbour.transport.phase is not TransportPhase.OPEN:
            for link_id in list(neighbour.links):
                self._dirty[link_id] = None
                self._end_link(self._links[link_id], "closed here: unresponsive")

    def _mute(self, neighbour: Neighbour) -> None:
        """Nothing more goes to a neighbour that is being closed."""
        neighbour.backlog.clear()
        self._let_sources_go(neighbour)
        self.egress.outlets.pop(neighbour.face_id, None)

    def _drop_link(self, link: NodeLink, reason: str, now_ns: int) -> None:
        """Forget what depended on a link; the link itself may still write its last words."""
        connector, link.connector = link.connector, None
        neighbour, link.neighbour = link.neighbour, None
        if connector is not None and connector.id in self._connectors:
            if connector.phase is Phase.CONNECTED:
                connector.lost(now_ns)
            else:
                self._failed(connector, reason, now_ns)
        if neighbour is None:
            return
        neighbour.transport.remove_link(link.id, reason)
        neighbour.links.pop(link.id, None)
        if neighbour.links:
            if neighbour.transport.phase is TransportPhase.OPEN:
                self._end_neighbour(neighbour, reason, now_ns)
            return
        del self._neighbours[neighbour.zid]
        del self._by_face[neighbour.face_id]
        self._mute(neighbour)
        self.routing.close_face(neighbour.face_id, now_ns)
        for waiting in neighbour.content:
            if waiting.id in self._connectors:
                waiting.lost(now_ns)
        self._announce(NeighbourDown(neighbour.zid, neighbour.whatami, reason))

    def _end_neighbour(self, neighbour: Neighbour, reason: str, now_ns: int) -> None:
        """One link of several is lost: the others go as well.

        What was on its way on the lost one is gone, declarations too, and nothing would repair the
        tables of either side. A new transport does.
        """
        neighbour.transport.close(CloseReason.GENERIC, now_ns, flush=False)
        for link_id in list(neighbour.links):
            link = self._links[link_id]
            last_words = neighbour.transport.pull(link_id, now_ns)
            if last_words is not None:
                link.outgoing.append(last_words)
                self._dirty[link_id] = None
            self._drop_link(link, reason, now_ns)
            self._end_link(link, reason)

    def _end_link(self, link: NodeLink, reason: str) -> None:
        if not link.closing:
            link.closing = True
            self._effects.append(CloseLink(link.id, reason))

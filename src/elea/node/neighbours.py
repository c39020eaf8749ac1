"""Neighbours: the nodes at the other end of links, from the first link to the last.

A neighbour is one transport over one link or more, one face in routing, and the messages that are
queued for it. How a link comes to one is the matter of `Handshakes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elea.fast.egress import Egress
from elea.fast.intake import Intake
from elea.fast.sink import FaceSink
from elea.fast.stamping import Stamper
from elea.fast.traffic import KeyTraffic
from elea.limits import Limits
from elea.node.dialling import Dialling
from elea.node.expiry import EXPIRED
from elea.node.guards import Guards
from elea.node.holding import Holding
from elea.node.links import Links, NodeLink
from elea.node.neighbour import Neighbour
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.node.settings import NodeSettings
from elea.node.views import Departed
from elea.routing.core import Routing
from elea.routing.face import FaceSpec
from elea.routing.regions import Placement
from elea.transport.events import Events, KeepAliveDue, LinkLost
from elea.transport.negotiation import Agreed
from elea.transport.reassembly import FragmentPool
from elea.transport.unicast import Phase, Transport
from elea.wire.transport.close import CloseReason

_CROWDED = "too much waits for it"
_UNRESPONSIVE = "closed here: unresponsive"


class Neighbours:
    """Who is connected, by identifier and by face.

    Args:
        settings: Of the node.
        limits: Of transports, fragments and routes.
        routing: Where faces open and close.
        egress: Where messages for neighbours leave.
        direct: Where samples may go without a message; None if the output must see each.
        links: Of the node.
        holding: Links that are not read while neighbours have no room.
        guards: Told of neighbours before their faces open.
        dialling: Told who is connected and who is lost.
        announce: Told of neighbours that come and go.
    """

    __slots__ = (
        "_announce",
        "_by_face",
        "_by_zid",
        "_dialling",
        "_direct",
        "_egress",
        "_fragments",
        "_guards",
        "_holding",
        "_limits",
        "_links",
        "_routing",
        "_stamper",
        "_traffic",
        "_transport_settings",
        "departed",
    )

    def __init__(
        self,
        settings: NodeSettings,
        limits: Limits,
        routing: Routing,
        egress: Egress,
        direct: Egress | None,
        links: Links,
        holding: Holding,
        guards: Guards,
        dialling: Dialling,
        announce: Callable[[NeighbourUp | NeighbourDown], None],
        traffic: KeyTraffic,
    ) -> None:
        self._traffic = traffic
        self._transport_settings = settings.transport
        self._limits = limits
        self._routing = routing
        self._egress = egress
        self._direct = direct
        self._links = links
        self._holding = holding
        self._guards = guards
        self._dialling = dialling
        self._announce = announce
        self._stamper: Stamper | None = None
        self._fragments = FragmentPool(limits.fragments_node_len)
        self._by_zid: dict[bytes, Neighbour] = {}
        self._by_face: dict[int, Neighbour] = {}
        self.departed = Departed()

    def __len__(self) -> int:
        return len(self._by_zid)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._by_zid.values())

    def get(self, zid: bytes) -> Neighbour | None:
        """Return the neighbour with an identifier."""
        return self._by_zid.get(zid)

    def at(self, face_id: int) -> Neighbour | None:
        """Return the neighbour of a face; None for a session, a group, or one that is gone."""
        return self._by_face.get(face_id)

    def faces(self) -> list[int]:
        """Return the faces of all neighbours."""
        return list(self._by_face)

    def is_empty(self) -> bool:
        """Return whether nothing is remembered, fragments included."""
        return not (self._by_zid or self._by_face or self._fragments)

    def stamp_with(self, stamper: Stamper) -> None:
        """Stamp the samples that neighbours send without a timestamp."""
        self._stamper = stamper

    # Links come and go.

    def establish(
        self, link: NodeLink, agreed: Agreed, placement: Placement, face_id: int, now_ns: int
    ) -> None:
        """Make a neighbour of the node at the other end of a link whose handshake is done."""
        transport = Transport(
            agreed, limits=self._limits, pool=self._fragments, settings=self._transport_settings
        )
        routes_count = self._limits.routes_count
        sink = FaceSink(
            self._routing, face_id, self._direct, self._stamper, routes_count, self._traffic
        )
        neighbour = Neighbour.new(transport, sink, link.info, now_ns)
        self._by_zid[agreed.peer_zid] = self._by_face[face_id] = neighbour
        self._egress.outlets[face_id] = neighbour.outlet
        self.join(neighbour, link, agreed, now_ns)
        self._announce(neighbour.up())
        spec = FaceSpec(
            zid=agreed.peer_zid,
            whatami=agreed.peer_whatami,
            region=placement.region,
            gateway=placement.gateway,
            request_id_max=agreed.request_id_max,
        )
        self._routing.open_face(face_id, spec, now_ns)

    def join(self, neighbour: Neighbour, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        """Make a link part of a neighbour's transport."""
        neighbour.join(link, agreed, now_ns, self._limits)
        self._guards.join(neighbour, self._links.infos(neighbour.links))
        self._dialling.connected(neighbour.zid, link.connector)
        link.intake = Intake(
            link.id,
            neighbour.transport,
            neighbour.sink,
            link.stream,
            self._egress,
            self._settle,
            lambda error, now_ns: self.lose(link, f"protocol violation: {error}", now_ns),
        )

    def lose(self, link: NodeLink, reason: str, now_ns: int) -> None:
        """Forget what depended on a link, and close it when its last words are written."""
        self.drop_link(link, reason, now_ns)
        self._links.end(link, reason)

    def drop_link(self, link: NodeLink, reason: str, now_ns: int) -> None:
        """Forget what depended on a link; the link itself may still write its last words."""
        connector, link.connector = link.connector, None
        neighbour, link.neighbour = link.neighbour, None
        if link.intake is not None:
            link.intake.closed = True
            link.intake = None  # it knows the link: what both hold is freed now, not some time
        if connector is not None:
            self._dialling.dropped(connector, reason, now_ns)
        if neighbour is None:
            return
        neighbour.transport.remove_link(link.id, reason)
        neighbour.links.pop(link.id, None)
        if not neighbour.links:
            self._remove(neighbour, reason, now_ns)
            return
        neighbour.note_sole_link()
        is_open = neighbour.transport.phase is Phase.OPEN
        if is_open and neighbour.transport.has_carried(link.id):
            # Declarations on their way are lost: only a new transport repairs the tables.
            self.give_up(neighbour, reason, now_ns)

    def give_up(
        self, neighbour: Neighbour, reason: str, now_ns: int, why: CloseReason = CloseReason.GENERIC
    ) -> None:
        """Close a neighbour with all its links; what is queued for it is dropped."""
        self._mute(neighbour)
        neighbour.transport.close(why, now_ns, flush=False)
        for link_id in list(neighbour.links):
            link = self._links.get(link_id)
            assert link is not None  # it is part of the transport
            last_words = neighbour.transport.pull(link_id, now_ns)
            if last_words is not None:
                link.outgoing.append(last_words)
                self._links.mark_dirty(link_id)
            self.lose(link, reason, now_ns)

    def expire(self, link: NodeLink, now_ns: int) -> None:
        """A certificate of a link has ended: the neighbour has to prove itself again."""
        if link.neighbour is None:
            self.lose(link, EXPIRED, now_ns)
        else:
            self.give_up(link.neighbour, EXPIRED, now_ns, CloseReason.EXPIRED)

    def close(self, now_ns: int) -> None:
        """Say CLOSE to all; what else is queued is dropped."""
        for neighbour in self:
            self._mute(neighbour)
            neighbour.transport.close(CloseReason.GENERIC, now_ns)

    def _remove(self, neighbour: Neighbour, reason: str, now_ns: int) -> None:
        """Forget a neighbour that has no link."""
        del self._by_face[neighbour.face_id]
        self._guards.leave(neighbour.face_id, reason)
        self._mute(neighbour)
        self.departed.add(self._by_zid.pop(neighbour.zid))
        self._routing.close_face(neighbour.face_id, now_ns)
        self._dialling.lost(neighbour.zid, now_ns)
        self._announce(NeighbourDown(neighbour.zid, neighbour.whatami, reason))

    def _mute(self, neighbour: Neighbour) -> None:
        """Let nothing more leave to a neighbour that is being closed."""
        neighbour.backlog.clear()
        self._holding.shrank(neighbour.face_id, neighbour.backlog)
        neighbour.outlet.stuck = True  # who knows the outlet finds that it is gone
        neighbour.outlet.link_id = -1
        self._egress.outlets.pop(neighbour.face_id, None)

    # Octets and time.

    def pull_into(
        self, neighbour: Neighbour, link_id: int, now_ns: int, parts: list[bytes | memoryview]
    ) -> bool:
        """Append the next batch for a link to a list; return whether there was one."""
        found = neighbour.transport.pull_into(link_id, now_ns, parts)
        if neighbour.backlog:
            neighbour.backlog.retry(now_ns)
            neighbour.outlet.stuck = bool(neighbour.backlog)
            self._holding.shrank(neighbour.face_id, neighbour.backlog)
            found = found or neighbour.transport.pull_into(link_id, now_ns, parts)
        return found

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        times = [one.transport.next_timer_ns() for one in self]
        times += [self._holding.due_ns(one.backlog) for one in self]
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Keep links alive; close those that answer nothing, take nothing or exceed a quota."""
        for neighbour in list(self):
            self._settle(neighbour.transport.handle_timer(now_ns), now_ns)
            due_ns = self._holding.due_ns(neighbour.backlog)
            if due_ns is not None and now_ns >= due_ns:
                self.give_up(neighbour, _UNRESPONSIVE, now_ns, CloseReason.UNRESPONSIVE)
        for face_id, reason in self._guards.overdue(now_ns):
            self.give_up(self._by_face[face_id], reason, now_ns)
        fat = self._holding.excess(self._by_zid.values())
        if fat is not None:
            self.give_up(fat, _CROWDED, now_ns, CloseReason.UNRESPONSIVE)

    def _settle(self, events: Events, now_ns: int) -> None:
        """Act on what a transport noticed."""
        for event in events:
            if isinstance(event, KeepAliveDue):
                self._links.mark_dirty(event.link_id)
            elif isinstance(event, LinkLost):
                link = self._links.get(event.link_id)
                if link is not None:
                    self.lose(link, event.reason, now_ns)

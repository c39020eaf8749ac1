"""Multicast groups of a node: each is one link, one transport and one face. behaviour.md 1.20.

All members of a group share its face. Whoever says JOIN there is told to the sessions as a
neighbour, by the address its datagrams come from.
"""

from __future__ import annotations

from collections.abc import Callable

from elea.fast.egress import Egress, Outlet
from elea.fast.sink import FaceSink
from elea.fast.traffic import KeyTraffic
from elea.ids import Rng
from elea.limits import Limits
from elea.locator import Locator
from elea.node.backlog import Backlog
from elea.node.guards import Guards
from elea.node.links import Links
from elea.node.ports import LinkInfo, NeighbourDown, NeighbourUp
from elea.node.settings import NodeSettings
from elea.records import dataclass, field, replace
from elea.routing.core import Routing
from elea.routing.face import FaceSpec
from elea.transport.events import GroupEvents, JoinDue, MemberJoined, MemberLost
from elea.transport.multicast import GroupTransport
from elea.wire.transport.close import CloseReason


@dataclass(slots=True)
class Group:
    """One multicast group."""

    link_id: int
    face_id: int
    info: LinkInfo
    transport: GroupTransport
    backlog: Backlog
    outlet: Outlet
    sink: FaceSink
    links: dict[int, None]  # its one link, as a neighbour has links
    members: dict[str, NeighbourUp] = field(default_factory=dict)  # by source


class Groups:
    """The groups that a node takes part in.

    Args:
        settings: Of the node.
        routing: Where their messages go.
        egress: Where messages for them come from.
        rng: For sequence numbers.
        limits: Of the node.
        links: Told which links have something to pull.
        next_face_id: Gives a face its number.
        announce: Told of members that come and go.
        guards: Told of groups, whose members nobody can tell apart.
    """

    __slots__ = (
        "_announce",
        "_egress",
        "_groups",
        "_guards",
        "_limits",
        "_links",
        "_next_face_id",
        "_rng",
        "_routing",
        "_settings",
        "_traffic",
        "by_face",
    )

    def __init__(
        self,
        settings: NodeSettings,
        routing: Routing,
        egress: Egress,
        rng: Rng,
        limits: Limits,
        links: Links,
        next_face_id: Callable[[], int],
        announce: Callable[[NeighbourUp | NeighbourDown], None],
        guards: Guards,
        traffic: KeyTraffic,
    ) -> None:
        self._traffic = traffic
        self._settings = settings
        self._routing = routing
        self._egress = egress
        self._rng = rng
        members_count = min(limits.group_members_count, settings.group_members_max)
        self._limits = replace(limits, group_members_count=members_count)
        self._links = links
        self._next_face_id = next_face_id
        self._announce = announce
        self._guards = guards
        self._groups: dict[int, Group] = {}  # by link
        self.by_face: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def open(self, link_id: int, info: LinkInfo, now_ns: int) -> None:
        """A group was joined: say JOIN, and take what comes."""
        face_id = self._next_face_id()
        sink = FaceSink(self._routing, face_id, traffic=self._traffic)
        transport = GroupTransport(
            self._settings.group_offer(info.batch_len_max),
            self._rng,
            lambda source: sink,
            now_ns,
            limits=self._limits,
            settings=self._settings.transport,
        )
        group = Group(
            link_id,
            face_id,
            info,
            transport,
            Backlog(transport),
            Outlet(face_id, None, transport.queues),
            sink,
            {link_id: None},
        )
        self._groups[link_id] = self.by_face[face_id] = group
        self._links.mark_dirty(link_id)  # the first JOIN
        self._egress.outlets[face_id] = group.outlet
        self._guards.admit(None, None, [info], sink, group.outlet, group.links)
        role = self._routing.role
        spec = FaceSpec(
            zid=self._settings.zid, whatami=role.whatami, region=role.groups, multicast=True
        )
        self._routing.open_face(face_id, spec, now_ns)

    def receive(self, link_id: int, source: Locator, batch: bytes, now_ns: int) -> None:
        """A datagram came from somebody in a group."""
        group = self._groups.get(link_id)
        if group is not None:
            self._routing.now.ns = now_ns
            self._settle(group, group.transport.receive_batch(str(source), batch, now_ns))

    def pull(self, link_id: int, now_ns: int) -> bytes | None:
        """The next datagram for a group, or None."""
        group = self._groups.get(link_id)
        if group is None:
            return None
        batch = group.transport.pull(now_ns)
        if group.backlog:
            group.backlog.retry(now_ns)
            group.outlet.stuck = bool(group.backlog)
            if batch is None:
                batch = group.transport.pull(now_ns)
        return batch

    def leave(self) -> list[int]:
        """Say CLOSE to all groups; the links that have to be written, then closed."""
        for group in self._groups.values():
            group.backlog.clear()
            group.outlet.stuck = True  # who knows the outlet finds that it is gone
            self._egress.outlets.pop(group.face_id, None)
            group.transport.close(CloseReason.GENERIC)
        return list(self._groups)

    def closed(self, link_id: int, reason: str, now_ns: int) -> None:
        """The link of a group is gone."""
        group = self._groups.pop(link_id, None)
        if group is None:
            return
        del self.by_face[group.face_id]
        self._guards.leave(group.face_id)
        self._egress.outlets.pop(group.face_id, None)
        self._routing.close_face(group.face_id, now_ns)
        for source in list(group.members):
            self._lost(group, source, reason)

    def members(self) -> list[NeighbourUp]:
        """Everybody in every group."""
        return [one for group in self._groups.values() for one in group.members.values()]

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        times = [group.transport.next_timer_ns() for group in self._groups.values()]
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Do what is due."""
        for group in self._groups.values():
            self._settle(group, group.transport.handle_timer(now_ns))

    def _settle(self, group: Group, events: GroupEvents) -> None:
        for event in events:
            if isinstance(event, MemberJoined):
                info = replace(group.info, remote=Locator(event.source))
                up = NeighbourUp(event.zid, event.whatami, info, group.transport.qos)
                group.members[event.source] = up
                self._announce(up)
            elif isinstance(event, MemberLost):
                self._lost(group, event.source, event.reason)
            elif isinstance(event, JoinDue):
                self._links.mark_dirty(group.link_id)

    def _lost(self, group: Group, source: str, reason: str) -> None:
        up = group.members.pop(source)
        self._announce(NeighbourDown(up.zid, up.whatami, reason, group.info.group))

"""What a node knows of its neighbours, for operators: read and never changed."""

from __future__ import annotations

from elea.node.groups import Groups
from elea.node.guards import Guards
from elea.node.links import Links
from elea.node.neighbour import Neighbour
from elea.node.ports import LinkInfo
from elea.records import dataclass, field
from elea.routing.core import Routing
from elea.routing.views import region_of, weights
from elea.transport.stats import TransportStats


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourView:
    """One neighbour: who it is, where it stands, what it is connected by."""

    zid: bytes
    whatami: int
    region: str  # as Eclipse Zenoh names it
    weights: tuple[int, int] | None  # of the link between two routers; 0: not said
    user: str | None  # whose password it proved to know
    certificate_name: str | None  # the common name of the certificate it showed
    links: tuple[LinkInfo, ...]
    waiting_count: int  # blocking messages that found no room yet
    refused_count: int  # messages that the policy did not let pass, both ways
    waiting_len: int  # octets of messages that wait to be written
    since_ns: int
    counters: dict[str, int]  # of its transport, by name

    @property
    def common_name(self) -> str | None:
        """Of a certificate that was verified."""
        return next((one.peer_common_name for one in self.links if one.peer_common_name), None)


@dataclass(slots=True)
class Departed:
    """What the transports counted that are no more: sums must not shrink when somebody leaves."""

    counters: dict[str, dict[str, int]] = field(default_factory=dict)  # by protocol, then by name

    def add(self, neighbour: Neighbour) -> None:
        """A neighbour left."""
        sums = self.counters.setdefault(neighbour.info.scheme, {})
        for name, count in counters_of(neighbour.stats).items():
            sums[name] = sums.get(name, 0) + count


def counters_of(stats: TransportStats) -> dict[str, int]:
    """Counters by name; those that are kept by priority or by reason as their sums."""
    return {name: _total(value) for name, value in stats.as_dict().items()}


def view_of(neighbour: Neighbour, links: Links, routing: Routing, guards: Guards) -> NeighbourView:
    """A neighbour as it is now; under the node's lock."""
    return NeighbourView(
        zid=neighbour.zid,
        whatami=neighbour.whatami,
        region=region_of(routing, neighbour.face_id),
        weights=weights(routing, neighbour.zid),
        user=neighbour.agreed.peer_user,
        certificate_name=neighbour.info.peer_common_name,
        links=tuple(links.infos(neighbour.links)),
        waiting_count=neighbour.backlog.waiting_count(),
        waiting_len=neighbour.transport.queues.pending_len(),
        refused_count=guards.refused_by(neighbour.face_id),
        since_ns=neighbour.since_ns,
        counters=counters_of(neighbour.stats),
    )


def groups_counted(groups: Groups) -> dict[str, dict[str, int]]:
    """What the transports of groups counted, by protocol and name; under the node's lock."""
    sums: dict[str, dict[str, int]] = {}
    for group in groups.by_face.values():
        counted = counters_of(group.transport.stats)
        counted["received_messages"] = group.sink.received
        mine = sums.setdefault(group.info.scheme, {})
        for name, count in counted.items():
            mine[name] = mine.get(name, 0) + count
    return sums


def _total(value: object) -> int:
    if isinstance(value, dict):
        return sum(value.values())
    if isinstance(value, list):
        return sum(value)
    assert isinstance(value, int)
    return value

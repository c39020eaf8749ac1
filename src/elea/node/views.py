"""What a node knows of its neighbours, for operators: read and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elea.node.neighbour import Neighbour, NodeLink
from elea.node.ports import LinkInfo
from elea.routing.core import Routing
from elea.routing.views import region_of, weights
from elea.transport.stats_hot import TransportStats


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
    since_ns: int
    stats: TransportStats


def view_of(neighbour: Neighbour, links: Mapping[int, NodeLink], routing: Routing) -> NeighbourView:
    """A neighbour as it is now; under the node's lock."""
    return NeighbourView(
        zid=neighbour.zid,
        whatami=neighbour.whatami,
        region=region_of(routing, neighbour.face_id),
        weights=weights(routing, neighbour.zid),
        user=neighbour.agreed.peer_user,
        certificate_name=neighbour.info.peer_common_name,
        links=tuple(links[link_id].info for link_id in neighbour.links),
        waiting_count=len(neighbour.backlog),
        since_ns=neighbour.since_ns,
        stats=neighbour.transport.stats,
    )

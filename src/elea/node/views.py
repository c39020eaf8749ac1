"""What a node knows of its neighbours, for operators: read and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elea.node.guards import Guards
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
    user: str | None
    links: tuple[LinkInfo, ...]
    waiting_count: int  # blocking messages that found no room yet
    refused_count: int  # messages that the policy did not let pass, both ways
    since_ns: int
    stats: TransportStats


def view_of(
    neighbour: Neighbour, links: Mapping[int, NodeLink], routing: Routing, guards: Guards
) -> NeighbourView:
    """A neighbour as it is now; under the node's lock."""
    return NeighbourView(
        zid=neighbour.zid,
        whatami=neighbour.whatami,
        region=region_of(routing, neighbour.face_id),
        weights=weights(routing, neighbour.zid),
        user=neighbour.agreed.peer_user,
        links=tuple(links[link_id].info for link_id in neighbour.links),
        waiting_count=len(neighbour.backlog),
        refused_count=guards.refused_by(neighbour.face_id),
        since_ns=neighbour.since_ns,
        stats=neighbour.transport.stats,
    )

"""Gossip over several hops: everybody tells on what he was told (behaviour.md 6.7).

`scouting/gossip/multihop`. All nodes of the network have to be set to it.
"""

from __future__ import annotations

from typing import Final

from elea.routing.context import Context
from elea.routing.linkstate.gossip import Gossip
from elea.routing.linkstate.network import Network, NetworkNeighbour
from elea.routing.linkstate.south_gossip import SouthGossip
from elea.routing.regions import RegionKind

_PEER_BIT: Final = 2


class MultihopGossip(Network):
    """What this node knows of the network; driven as `elea.routing.gossip.Gossip` is."""

    __slots__ = ()

    def __init__(self, context: Context) -> None:
        super().__init__(context, _PEER_BIT)

    def hears(self, neighbour: NetworkNeighbour) -> bool:
        """Only the roles that were chosen are told."""
        return bool(self._context.settings.gossip_target >> neighbour.face.spec.whatami & 1)


def gossip_of(context: Context) -> tuple[Gossip | Network | None, SouthGossip | None]:
    """How a node of this role and these settings learns of others, north and south of it."""
    role, settings = context.role, context.settings
    if not (role.gossips and settings.gossip):
        return None, None
    below = SouthGossip(context) if role.has_peers_below else None
    if role.north.kind is RegionKind.ROUTER:
        return None, below
    return MultihopGossip(context) if settings.gossip_multihop else Gossip(context), below

"""Gossip over several hops: everybody tells on what he was told (behaviour.md 6.7).

`scouting/gossip/multihop`. All nodes of the network have to be set to it.
"""

from __future__ import annotations

from typing import Final

from elea.routing.context import Context
from elea.routing.network import Network, NetworkNeighbour

_PEER_BIT: Final = 2


class MultihopGossip(Network):
    """What this node knows of the network; driven as `elea.routing.gossip.Gossip` is."""

    __slots__ = ()

    def __init__(self, context: Context) -> None:
        super().__init__(context, _PEER_BIT)

    def hears(self, neighbour: NetworkNeighbour) -> bool:
        """Only the roles that were chosen are told."""
        return bool(self._context.settings.gossip_target >> neighbour.face.spec.whatami & 1)

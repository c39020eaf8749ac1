"""Gateways: of several routers that a peer is connected to, one forwards for it.

A peer tells each of its routers of the others. Between the peer and the network of routers the one
with the greatest id is in charge (behaviour.md 5.5); towards their clients all of them are.
"""

from __future__ import annotations

from elea.limits import ZID_LEN_MAX
from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.gossip import Gossip
from elea.routing.network import Network
from elea.routing.routers import Routers
from elea.routing.south_gossip import SouthGossip


class Gateways:
    """Answers whether this router is in charge of a peer."""

    __slots__ = ("_gossip", "_network", "_own")

    def __init__(
        self,
        context: Context,
        network: Routers | None,
        gossip: Gossip | Network | SouthGossip | None,
    ) -> None:
        self._own = context.zid
        self._network = network
        self._gossip = gossip if isinstance(gossip, SouthGossip) else None

    def others(self, peer: Face) -> frozenset[bytes]:
        """The routers that a peer is connected to as well, and that this one can reach.

        Those that are not reached cannot forward in its place.
        """
        if self._gossip is None or self._network is None or peer.is_north:
            return frozenset()
        told = self._gossip.gateways(peer)
        return frozenset(zid for zid in told if zid in self._network.nodes) if told else told

    def in_charge(self, peer: Face) -> bool:
        """Whether what `peer` sends goes north here, and what comes from north goes to it."""
        return all(_order(self._own) > _order(zid) for zid in self.others(peer))


def _order(zid: bytes) -> bytes:
    return zid.ljust(ZID_LEN_MAX, b"\0")

"""Gateways: of several nodes that a peer has as its gateways, one forwards for it.

A peer tells each of its gateways of the others. Between the peer and the north of them the one with
the greatest id is in charge (behaviour.md 5.5); towards their clients all of them are.
"""

from __future__ import annotations

from elea.limits import ZID_LEN_MAX
from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.linkstate.routers import Routers
from elea.routing.linkstate.south_gossip import SouthGossip


class Gateways:
    """Answers whether this node is in charge of a peer below it."""

    __slots__ = ("_gossip", "_network", "_own", "_tables")

    def __init__(
        self, context: Context, network: Routers | None, gossip: SouthGossip | None
    ) -> None:
        self._own = context.zid
        self._tables = context.tables
        self._network = network
        self._gossip = gossip

    @property
    def watches_sources(self) -> bool:
        """Whether it matters which peer in the north sent something."""
        return self._network is None and self._gossip is not None

    def others(self, peer: Face) -> frozenset[bytes]:
        """The gateways that a peer is connected to as well, and that this one can reach.

        Those that are not reached cannot forward in its place.
        """
        if self._gossip is None or peer.is_north:
            return frozenset()
        told = self._gossip.gateways(peer)
        if not told:
            return told
        if self._network is not None:
            return frozenset(zid for zid in told if zid in self._network.nodes)
        faces = self._tables.faces.values()
        return told.intersection(face.spec.zid for face in faces if face.is_north)

    def in_charge(self, peer: Face) -> bool:
        """Whether what `peer` sends goes north here, and what comes from north goes to it."""
        return all(_order(self._own) > _order(zid) for zid in self.others(peer))


def _order(zid: bytes) -> bytes:
    return zid.ljust(ZID_LEN_MAX, b"\0")

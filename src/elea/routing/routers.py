"""Routers: the network of routers, and the trees along which messages travel (behaviour.md 6.5).

Trees are computed a little after a change, for many changes at once, and used until the next time:
all questions here are answered by the links as they were then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.network import Network, NetworkNeighbour, NetworkNode
from elea.routing.timers import Timer
from elea.routing.trees import Tree, edge_length, grow

# As long as Eclipse waits: routers that compute at the same time rarely disagree.
_SETTLE_NS: Final = 100_000_000
_ROUTER_BIT: Final = 1

Listener = Callable[[int], None]
Removal = Callable[[list[NetworkNode]], None]
Introduction = Callable[[Face, list[bytes]], None]


class Routers(Network):
    """The routers of the network, this one among them.

    `on_trees`, `on_removed` and `on_introduced` are told of what follows from a change.
    """

    __slots__ = (
        "_edges",
        "_faces",
        "_timer",
        "_trees",
        "now_ns",
        "on_introduced",
        "on_removed",
        "on_trees",
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context, _ROUTER_BIT)
        self.on_trees: Listener | None = None
        self.on_removed: Removal | None = None
        self.on_introduced: Introduction | None = None
        self.now_ns = 0  # set by whoever drives it
        self._faces: dict[bytes, Face] = {}  # neighbours, by id
        self._edges: dict[bytes, dict[bytes, float]] = {}
        self._trees: dict[bytes, Tree] = {}  # grown when they are asked for
        self._timer: Timer | None = None

    def open_face(self, face: Face) -> None:
        """A router is connected."""
        self._faces[face.spec.zid] = face
        super().open_face(face)

    def close_face(self, face: Face) -> None:
        """A router is not connected any more."""
        if self._faces.get(face.spec.zid) is face:
            del self._faces[face.spec.zid]
        super().close_face(face)
        if not self.neighbours and self._timer is not None:
            self._timer.cancel()  # nothing is left to compute
            self._compute(self.now_ns)

    def is_empty(self) -> bool:
        """Whether there is no other router."""
        return super().is_empty() and not (self._faces or self._edges or self._trees)

    def source(self, face: Face, node_id: int) -> bytes | None:
        """The router that a neighbour means by a NodeId; None if it was never introduced."""
        neighbour = self.neighbours.get(face.id)
        zid = None if neighbour is None else neighbour.psids.get(node_id)
        return zid if zid in self.nodes and zid != self.own.zid else None

    def number(self, root: bytes) -> int:
        """The NodeId of a router in what this one sends."""
        node = self.nodes.get(root)
        return 0 if node is None else node.psid

    def children(self, root: bytes) -> list[Face]:
        """The neighbours that what `root` says goes on to."""
        if not self._faces:
            return []
        return [face for zid in self.tree(root).children if (face := self._faces.get(zid))]

    def parent(self, root: bytes) -> Face | None:
        """The neighbour that what `root` says comes from."""
        zid = self.tree(root).parent
        return None if zid is None else self._faces.get(zid)

    def hop(self, root: bytes, target: bytes) -> Face | None:
        """The neighbour that leads from `root` to `target`; None if this router does not."""
        zid = self.tree(root).hops.get(target)
        return None if zid is None else self._faces.get(zid)

    def distance(self, zid: bytes) -> float:
        """How far a router is."""
        return self.tree(zid).distance

    def tree(self, root: bytes) -> Tree:
        """The tree of `root`; a bare one if it is not known."""
        tree = self._trees.get(root)
        if tree is None:
            tree = grow(self._edges, root, self.own.zid)
            if root in self._edges:
                self._trees[root] = tree
        return tree

    def edges(self) -> dict[bytes, dict[bytes, float]]:
        """Who is linked to whom: those links that both ends tell of."""
        return {
            zid: {
                other: edge_length(zid, other, weight, self.nodes[other].links[zid])
                for other, weight in node.links.items()
                if other in self.nodes and zid in self.nodes[other].links
            }
            for zid, node in self.nodes.items()
        }

    def weight_to(self, zid: bytes) -> int:
        """As configured in `routing/router/linkstate/transport_weights`."""
        return self._context.settings.weights.get(zid, 0)

    def tells_locators(self, node: NetworkNode, to: NetworkNeighbour) -> bool:
        """Its own and its neighbours', if gossip is on."""
        settings = self._context.settings
        if not (settings.gossip and settings.gossip_target & _ROUTER_BIT):
            return False
        return settings.gossip_multihop or node is self.own or node.zid in self._faces

    def changed(self) -> None:
        """Compute the trees soon."""
        if self._timer is None or not self._timer.pending:
            self._timer = self._context.timers.add(self.now_ns + _SETTLE_NS, self._compute)

    def removed(self, nodes: list[NetworkNode]) -> None:
        """Routers are out of reach."""
        if nodes and self.on_removed is not None:
            self.on_removed(nodes)

    def introduced(self, by: NetworkNeighbour, zids: list[bytes]) -> None:
        """A neighbour gave numbers."""
        if zids and self.on_introduced is not None:
            self.on_introduced(by.face, zids)

    def _compute(self, now_ns: int) -> None:
        self._trees.clear()
        self._edges = self.edges() if len(self.nodes) > 1 else {}
        if self.on_trees is not None:
            self.on_trees(now_ns)

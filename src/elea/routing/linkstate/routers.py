"""Routers: the network of routers, and the trees along which messages travel (behaviour.md 6.5).

Paths are computed a little after a change, for many changes at once, and used until the next time:
all questions here are answered by the links as they were then. The work is done in turns, and is
followed by a rest in proportion: whatever routers tell of links costs a share of the time. Which
routers lie below this one in the tree of another is searched for when it is asked (`subtrees`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.linkstate.network import Network, NetworkNeighbour, NetworkNode
from elea.routing.linkstate.paths import Paths, survey
from elea.routing.linkstate.subtrees import PAUSE_NS, TURN_COST, Subtrees
from elea.routing.linkstate.trees import Edges
from elea.routing.timers import Timer

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
        "_cost",
        "_faces",
        "_paths",
        "_rested_ns",
        "_stale",
        "_subtrees",
        "_survey",
        "_timer",
        "on_introduced",
        "on_removed",
        "on_trees",
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context, _ROUTER_BIT)
        self.on_trees: Listener | None = None
        self.on_removed: Removal | None = None
        self.on_introduced: Introduction | None = None
        self._faces: dict[bytes, Face] = {}  # neighbours, by id
        self._paths = Paths()
        self._subtrees = Subtrees(context.zid, context.timers, context.tables.forget_routes)
        self._timer: Timer | None = None  # of the next computation, or of its next turn
        self._survey: Generator[int, None, Paths] | None = None  # a computation that goes on
        self._cost = 0  # of it
        self._stale = False  # links changed since it began
        self._rested_ns = 0  # when the next one may begin

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
            self._survey = None
            self._stale = False
            self._apply(Paths(), self._context.now.ns)

    def is_empty(self) -> bool:
        """Whether there is no other router."""
        return super().is_empty() and not (self._faces or self._paths.edges or len(self._subtrees))

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
        children = self._paths.children(root, self.own.zid)
        return [face for zid in children if (face := self._faces.get(zid))]

    def parent(self, root: bytes) -> Face | None:
        """The neighbour that what `root` says comes from."""
        zid = self._paths.hops.get(root)
        return None if zid is None else self._faces.get(zid)

    def hop(self, root: bytes, target: bytes) -> Face | None:
        """The neighbour that leads from `root` to `target`; None if this router does not."""
        paths = self._paths
        zid = paths.hops.get(target)
        if zid is None:
            return None
        if root != self.own.zid:
            if root not in paths.through.get(zid, ()):
                return None  # not even to that neighbour
            # As long as it is not known the neighbour gets what it may have no use for: it is a
            # child in the tree of `root`, and gets nothing twice.
            if (
                zid != target
                and self._subtrees.contains(root, target, self._context.now.ns) is False
            ):
                return None
        return self._faces.get(zid)

    def is_certain(self, root: bytes, target: bytes) -> bool:
        """Whether `hop` leads to `target`, and not to a neighbour that only might."""
        if root == self.own.zid or self._paths.hops.get(target) == target:
            return True
        return self._subtrees.contains(root, target, self._context.now.ns) is not None

    def distance(self, zid: bytes) -> float:
        """How far a router is."""
        return self._paths.distances.get(zid, 0.0)

    @property
    def edges(self) -> Edges:
        """The links between routers as of the last computation, with their lengths. Not changed."""
        return self._paths.edges

    def weight_to(self, zid: bytes) -> int:
        """As configured in `routing/router/linkstate/transport_weights`."""
        return self._context.settings.weights.get(zid, 0)

    def tells_locators(self, node: NetworkNode) -> bool:
        """Its own and its neighbours', if gossip is on."""
        settings = self._context.settings
        if not (settings.gossip and settings.gossip_target & _ROUTER_BIT):
            return False
        return settings.gossip_multihop or node is self.own or node.zid in self._faces

    def changed(self) -> None:
        """Compute the paths soon."""
        if self._survey is not None:
            self._stale = True
        elif self._timer is None or not self._timer.pending:
            due_ns = max(self._context.now.ns + _SETTLE_NS, self._rested_ns)
            self._timer = self._context.timers.add(due_ns, self._begin)

    def removed(self, nodes: list[NetworkNode]) -> None:
        """Routers are out of reach."""
        if nodes and self.on_removed is not None:
            self.on_removed(nodes)

    def introduced(self, by: NetworkNeighbour, zids: list[bytes]) -> None:
        """A neighbour gave numbers."""
        if zids and self.on_introduced is not None:
            self.on_introduced(by.face, zids)

    def _begin(self, now_ns: int) -> None:
        """Compute, for the links as they are now."""
        self._survey = survey(self.links(), self.own.zid, self._paths)
        self._cost = 0
        self._go_on(now_ns)

    def _go_on(self, now_ns: int) -> None:
        """One turn of a computation."""
        assert self._survey is not None
        end = self._cost + TURN_COST
        try:
            while self._cost < end:
                self._cost += next(self._survey)
        except StopIteration as done:
            self._survey = None
            self._rested_ns = now_ns + self._cost * PAUSE_NS
            self._apply(done.value, now_ns)
            if self._stale:
                self._stale = False
                self.changed()
            return
        self._timer = self._context.timers.add(now_ns + 1, self._go_on)

    def _apply(self, paths: Paths, now_ns: int) -> None:
        self._paths = paths if len(self.nodes) > 1 else Paths()
        self._subtrees.reset(self._paths.edges)
        if self.on_trees is not None:
            self.on_trees(now_ns)

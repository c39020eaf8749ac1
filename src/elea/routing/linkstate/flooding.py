"""Flooding: the declarations of routers, each on the tree of the router it belongs to.

A router owns what is known in its other regions. It tells its children on its own tree, who tell
theirs (behaviour.md 6.6). Each other router is an owner in the tables, as a face is: what it has is
kept under its name, whoever told of it.

What every neighbour says of a router is remembered; believed is the one on the way from it, its
parent on that tree. When another becomes the parent, what it says is believed at once, and what it
does not say is dropped a little later: it may not have computed its trees yet. A neighbour that is
no child any more hears nothing more, and everything, with all that ended meanwhile, if it becomes
one again. So tables end up the same whatever was told in which order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.records import dataclass, field
from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.face import Face, FaceSpec
from elea.routing.linkstate.network import NetworkNode
from elea.routing.linkstate.routers import Routers
from elea.routing.regions import ROUTER, ROUTERS
from elea.routing.resources import Aliases
from elea.routing.stats import Drop
from elea.routing.tables import ABSENT, Change, Entry, Kind
from elea.routing.timers import Timer

_CONFIRM_NS: Final = 1_000_000_000  # what a new parent has to say, it has said by then
_OVER: Final = object()
_FIRST_ID: Final = -2  # owners that are no neighbours count down; -1 stands for nobody

Item = tuple[Kind, str]


@dataclass(slots=True, eq=False)
class Router:
    """Another router: an owner of declarations."""

    face: Face  # in the tables; nothing is ever sent to it
    said: dict[int, dict[Item, int]] = field(default_factory=dict)  # by neighbour
    parent_id: int | None = None  # the neighbour that is believed, since trees were computed
    confirm_ns: int | None = None  # when what that neighbour has not said is dropped

    def says(self, face_id: int | None) -> dict[Item, int]:
        """What a neighbour says that this router has."""
        return {} if face_id is None else self.said.get(face_id, {})


class Flooding:
    """What routers tell each other."""

    __slots__ = (
        "_children",
        "_context",
        "_declarations",
        "_network",
        "_next_id",
        "_routers",
        "_telling",
        "_telling_timer",
        "_timer",
        "_told",
    )

    def __init__(self, context: Context, declarations: Declarations, network: Routers) -> None:
        self._context = context
        self._declarations = declarations
        self._network = network
        self._routers: dict[bytes, Router] = {}
        self._next_id = _FIRST_ID
        self._timer: Timer | None = None  # of the first that has to confirm
        # By face and root: what a neighbour was told of a router while it was a child.
        self._told: dict[tuple[int, bytes], dict[Item, int]] = {}
        self._children: set[tuple[int, bytes]] = set()  # when trees were computed
        self._telling: dict[tuple[int, bytes], Iterator[None]] = {}  # what is told in turns
        self._telling_timer: Timer | None = None
        declarations.on_change = self._changed
        network.on_trees = self._regrown
        network.on_removed = self._removed
        network.on_introduced = self._introduced

    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return not (self._routers or self._told or self._children or self._telling)

    def told(self, face_id: int, root: bytes) -> dict[Item, int]:
        """What a neighbour was told of a router, with the info."""
        return dict(self._told.get((face_id, root), {}))

    def heard(self, face_id: int, root: bytes) -> dict[Item, int]:
        """What a neighbour says of a router, with the info."""
        router = self._routers.get(root)
        return {} if router is None else dict(router.says(face_id))

    def said_by(self, face_id: int) -> set[Item]:
        """All that a neighbour says of routers."""
        return {item for router in self._routers.values() for item in router.says(face_id)}

    def told_to(self, face_id: int) -> set[Item]:
        """All that a neighbour was told of routers."""
        told = (items for (one, _), items in self._told.items() if one == face_id)
        return {item for items in told for item in items}

    def close_face(self, face: Face) -> None:
        """A router is not a neighbour any more."""
        for place in [one for one in self._told if one[0] == face.id]:
            del self._told[place]
        self._children = {one for one in self._children if one[0] != face.id}
        self._telling = {one: some for one, some in self._telling.items() if one[0] != face.id}
        if not self._telling and self._telling_timer is not None:
            self._telling_timer.cancel()
        for router in self._routers.values():
            router.said.pop(face.id, None)

    def declared(self, face: Face, node_id: int, kind: Kind, key: str, info: int) -> None:
        """A neighbour told of an entity of a router."""
        root = self._network.source(face, node_id)
        if root is None:
            self._context.stats.drop(Drop.UNKNOWN_NODE)
            return
        router = self._router(root)
        said = router.said.setdefault(face.id, {})
        item = (kind, key)
        limits, declared_count = self._context.limits, self._context.tables.declared_count
        if item not in said and (
            len(said) >= limits.router_declarations_count
            or declared_count >= limits.declarations_node_count
        ):
            self._context.stats.drop(Drop.DECLARATION_LIMIT)
            return
        said[item] = info
        if router.parent_id is None or router.parent_id == face.id:
            self._declarations.declare(kind, router.face, key, key, info)

    def undeclared(self, face: Face, node_id: int, kind: Kind, key: str) -> None:
        """A neighbour told of the end of an entity of a router."""
        root = self._network.source(face, node_id)
        router = None if root is None else self._routers.get(root)
        item = (kind, key)
        if router is None or item not in router.says(face.id):
            self._context.stats.drop(Drop.UNKNOWN_ENTITY)
            return
        del router.said[face.id][item]
        if router.parent_id == face.id or not any(item in one for one in router.said.values()):
            self._forget(router, item)

    def _router(self, root: bytes) -> Router:
        router = self._routers.get(root)
        if router is None:
            spec = FaceSpec(zid=root, whatami=ROUTER, region=ROUTERS)
            router = self._routers[root] = Router(Face(self._next_id, spec, Aliases(0)))
            self._next_id -= 1
            parent = self._network.parent(root)
            router.parent_id = None if parent is None else parent.id
        return router

    def _forget(self, router: Router, item: Item) -> None:
        kind, key = item
        if key in router.face.remote[kind]:
            self._declarations.undeclare(kind, router.face, key)

    def _removed(self, nodes: list[NetworkNode]) -> None:
        """Routers are out of reach: all they had is gone."""
        self._context.tables.routes_changed()
        gone = {node.zid for node in nodes}
        for zid in gone:
            self._context.tables.drop_root(zid)
        for place in [one for one in self._told if one[1] in gone]:
            del self._told[place]
        self._children = {one for one in self._children if one[1] not in gone}
        for router in [self._routers.pop(zid) for zid in sorted(gone) if zid in self._routers]:
            self._declarations.close_face(router.face)
        self._await()

    def _introduced(self, face: Face, zids: list[bytes]) -> None:
        """A neighbour met routers, perhaps again: of them it knows nothing more.

        What it was told it has dropped, and what it said it will say again.
        """
        self._context.tables.routes_changed()
        for zid in zids:
            told = self._told.pop((face.id, zid), {})
            if told and (face.id, zid) in self._children:
                self._tell_all(face, zid)
            router = self._routers.get(zid)
            if router is not None and face.id in router.said:
                del router.said[face.id]
                router.confirm_ns = self._context.now.ns + _CONFIRM_NS
        self._await()

    def _changed(self, change: Change) -> None:
        """An entry changed: tell the children of whom it belongs to."""
        entry = change.entry
        owner = change.face
        is_router = owner.id < 0
        root = owner.spec.zid if is_router else self._network.own.zid
        for child in self._network.children(root):
            if (child.id, root) in self._children:
                view = self._context.tables.view
                info = _info(entry, owner) if is_router else view(entry, child)
                self._tell(child, root, (entry.kind, entry.key), info)

    def _tell(self, child: Face, root: bytes, item: Item, info: int, again: bool = False) -> None:
        """Make what a child was told of an entry true; `again`: whatever it was told."""
        told = self._told.setdefault((child.id, root), {})
        known = told.get(item, ABSENT)
        if known == info and not (again and info != ABSENT):
            return
        if info == ABSENT:
            del told[item]
        else:
            told[item] = info
        node_id = self._network.number(root)
        self._context.egress.sourced(child, *item, info, node_id)

    def _tell_all(self, child: Face, root: bytes) -> None:
        """Tell a new child everything of a router, and the end of what it may still believe.

        A part at once, and the rest in turns: others are served between two of them.
        """
        place = child.id, root
        self._telling.pop(place, None)
        telling = self._tellings(child, root)
        if not self._advance(telling):
            self._telling[place] = telling
            if self._telling_timer is None or not self._telling_timer.pending:
                self._rearm()

    def _tellings(self, child: Face, root: bytes) -> Iterator[None]:
        """Tell a child one thing of a router at a time, as it is then."""
        for item in self.told(child.id, root):
            if self._info_for(child, root, item) == ABSENT:
                self._tell(child, root, item, ABSENT)
            yield
        for item in self._items(root):
            info = self._info_for(child, root, item)
            if info != ABSENT:
                self._tell(child, root, item, info, again=True)
            yield

    def _items(self, root: bytes) -> Iterator[Item]:
        """What a router has, as of the moment that it is first asked."""
        tables, router = self._context.tables, self._routers.get(root)
        if router is not None:
            keys = [(kind, list(router.face.remote[kind].values())) for kind in Kind]
            yield from ((kind, key) for kind, some in keys for key in some)
        elif root == self._network.own.zid:
            there = [tables.intersecting(kind, None) for kind in Kind]
            yield from ((entry.kind, entry.key) for some in there for entry in some)

    def _info_for(self, child: Face, root: bytes, item: Item) -> int:
        """What a child should know of an entry of a router."""
        entry, router = self._context.tables.get(*item), self._routers.get(root)
        if entry is None:
            return ABSENT
        if router is not None:
            return _info(entry, router.face)
        is_own = root == self._network.own.zid
        return self._context.tables.view(entry, child) if is_own else ABSENT

    def _advance(self, telling: Iterator[None]) -> bool:
        """Tell a part; whether it was the last."""
        for _ in range(self._context.limits.declarations_turn_count):
            if next(telling, _OVER) is _OVER:
                return True
        return False

    def _rearm(self) -> None:
        due_ns = self._context.now.ns + 1
        self._telling_timer = self._context.timers.add(due_ns, self._tell_on)

    def _tell_on(self, now_ns: int) -> None:
        """Tell the next part to the one that has waited longest."""
        if self._telling:
            place = next(iter(self._telling))
            telling = self._telling.pop(place)
            if place in self._children and not self._advance(telling):
                self._telling[place] = telling
        if self._telling:
            self._rearm()

    def _regrown(self, now_ns: int) -> None:
        """Trees were computed: tell new children everything, and believe new parents."""
        self._context.tables.routes_changed()
        for root, router in self._routers.items():
            parent = self._network.parent(root)
            parent_id = None if parent is None else parent.id
            if parent_id != router.parent_id:
                router.parent_id = parent_id
                router.confirm_ns = now_ns + _CONFIRM_NS
                for (kind, key), info in router.says(parent_id).items():
                    self._declarations.declare(kind, router.face, key, key, info)
        before, self._children = self._children, set()
        for root in self._network.nodes:
            for child in self._network.children(root):
                self._children.add((child.id, root))
                if (child.id, root) not in before:
                    self._tell_all(child, root)
        self._await()

    def _confirm(self, now_ns: int) -> None:
        """The time to confirm is over: drop what parents have not said."""
        for router in list(self._routers.values()):
            if router.confirm_ns is None or router.confirm_ns > now_ns:
                continue
            router.confirm_ns = None
            if router.parent_id is not None:
                said = router.says(router.parent_id)
                for kind in Kind:
                    for key in list(router.face.remote[kind].values()):
                        if (kind, key) not in said:
                            self._forget(router, (kind, key))
        self._await()

    def _await(self) -> None:
        """Wake when the next router's time is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [one.confirm_ns for one in self._routers.values() if one.confirm_ns is not None]
        if due:
            self._timer = self._context.timers.add(min(due), self._confirm)


def _info(entry: Entry, face: Face) -> int:
    owner = entry.owner(face)
    return ABSENT if owner is None else owner.info

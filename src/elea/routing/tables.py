"""Tables: every declaration known here, by key and by who made it.

An `Entry` is one (kind, key expression). Its owners are the faces that declared it, grouped by
region, because what a face may be told follows from the regions: everything known elsewhere, and in
a star also what the other faces of its own region have (behaviour.md 3.5). `view` answers that for
one face, from scratch; so what was told to a face can always be compared with what should be.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree
from elea.limits import Limits
from elea.routing.face import EntityKey, Face
from elea.routing.push import RouteCache
from elea.routing.regions import Bound, Region, RegionKind
from elea.wire.network.interest import OPTION_QUERYABLES, OPTION_SUBSCRIBERS, OPTION_TOKENS

ABSENT: Final = -1
PRESENT: Final = 0  # the info of subscribers and tokens, and of a queryable with nothing to say
_COMPLETE: Final = 1 << 16
_DISTANCE_MAX: Final = _COMPLETE - 1


class Kind(IntEnum):
    """The kinds of entities; the value is their index in the tables."""

    SUBSCRIBER = 0
    QUERYABLE = 1
    TOKEN = 2


OPTIONS: Final = (OPTION_SUBSCRIBERS, OPTION_QUERYABLES, OPTION_TOKENS)  # by Kind


def pack_info(*, complete: bool, distance: int) -> int:
    """A queryable's completeness and distance as one number, ordered for `merge_info`."""
    return (_COMPLETE if complete else 0) | min(distance, _DISTANCE_MAX)


def is_complete(info: int) -> bool:
    return info >= _COMPLETE


def distance_of(info: int) -> int:
    return info & _DISTANCE_MAX


def merge_info(a: int, b: int) -> int:
    """Complete if either is, with the smallest distance among those that are (behaviour.md 3.6).

    Example:
        >>> merge_info(pack_info(complete=False, distance=1), pack_info(complete=True, distance=7))
        65543
    """
    if a == ABSENT or b == ABSENT:
        return max(a, b)
    return min(a, b) if is_complete(a) == is_complete(b) else max(a, b)


class Owner:
    """A face that declared an entry, under one or more ids."""

    __slots__ = ("face", "info", "infos")

    def __init__(self, face: Face) -> None:
        self.face = face
        self.infos: dict[EntityKey, int] = {}
        self.info = ABSENT

    def refresh(self) -> None:
        self.info = ABSENT
        for info in self.infos.values():
            self.info = merge_info(self.info, info)


class Told:
    """An entry as a face was told of it."""

    __slots__ = ("id", "info")

    def __init__(self, id_: int, info: int) -> None:
        self.id = id_
        self.info = info


class Entry:
    """One kind of entity on one key expression."""

    __slots__ = ("key", "kind", "owners", "told")

    def __init__(self, kind: Kind, key: str) -> None:
        self.kind = kind
        self.key = key
        self.owners: dict[str, dict[int, Owner]] = {}  # by region name, then by face id
        self.told: dict[int, Told] = {}  # by face id

    def owner(self, face: Face) -> Owner | None:
        group = self.owners.get(face.region.name)
        return None if group is None else group.get(face.id)


class Change:
    """What one declaration or undeclaration did to an entry."""

    __slots__ = ("entry", "face", "is_owner", "was_owner")

    def __init__(self, entry: Entry, face: Face, *, was_owner: bool, is_owner: bool) -> None:
        self.entry = entry
        self.face = face
        self.was_owner = was_owner
        self.is_owner = is_owner


class Tables:
    """All entries, and the faces."""

    __slots__ = (
        "_entries",
        "_limits",
        "_roots",
        "_trees",
        "below",
        "caches",
        "declared_count",
        "faces",
        "generation",
    )

    def __init__(self, regions: tuple[Region, ...], limits: Limits, zid: bytes = b"") -> None:
        self._limits = limits
        self.faces: dict[int, Face] = {}
        self.caches = {region.name: RouteCache(region.name, zid) for region in regions}
        self._roots: dict[bytes, RouteCache] = {}  # of what others in the north send
        # By region: of what peers send that another gateway takes north.
        self.below: dict[str, RouteCache] = {}
        for region in regions:
            if region.kind is RegionKind.PEER and region.bound is Bound.SOUTH:
                self.below[region.name] = RouteCache(region.name, zid)
                self.below[region.name].north = False
        self.declared_count = 0  # entities of all faces together
        self.generation = 0  # how often routes may have changed
        self._entries: tuple[dict[str, Entry], ...] = ({}, {}, {})  # by Kind, then by key
        self._trees: tuple[KeyExprTree[Entry], ...] = (KeyExprTree(), KeyExprTree(), KeyExprTree())

    def routes_changed(self) -> None:
        """Forget every cached route, before anybody can use one again."""
        self.generation += 1
        for cache in self.caches.values():
            cache.clear()
        for cache in self._roots.values():
            cache.clear()
        for cache in self.below.values():
            cache.clear()

    def root_cache(self, region: str, root: bytes) -> RouteCache:
        """The routes of what entered the north at another node."""
        cache = self._roots.get(root)
        if cache is None:
            cache = self._roots[root] = RouteCache(region, root)
        return cache

    def forget_routes(self, root: bytes) -> None:
        """Forget the cached routes of what entered the north at one node."""
        cache = self._roots.get(root)
        if cache is not None:
            cache.clear()

    def drop_root(self, root: bytes) -> None:
        """A node left the north."""
        self._roots.pop(root, None)

    def get(self, kind: Kind, key: str) -> Entry | None:
        return self._entries[kind].get(key)

    def intersecting(self, kind: Kind, key: str | None) -> list[Entry]:
        """The entries whose keys intersect `key`; all of them without one."""
        if key is None:
            return list(self._entries[kind].values())
        return self._trees[kind].intersecting(key)

    def including(self, kind: Kind, key: str) -> list[Entry]:
        """The entries whose keys include `key`."""
        return self._trees[kind].including(key)

    def count(self, kind: Kind | None = None) -> int:
        """How many entries there are, of one kind or of all."""
        return sum(map(len, self._entries)) if kind is None else len(self._entries[kind])

    def is_empty(self) -> bool:
        """Whether there are no faces, entries and routes."""
        cached = any(cache.samples or cache.queries for cache in self.caches.values())
        return not (self.faces or self.count() or self.declared_count or cached or self._roots)

    def is_full(self, face: Face) -> bool:
        """Whether a face, or all together, declared as much as may be kept; sessions may."""
        limits = self._limits
        return not face.spec.local and (
            face.declared_count >= limits.declarations_count
            or self.declared_count >= limits.declarations_node_count
        )

    def add(self, kind: Kind, face: Face, name: EntityKey, key: str, info: int) -> Change | None:
        """`face` declared `key`; None if nothing new was said."""
        entry = self._entries[kind].get(key)
        if entry is None:
            entry = Entry(kind, key)
            self._trees[kind].insert(KeyExpr(key, limits=self._limits), entry)
            self._entries[kind][key] = entry
        owner = entry.owner(face)
        was_owner = owner is not None
        if owner is None:
            owner = entry.owners.setdefault(face.region.name, {})[face.id] = Owner(face)
        if name not in owner.infos:
            face.declared_count += 1
            self.declared_count += 1
        face.remote[kind][name] = key
        before = owner.info
        owner.infos[name] = info
        owner.refresh()
        if was_owner and owner.info == before:
            return None
        return Change(entry, face, was_owner=was_owner, is_owner=True)

    def remove(self, kind: Kind, face: Face, name: EntityKey) -> Change | None:
        """`face` took back what it called `name`; None if others of its declarations keep it."""
        key = face.remote[kind].pop(name)
        face.declared_count -= 1
        self.declared_count -= 1
        entry = self._entries[kind].get(key)
        assert entry is not None
        owner = entry.owner(face)
        assert owner is not None
        before = owner.info
        del owner.infos[name]
        if owner.infos:
            owner.refresh()
            if owner.info == before:
                return None
            return Change(entry, face, was_owner=True, is_owner=True)
        group = entry.owners[face.region.name]
        del group[face.id]
        if not group:
            del entry.owners[face.region.name]
        return Change(entry, face, was_owner=True, is_owner=False)

    def supersede(self, kind: Kind, face: Face, key: str) -> None:
        """`face`, which declares a key once, is about to do so under a new id: the old are void.

        A gateway that was told FINAL may have forgotten an id which is still on its way here, and
        would never take it back.
        """
        entry = self._entries[kind].get(key)
        owner = None if entry is None else entry.owner(face)
        if owner is not None:
            for name in owner.infos:
                del face.remote[kind][name]
            face.declared_count -= len(owner.infos)
            self.declared_count -= len(owner.infos)
            owner.infos.clear()

    def prune(self, entry: Entry) -> None:
        """Forget an entry that nobody owns any more and nobody is told of."""
        entries = self._entries[entry.kind]
        if not entry.owners and not entry.told and entries.get(entry.key) is entry:
            self._trees[entry.kind].remove(entry.key)
            del entries[entry.key]

    def view(self, entry: Entry, face: Face) -> int:
        """What `face` should know of `entry`: its merged info, or ABSENT."""
        merged = ABSENT
        own_region = face.region.name
        for name, group in entry.owners.items():
            if name != own_region:
                merged = merge_info(merged, self._merged(entry, group, -1))
            elif face.region.kind is RegionKind.BROKER:
                # A star tells its faces of each other; only tokens come back to who declared them.
                skipped = -1 if entry.kind is Kind.TOKEN else face.id
                merged = merge_info(merged, self._merged(entry, group, skipped))
        return merged

    def is_visible(self, entry: Entry, face: Face, without: Face) -> bool:
        """Whether `face` would know of `entry` if `without` had not declared it."""
        for name, group in entry.owners.items():
            if name == face.region.name and face.region.kind is not RegionKind.BROKER:
                continue
            hidden = 1 if without.id in group else 0
            if (
                name == face.region.name
                and face is not without
                and face.id in group
                and entry.kind is not Kind.TOKEN
            ):
                hidden += 1
            if len(group) > hidden:
                return True
        return False

    def can_see(self, kind: Kind, face: Face, owner: Face) -> bool:
        """Whether what `owner` declares is something `face` may be told."""
        if face.region.name != owner.region.name:
            return True
        return face.is_broker and (face is not owner or kind is Kind.TOKEN)

    @staticmethod
    def _merged(entry: Entry, group: dict[int, Owner], skipped: int) -> int:
        if entry.kind is not Kind.QUERYABLE:
            # Any owner will do: look at no more than two, however many there are.
            return next((PRESENT for face_id in group if face_id != skipped), ABSENT)
        merged = ABSENT
        for face_id, owner in group.items():
            if face_id != skipped:
                merged = merge_info(merged, owner.info)
        return merged

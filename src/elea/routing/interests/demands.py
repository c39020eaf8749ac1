"""Demands: the interests of sessions and neighbours below, indexed by what they want.

A `Demand` is one distinct (kinds, key). All faces that want it share it, and each gateway is asked
for it once, whatever the number of those who want it (behaviour.md 4.2, 4.6).
"""

from __future__ import annotations

from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree
from elea.limits import Limits
from elea.records import dataclass, field
from elea.routing.face import Face
from elea.routing.tables import OPTIONS, Kind


@dataclass(slots=True)
class Aggregate:
    """The one declaration that answers an aggregate interest for one kind (behaviour.md 4.5)."""

    visible_count: int = 0  # entries that match and that the asking face may know of
    told_id: int = 0
    told_info: int = 0


@dataclass(slots=True, eq=False)
class Registered:
    """An interest in the future, until FINAL."""

    face: Face
    id: int
    demand: Demand
    aggregates: dict[Kind, Aggregate] = field(default_factory=dict)  # empty: one by one


@dataclass(slots=True, eq=False)
class Demand:
    """What is wanted: entities of these kinds, on keys that intersect `key` or on all."""

    options: int  # S, Q and T bits
    key: str | None
    sources: dict[tuple[int, int], Registered] = field(default_factory=dict)  # by face, interest
    upstream: dict[int, list[int]] = field(default_factory=dict)  # gateway's face id to interests


class Demands:
    """All demands, found by key."""

    __slots__ = ("_by_key", "_everything", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_key: KeyExprTree[dict[int, Demand]] = KeyExprTree()
        self._everything: dict[int, Demand] = {}

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> list[Demand]:
        """Every demand, in a stable order."""
        found = list(self._everything.values())
        for _, group in self._by_key.items():
            found.extend(group.values())
        return found

    def open(self, options: int, key: str | None) -> Demand:
        """The demand for these kinds and this key; made if it is new."""
        group = self._everything if key is None else self._by_key.get(key)
        if group is None:
            assert key is not None
            group = {}
            self._by_key.insert(KeyExpr(key, limits=self._limits), group)
        demand = group.get(options)
        if demand is None:
            demand = group[options] = Demand(options, key)
        return demand

    def discard(self, demand: Demand) -> None:
        """Forget a demand that nobody has any more."""
        assert not demand.sources
        if demand.key is None:
            del self._everything[demand.options]
            return
        group = self._by_key.get(demand.key)
        assert group is not None
        del group[demand.options]
        if not group:
            self._by_key.remove(demand.key)

    def matching(self, kind: Kind, key: str) -> list[Registered]:
        """The interests that want to know of `kind` on `key`."""
        option = OPTIONS[kind]
        found: list[Registered] = []
        for group in (self._everything, *self._by_key.intersecting(key)):
            for demand in group.values():
                if demand.options & option:
                    found.extend(demand.sources.values())
        return found

    def wants(self, kind: Kind, key: str) -> bool:
        """Whether anybody wants to know of `kind` on `key`."""
        option = OPTIONS[kind]
        if any(demand.options & option for demand in self._everything.values()):
            return True
        return any(
            demand.options & option
            for group in self._by_key.intersecting(key)
            for demand in group.values()
        )

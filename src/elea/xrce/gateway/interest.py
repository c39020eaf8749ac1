"""Interest: which publishers of devices have readers, and who has to be asked about it (12.2).

A publisher is told of its first reader and of the loss of its last one. Readers are subscribers of
devices here, the durability service, and whoever the data space says is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from elea.xrce.samples.index import Index, Owners, each_of, with_owner, without_owner
from elea.xrce.samples.keys import key_expressions

COALESCE_NS: Final = 50_000_000
Owner: TypeAlias = tuple[bytes, int]  # the pid of a device and one of its ids


class Wanted:
    """Key expressions by how many want them; only the first and the last are told."""

    def __init__(self, first: Callable[[str], None], last: Callable[[str], None]) -> None:
        self._first = first
        self._last = last
        self._counts: Counter[str] = Counter()

    def add(self, key_exprs: Iterable[str]) -> None:
        """One more wants these."""
        for one in key_exprs:
            self._counts[one] += 1
            if self._counts[one] == 1:
                self._first(one)

    def remove(self, key_exprs: Iterable[str]) -> None:
        """One less does."""
        for one in key_exprs:
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]
                self._last(one)

    def __contains__(self, key_expr: object) -> bool:
        return key_expr in self._counts


class Registry:
    """Who is interested in which path, and what is wanted of the data space for it."""

    def __init__(self, wanted: Wanted | None = None) -> None:
        self.index: Index[Owner] = Index()
        self._wanted = wanted
        self._paths: dict[Owner, str] = {}
        self._owners: dict[str, Owners[Owner]] = {}  # by key expression

    def owners(self, key_expr: str) -> list[Owner]:
        """Who made a key expression wanted."""
        return list(each_of(self._owners.get(key_expr)))

    def set(self, owner: Owner, path: str | None) -> str | None:
        """An owner is interested in this now, or in nothing; what it was interested in before."""
        before = self._paths.get(owner)
        if before == path:
            return before
        if path is not None:
            self._paths[owner] = path
            self.index.add(path, owner)
            if self._wanted is not None:
                self._wanted.add(key_expressions(path))
                for one in key_expressions(path):
                    self._owners[one] = with_owner(self._owners.get(one), owner)
        else:
            del self._paths[owner]
        if before is not None:
            self.index.remove(before, owner)
            if self._wanted is not None:
                self._leave(owner, key_expressions(before), path)
                self._wanted.remove(key_expressions(before))
        return before

    def _leave(self, owner: Owner, left: tuple[str, ...], path: str | None) -> None:
        kept = key_expressions(path) if path is not None else ()
        for one in left:
            if one not in kept:
                owners = without_owner(self._owners[one], owner)
                if owners is not None:
                    self._owners[one] = owners
                else:
                    del self._owners[one]


class Stale:
    """Publishers to look at again, together, a little after the first change."""

    def __init__(self, publishers: Index[Owner]) -> None:
        self.due_ns: int | None = None
        self._publishers = publishers
        self._owners: dict[Owner, None] = {}

    def add(self, owner: Owner, now_ns: int) -> None:
        """Look at one publisher."""
        self._owners[owner] = None
        if self.due_ns is None:
            self.due_ns = now_ns + COALESCE_NS

    def around(self, path: str, now_ns: int) -> None:
        """Look at all publishers that have something in common with a path or pattern."""
        for owner in self._publishers.matching(path):
            self.add(owner, now_ns)

    def take(self) -> list[Owner]:
        """Those to look at now."""
        owners, self._owners = list(self._owners), {}
        self.due_ns = None
        return owners

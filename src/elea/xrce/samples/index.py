"""Index: who is interested in a path, without asking everybody (2.3).

Paths without wildcards are found by themselves. A pattern is found by the whole names before its
first wildcard, so that only the few patterns above a path are held against it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from elea.xrce.names import match
from elea.xrce.samples.keys import selects

_Owner = TypeVar("_Owner", bound=Hashable)


# Most paths have one owner, which is kept as it is: a dictionary takes 232 octets.
Owners: TypeAlias = _Owner | dict[_Owner, None]


def with_owner(owners: Owners[_Owner] | None, owner: _Owner) -> Owners[_Owner]:
    """These, if there are any, and one more that may be among them."""
    if owners is None or owners == owner:
        return owner
    more = owners if isinstance(owners, dict) else {owners: None}
    more[owner] = None
    return more


def without_owner(owners: Owners[_Owner], owner: _Owner) -> Owners[_Owner] | None:
    """These, without one of them; None if nobody is left."""
    if not isinstance(owners, dict):
        return None if owners == owner else owners
    owners.pop(owner, None)
    return owners or None


def each_of(owners: Owners[_Owner] | None) -> Iterable[_Owner]:
    """One by one."""
    if owners is None:
        return ()
    return owners if isinstance(owners, dict) else (owners,)


class Index(Generic[_Owner]):
    """Owners by path or pattern."""

    def __init__(self) -> None:
        self._exact: dict[str, Owners[_Owner]] = {}
        self._wild: dict[str, dict[tuple[str, _Owner], None]] = {}  # by the names in front

    def add(self, path: str, owner: _Owner) -> None:
        """An owner is interested in a path."""
        if _is_wild(path):
            self._wild.setdefault(_front(path), {})[path, owner] = None
        else:
            self._exact[path] = with_owner(self._exact.get(path), owner)

    def remove(self, path: str, owner: _Owner) -> None:
        """It is not any more."""
        if _is_wild(path):
            front = _front(path)
            self._wild[front].pop((path, owner))
            if not self._wild[front]:
                del self._wild[front]
        else:
            left = without_owner(self._exact[path], owner)
            if left is not None:
                self._exact[path] = left
            else:
                del self._exact[path]

    def matching(self, path: str) -> Iterator[_Owner]:
        """Who is interested in a path, or in anything that a pattern has in common with theirs."""
        if _is_wild(path):
            for exact, owners in self._exact.items():
                if selects(path, exact):
                    yield from each_of(owners)
            for patterns in self._wild.values():
                yield from (owner for pattern, owner in patterns if match(pattern, path))
            return
        yield from each_of(self._exact.get(path))
        for front in _fronts(path):
            for pattern, owner in self._wild.get(front, ()):
                if selects(pattern, path):
                    yield owner


def _is_wild(path: str) -> bool:
    return "*" in path or "?" in path


def _front(pattern: str) -> str:
    """The whole names before the first wildcard."""
    at = min(place for place in (pattern.find("*"), pattern.find("?")) if place >= 0)
    return pattern[: pattern.rfind("/", 0, at) + 1]


def _fronts(path: str) -> Iterator[str]:
    yield ""
    at = path.find("/")
    while at >= 0:
        yield path[: at + 1]
        at = path.find("/", at + 1)

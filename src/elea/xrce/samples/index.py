"""Index: who is interested in a path, without asking everybody (2.3).

Paths without wildcards are found by themselves. A pattern is found by the whole names before its
first wildcard, so that only the few patterns above a path are held against it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from elea.xrce.names import match
from elea.xrce.samples.keys import selects

_Owner = TypeVar("_Owner", bound=Hashable)


class Index(Generic[_Owner]):
    """Owners by path or pattern."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[_Owner, None]] = {}
        self._wild: dict[str, dict[tuple[str, _Owner], None]] = {}  # by the names in front

    def add(self, path: str, owner: _Owner) -> None:
        """An owner is interested in a path."""
        if _is_wild(path):
            self._wild.setdefault(_front(path), {})[path, owner] = None
        else:
            self._exact.setdefault(path, {})[owner] = None

    def remove(self, path: str, owner: _Owner) -> None:
        """It is not any more."""
        if _is_wild(path):
            front = _front(path)
            self._wild[front].pop((path, owner))
            if not self._wild[front]:
                del self._wild[front]
        else:
            self._exact[path].pop(owner)
            if not self._exact[path]:
                del self._exact[path]

    def matching(self, path: str) -> Iterator[_Owner]:
        """Who is interested in a path, or in anything that a pattern has in common with theirs."""
        if _is_wild(path):
            for exact, owners in self._exact.items():
                if selects(path, exact):
                    yield from owners
            for patterns in self._wild.values():
                yield from (owner for pattern, owner in patterns if match(pattern, path))
            return
        yield from self._exact.get(path, ())
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

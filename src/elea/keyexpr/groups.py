"""KeyGroups[T]: several values per key expression, looked up by match."""

from __future__ import annotations

from typing import Generic, TypeVar

from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree

T = TypeVar("T")


class KeyGroups(Generic[T]):
    """Values by key expression, any number under each; keys are valid and canonical.

    Example:
        >>> groups: KeyGroups[int] = KeyGroups()
        >>> groups.add("a/*", 1)
        >>> groups.add("a/b", 2)
        >>> groups.add("a/b", 3)
        >>> groups.intersecting("a/b"), groups.intersecting("a/c")
        ([2, 3, 1], [1])
        >>> groups.remove("a/b", 2), groups.remove("a/b", 2)
        (True, False)
    """

    __slots__ = ("_tree",)

    def __init__(self) -> None:
        self._tree: KeyExprTree[list[T]] = KeyExprTree()

    def add(self, key: str, value: T) -> None:
        """Add a value under a key, beside those there are."""
        there = self._tree.get(key)
        if there is None:
            self._tree.insert(KeyExpr._trusted(key), [value])
        else:
            there.append(value)

    def remove(self, key: str, value: T) -> bool:
        """Take a value out from under exactly this key; False if it is not there."""
        there = self._tree.get(key)
        if there is None or value not in there:
            return False
        there.remove(value)
        if not there:
            self._tree.remove(key)
        return True

    def intersecting(self, key: str) -> list[T]:
        """Return the values whose keys intersect a key."""
        return [value for group in self._tree.intersecting(key) for value in group]

    def meets(self, key: str) -> bool:
        """Return whether there is a value whose key intersects a key."""
        return bool(self._tree.intersecting(key))

"""IdSpace: numbers for what is open at the same time, from a space that is used over and over.

Numbers count up and begin anew at the end of the space (wire.md 2.11: 8, 16 or 32 bit). What was
numbered before and is open still is looked up once, when they begin anew: until the next time only
such a number can be met, for all others given since then are below the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

ID_MAX: Final = 0xFFFF_FFFF  # of entities, interests and requests (wire.md 2.15)


def _nothing() -> Collection[int]:
    return ()


class IdSpace:
    """Numbers up to `largest`.

    Args:
        in_use: The numbers that are in use; asked when numbers begin anew.
        first: The number they begin with then.
        largest: The last one.
        last: Where to go on from.

    Example:
        >>> ids = IdSpace(lambda: {2}, first=0, largest=3, last=1)
        >>> [ids.take() for _ in range(4)]
        [2, 3, 0, 1]
    """

    __slots__ = ("_first", "_largest", "_last", "_reserved", "in_use")

    def __init__(
        self,
        in_use: Callable[[], Collection[int]] = _nothing,
        *,
        first: int = 1,
        largest: int = ID_MAX,
        last: int = 0,
    ) -> None:
        self.in_use = in_use
        self._first = first
        self._largest = largest
        self._last = last
        self._reserved: frozenset[int] = frozenset()

    def take(self) -> int | None:
        """A number that is not in use; None if all are."""
        found = self._next()
        if found is None:
            self._reserved = frozenset(self.in_use())
            self._last = self._first - 1
            found = self._next()
        if found is not None:
            self._last = found
        return found

    def _next(self) -> int | None:
        """The next one before the end of the space."""
        number = self._last + 1
        while number in self._reserved:
            number += 1
        return number if number <= self._largest else None

"""Spans: which numbers of a sequence were seen, as few ranges."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Iterator
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int]  # from, and before

_SN_MASK: Final = 0xFFFF_FFFF
_SN_HALF: Final = 1 << 31


def unwrapped(sn: int, near: int) -> int:
    """A number of 32 bits as one that goes on where they start anew: the one nearest to `near`."""
    return near - _SN_HALF + ((sn - near + _SN_HALF) & _SN_MASK)


class Spans:
    """A set of numbers.

    Args:
        count_max: So many ranges; past it the lowest are forgotten.
    """

    __slots__ = ("_count_max", "_ends", "_starts")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[Span]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def __contains__(self, number: int) -> bool:
        return self.meets(number, number + 1)

    @property
    def end(self) -> int:
        """The number after the highest; 0 if there is none."""
        return self._ends[-1] if self._ends else 0

    @property
    def start(self) -> int:
        """The lowest number; 0 if there is none."""
        return self._starts[0] if self._starts else 0

    @property
    def longest(self) -> int:
        """How many numbers the longest range has."""
        return max(map(operator.sub, self._ends, self._starts), default=0)

    def meets(self, start: int, end: int) -> bool:
        """Whether any number of a range is there."""
        place = bisect.bisect_right(self._ends, start)
        return place < len(self._starts) and self._starts[place] < end

    def add(self, start: int, end: int) -> bool:
        """Put a range in; False: the lowest one had to go."""
        if self._ends and self._ends[-1] == start:  # as most do
            self._ends[-1] = end
            return True
        first = bisect.bisect_left(self._ends, start)
        last = bisect.bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        if len(self._starts) > self._count_max:
            del self._starts[0], self._ends[0]
            return False
        return True

    def remove(self, start: int, end: int) -> None:
        """Take a range out."""
        kept = [
            piece
            for low, high in self
            for piece in ((low, min(high, start)), (max(low, end), high))
            if piece[0] < piece[1]
        ]
        self._starts = [low for low, _ in kept]
        self._ends = [high for _, high in kept]

    def holes(self, start: int, end: int) -> list[Span]:
        """The ranges between two numbers that are not there."""
        found = []
        place = bisect.bisect_right(self._ends, start)
        for low, high in zip(self._starts[place:], self._ends[place:], strict=True):
            if low >= end:
                break
            if low > start:
                found.append((start, low))
            start = high
        if start < end:
            found.append((start, end))
        return found

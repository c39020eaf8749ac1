"""Sequence numbers modulo a resolution. wire.md 5.9.

`mask` is the largest number, one less than the modulus. A receiver takes what is ahead of the last
number by at most half the modulus; anything else is old or a duplicate. Gaps are legal;
they are counted.
"""

from __future__ import annotations

from typing import Final

from elea.transport.stats import TransportStats

PRIORITY_DEFAULT: Final = 5
CONDUITS_COUNT: Final = 16


def following(sn: int, mask: int) -> int:
    """The number after `sn`."""
    return (sn + 1) & mask


def preceding(sn: int, mask: int) -> int:
    """The number before `sn`."""
    return (sn - 1) & mask


def is_news(sn: int, last: int, mask: int) -> bool:
    """Whether `sn` is ahead of `last`, the greatest number accepted so far."""
    gap = (sn - last) & mask
    return 1 <= gap <= mask >> 1


class Received:
    """The last sequence number accepted on each conduit of one direction."""

    __slots__ = ("_last", "_stats", "mask")

    def __init__(self, mask: int, initial_sn: int, stats: TransportStats | None = None) -> None:
        self.mask = mask
        self._stats = stats  # who counts the numbers that never came
        self._last: list[int] = [preceding(initial_sn, mask)] * CONDUITS_COUNT

    def start(self, priority: int, reliable: bool, next_sn: int) -> None:
        """Expect `next_sn` on one conduit, as a JOIN announces it.

        Eclipse Zenoh masks what it announces too widely: at a wrap it may exceed the modulus.
        """
        self._last[2 * priority + (1 if reliable else 0)] = preceding(next_sn, self.mask)

    def accept(self, priority: int, reliable: bool, sn: int) -> bool:
        """Take `sn` if it is news. The caller has compared it with the mask."""
        conduit = 2 * priority + (1 if reliable else 0)
        last = self._last
        gap = (sn - last[conduit]) & self.mask
        if 1 <= gap <= self.mask >> 1:
            if gap > 1 and self._stats is not None:
                self._stats.missed_numbers += gap - 1
            last[conduit] = sn
            return True
        return False

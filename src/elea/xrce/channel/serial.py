"""Sequence numbers: they count modulo 2^k and are compared by signed distance (10.2)."""

from __future__ import annotations

from functools import cache
from typing import Final

from elea.errors import DecodeError, InvalidValueError

BITS_MIN: Final = 4
BITS_MAX: Final = 63
BITS_DEFAULT: Final = 14


class Serial:
    """The numbers of one session.

    Example:
        >>> numbers = Serial(7)
        >>> numbers.after(127), numbers.distance(1, 127), numbers.distance(127, 1)
        (0, 2, -2)
    """

    __slots__ = ("bits", "half", "modulus")

    @staticmethod
    @cache
    def of(bits: int) -> Serial:
        """The numbers of that length, the same for all sessions: there are sixty lengths."""
        return Serial(bits)

    def __init__(self, bits: int) -> None:
        if not BITS_MIN <= bits <= BITS_MAX:
            legal = f"legal are {BITS_MIN} to {BITS_MAX}"
            raise InvalidValueError("sequence number length", f"{bits} bits; {legal}")
        self.bits = bits
        self.modulus = 1 << bits
        self.half = 1 << (bits - 1)

    @property
    def window_max(self) -> int:
        """How many messages may be under way, so that every count fits a Synch (11.1)."""
        return self.half - 2

    def after(self, sn: int, count: int = 1) -> int:
        """The number `count` further on, or back if it is negative."""
        return (sn + count) % self.modulus

    def distance(self, sn: int, other: int) -> int:
        """How much newer `sn` is; negative if it is older."""
        return (sn - other + self.half) % self.modulus - self.half

    def check(self, sn: int) -> int:
        """Refuse a number that the session's length cannot hold."""
        if sn >= self.modulus:
            raise DecodeError(f"sequence number {sn}, legal is below 2^{self.bits}", 0)
        return sn

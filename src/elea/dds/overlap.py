"""Overlap: two mirrors of one writer, while one replaces the other (D-309)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from elea.dds.port import Mirror
from elea.dds.qos import ReaderClass
from elea.dds.stamps import ntp64_of

RETIRE_NS: Final = 60_000_000_000  # an old mirror of writers that are silent stays so long
SETTLE_NS: Final = 2_000_000_000  # what a writer sent to the old mirror alone may be sent again
SEEN_NS: Final = 1_000_000_000  # samples are remembered so long after the last old mirror
_SEEN_COUNT_MAX: Final = 1 << 20


@dataclass(slots=True)
class Retiring:
    """An old mirror reader, read until the new one has heard each of its writers.

    Of each writer, all samples before the first that the new mirror has are in the old one, and
    those after it in both. Later on a writer learns that the new one is there before it learns
    that the old one is gone: a participant announces both in their order.
    """

    mirror: Mirror
    of: ReaderClass
    end_ns: int
    heard: set[int] = field(default_factory=set)  # handles of writers that the new mirror heard
    settled_ns: int = 0  # when the last of them has settled

    def hear(self, writers: set[int], now_ns: int) -> bool:
        """Notice writers of the new mirror; whether some of them are new."""
        if writers <= self.heard:
            return False
        self.heard |= writers
        self.settled_ns = now_ns + SETTLE_NS
        return True

    def is_replaced(self, matched: Iterable[int], now_ns: int) -> bool:
        """Whether the new mirror has all samples of these writers from now on."""
        if now_ns >= self.end_ns:
            return True
        return now_ns >= self.settled_ns and self.heard.issuperset(matched)


class Overlap:
    """Tells samples apart by writer and source time, and lets each pass once (D-309)."""

    def __init__(self) -> None:
        self._seen: set[tuple[bytes, int]] = set()
        self._end_ns = 0

    def extend(self, end_ns: int) -> None:
        """Remember samples until a monotonic time, at least."""
        self._end_ns = max(self._end_ns, end_ns)

    def is_active(self, now_ns: int) -> bool:
        """Whether samples are remembered; forgets them if not."""
        if now_ns < self._end_ns:
            return True
        self._seen.clear()
        return False

    def add(self, writer: bytes, time: int) -> None:
        """Remember a sample that passed before, by its stamp."""
        self._seen.add((writer, time))

    def is_first(self, writer: bytes, source_ns: int, *, remembers: bool = True) -> bool:
        """Whether a sample passes; it is remembered, unless another mirror cannot bring it."""
        seen = writer, ntp64_of(source_ns)
        if seen in self._seen:
            return False
        if remembers and len(self._seen) < _SEEN_COUNT_MAX:
            self._seen.add(seen)
        return True

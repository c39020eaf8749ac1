"""Overlap: samples that two mirrors of one writer may both have, while one replaces the other."""

from __future__ import annotations

from typing import Final

from elea.dds.stamps import ntp64_of

RETIRE_NS: Final = 1_000_000_000  # an old mirror stays so long, until writers know the new one
_SEEN_COUNT_MAX: Final = 1 << 20


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

    def is_first(self, writer: bytes, source_ns: int) -> bool:
        """Whether a sample passes; it is remembered."""
        seen = writer, ntp64_of(source_ns)
        if seen in self._seen:
            return False
        if len(self._seen) < _SEEN_COUNT_MAX:
            self._seen.add(seen)
        return True

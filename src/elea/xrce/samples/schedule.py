"""The windows of the periodic modes (13.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MS_NS: Final = 1_000_000


@dataclass(slots=True, frozen=True)
class Schedule:
    """Windows of `duration_ms` every `period_ms`, the first `origin_ms` after `zero_ns`.

    `zero_ns` is when the declaration was applied: the ends need no common clock (A-27).
    """

    zero_ns: int
    origin_ms: int
    period_ms: int
    duration_ms: int

    def is_open(self, now_ns: int) -> bool:
        """Whether now is inside of a window; its end is not."""
        into_ns = now_ns - self._first_ns
        return into_ns >= 0 and into_ns % self._period_ns < self.duration_ms * _MS_NS

    def next_open_ns(self, now_ns: int) -> int:
        """When the next window begins that has not begun yet."""
        into_ns = now_ns - self._first_ns
        if into_ns < 0:
            return self._first_ns
        return self._first_ns + (into_ns // self._period_ns + 1) * self._period_ns

    def next_change_ns(self, now_ns: int) -> int:
        """When the window ends that is open, or the next one begins."""
        if not self.is_open(now_ns):
            return self.next_open_ns(now_ns)
        begun_ns = now_ns - (now_ns - self._first_ns) % self._period_ns
        return begun_ns + self.duration_ms * _MS_NS

    @property
    def _first_ns(self) -> int:
        return self.zero_ns + self.origin_ms * _MS_NS

    @property
    def _period_ns(self) -> int:
        return self.period_ms * _MS_NS

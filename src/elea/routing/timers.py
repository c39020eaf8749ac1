"""Timers: what is due when, in one heap."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

_SLACK: Final = 64  # cancelled timers that may lie in the heap before it is swept


def _nothing(now_ns: int) -> None:
    """What a cancelled timer does."""


class Timer:
    """One thing that is due at a time, until it fires or is cancelled."""

    __slots__ = ("_timers", "action", "deadline_ns", "pending")

    def __init__(self, timers: Timers, deadline_ns: int, action: Callable[[int], None]) -> None:
        self._timers = timers
        self.deadline_ns = deadline_ns
        self.action = action
        self.pending = True

    def cancel(self) -> None:
        """Never fire; more than once is harmless."""
        if self.pending:
            self.pending = False
            self.action = _nothing  # what it would have been done for may go now
            self._timers.forget()


class Timers:
    """A heap in which cancelled timers stay until they surface or are swept."""

    __slots__ = ("_heap", "_live", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = 0  # equal deadlines fire in the order they were made
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def add(self, deadline_ns: int, action: Callable[[int], None]) -> Timer:
        """Call `action(now_ns)` at `deadline_ns` or soon after."""
        timer = Timer(self, deadline_ns, action)
        self._order += 1
        heapq.heappush(self._heap, (deadline_ns, self._order, timer))
        self._live += 1
        return timer

    def forget(self) -> None:
        """One timer is over. Queries that end early would otherwise fill the heap for seconds."""
        self._live -= 1
        if len(self._heap) > 2 * self._live + _SLACK:
            self._heap = [item for item in self._heap if item[2].pending]
            heapq.heapify(self._heap)

    def next_ns(self) -> int | None:
        """When the first one is due."""
        while self._heap and not self._heap[0][2].pending:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def fire(self, now_ns: int) -> None:
        """Run everything that is due."""
        while self._heap and self._heap[0][0] <= now_ns:
            timer = heapq.heappop(self._heap)[2]
            if timer.pending:
                timer.pending = False
                self._live -= 1
                timer.action(now_ns)

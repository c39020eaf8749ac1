"""Timers: many calls at their times, on the one deadline of a poller."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

from elea.errors import ClosedError
from elea.link.base import Callback
from elea.link.poller import Poller

_SWEEP_COUNT_MIN: Final = 64


class Timer:
    """A call that is due at some time, unless it is cancelled."""

    __slots__ = ("_at_ns", "_call", "_order")

    def __init__(self, at_ns: int, order: int, call: Callback) -> None:
        self._at_ns = at_ns
        self._order = order
        self._call: Callback | None = call

    @property
    def at_ns(self) -> int:
        """When it is due, on the monotonic clock."""
        return self._at_ns

    @property
    def cancelled(self) -> bool:
        """Whether it will not be called: it was cancelled, or has been called."""
        return self._call is None

    def cancel(self) -> None:
        """Do not call it. Legal at any time, by any thread."""
        self._call = None

    def take(self) -> Callback | None:
        """What to call, once."""
        call, self._call = self._call, None
        return call

    def __lt__(self, other: Timer) -> bool:
        return (self._at_ns, self._order) < (other._at_ns, other._order)


class Timers:
    """The timers of one poller, whose deadline they take over. Any thread may add one."""

    def __init__(self, poller: Poller, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._poller = poller
        self._clock = clock
        self._lock = threading.Lock()
        self._heap: list[Timer] = []
        self._orders = count()  # equal times are called in the order they were asked for
        self._sweep_at = _SWEEP_COUNT_MIN
        self.stopped = False

    def stop(self) -> None:
        """Set no timer from now on: the poller is about to be stopped, with calls under way."""
        self.stopped = True

    def call_at(self, at_ns: int, call: Callback) -> Timer:
        """Call something on the poller when the monotonic clock reaches `at_ns`.

        After `stop` it is never called.
        """
        timer = Timer(at_ns, next(self._orders), call)
        if self.stopped:
            return timer
        with self._lock:
            if len(self._heap) >= self._sweep_at:
                self._sweep()
            heapq.heappush(self._heap, timer)
            first = self._heap[0] is timer
        if first:
            self._arm()
        return timer

    def __len__(self) -> int:
        """How many are kept, cancelled ones included."""
        return len(self._heap)

    def _arm(self) -> None:
        with self._lock:
            while self._heap and self._heap[0].cancelled:
                heapq.heappop(self._heap)
            at_ns = self._heap[0].at_ns if self._heap else None
            self._poller.set_deadline(at_ns, self._due)

    def _due(self) -> None:
        """The first one is due; those behind it get their own deadline, in the past or not."""
        with self._lock:
            # Not due after all, if what was due has been cancelled while this call was on its way.
            due = bool(self._heap) and self._heap[0].at_ns <= self._clock()
            call = heapq.heappop(self._heap).take() if due else None
        try:
            if call is not None:
                call()
        finally:
            with suppress(ClosedError):  # what was called may have stopped the poller
                self._arm()

    def _sweep(self) -> None:
        """Drop the cancelled ones now and then: most timers are, long before their time."""
        self._heap = [timer for timer in self._heap if not timer.cancelled]
        heapq.heapify(self._heap)
        self._sweep_at = max(_SWEEP_COUNT_MIN, 2 * len(self._heap))

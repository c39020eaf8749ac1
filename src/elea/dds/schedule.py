"""When routes are looked at: soon, at a time, or later after a failure. Owned by the DDS thread."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from elea.dds.routes import RouteId

RETRY_NS: Final = 1_000_000_000
RETRY_NS_MAX: Final = 60_000_000_000
ATTEMPTS_PER_SECOND: Final = 10


class Schedule:
    """Routes that are due, and when the others will be."""

    def __init__(self) -> None:
        self._dirty: dict[RouteId, None] = {}
        self._timers: list[tuple[int, int, RouteId]] = []
        self._timer_ns: dict[RouteId, int] = {}
        self._order = itertools.count()
        self._attempts: deque[int] = deque(maxlen=ATTEMPTS_PER_SECOND)

    def touch(self, *routes: RouteId) -> None:
        """Look at routes soon."""
        self._dirty.update(dict.fromkeys(routes))

    def touch_at(self, route: RouteId, due_ns: int) -> None:
        """Look at a route at a time, or before."""
        known = self._timer_ns.get(route)
        if known is None or due_ns < known:
            self._timer_ns[route] = due_ns
            heapq.heappush(self._timers, (due_ns, next(self._order), route))

    def retry(self, route: RouteId, attempts: int, now_ns: int) -> int:
        """Look at a failed route later, and later each time; returns when (D-209)."""
        due_ns = now_ns + min(RETRY_NS << min(attempts - 1, 6), RETRY_NS_MAX)
        if len(self._attempts) == ATTEMPTS_PER_SECOND:
            due_ns = max(due_ns, self._attempts[0] + 1_000_000_000)
        self._attempts.append(due_ns)
        self.touch_at(route, due_ns)
        return due_ns

    def forget(self, route: RouteId) -> None:
        """A route ended; its timers find nothing."""
        self._dirty.pop(route, None)
        self._timer_ns.pop(route, None)

    def timeout_ns(self, now_ns: int, longest_ns: int) -> int:
        """Return how long there is nothing to do."""
        if self._dirty:
            return 0
        if not self._timers:
            return longest_ns
        return max(0, min(longest_ns, self._timers[0][0] - now_ns))

    def due(self, now_ns: int) -> Iterator[RouteId]:
        """Yield the routes whose time has come."""
        while self._timers and self._timers[0][0] <= now_ns:
            due_ns, _, route = heapq.heappop(self._timers)
            if self._timer_ns.get(route) == due_ns:  # else an earlier one took its place
                del self._timer_ns[route]
                yield route

    def take_touched(self, count_max: int) -> Iterable[RouteId]:
        """Return some of the routes that are to be looked at soon, the oldest first."""
        found = list(itertools.islice(self._dirty, count_max))
        for route in found:
            del self._dirty[route]
        return found

"""Upkeep: which routes are looked at in a turn of the DDS thread, and when the others will be.

A look passes on what waits in a route, or makes its mirrors what they should be. A turn makes and
deletes the mirrors of a bounded number of routes, so that discovery and samples come in between
(D-208). Used by the DDS thread alone, except `wake`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from elea.dds.from_dds import FromDds
from elea.dds.routes import Plan, RouteId
from elea.dds.schedule import Schedule
from elea.dds.state import LOG, State, StateCell
from elea.errors import ClosedError

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge, Route

MAINTAIN_COUNT: Final = 64  # routes whose mirrors are looked at in one turn
END_COUNT: Final = 16  # routes that end in one turn: to delete a mirror takes DDS a millisecond
DRAIN_NS: Final = 30_000_000_000  # a route without endpoints may pass on what it has so long
DRAIN_LOOK_NS: Final = 10_000_000


class _MayFail(Protocol):
    id: RouteId
    state: StateCell


class Upkeep:
    """Looks at routes.

    Args:
        bridge: Whose routes they are.
        interrupt: Ends the wait of the DDS thread.
    """

    def __init__(self, bridge: Bridge, interrupt: Callable[[], None]) -> None:
        self._bridge = bridge
        self._interrupt = interrupt
        self._schedule = Schedule()
        self._woken: deque[Route] = deque()
        self._ending: dict[RouteId, None] = {}  # whose time is over, in the order of their ends

    @property
    def has_woken(self) -> bool:
        """Whether routes wait for the next turn."""
        return bool(self._woken)

    def wake(self, route: Route) -> None:
        """Look at a route that has samples, in the next turn; any thread may call it."""
        self._woken.append(route)
        self._interrupt()

    def touch(self, route: Route) -> None:
        """Look at the mirrors of a route soon."""
        self._schedule.touch(route.id)

    def touch_all(self) -> None:
        """Look at the mirrors of all routes soon."""
        self._schedule.touch(*self._bridge.routes)

    def touch_at(self, route: Route, due_ns: int) -> None:
        """Look at a route at a time."""
        self._schedule.touch_at(route.id, due_ns)

    def touch_plan_at(self, plan: Plan, due_ns: int) -> None:
        """Look at the route of a plan at a time."""
        if plan.id in self._bridge.routes:
            self._schedule.touch_at(plan.id, due_ns)

    def retry_at(self, route: Route, attempts: int, now_ns: int) -> int:
        """Have a failed route tried again, later each time; returns when (D-209)."""
        return self._schedule.retry(route.id, attempts, now_ns)

    def forget(self, route: Route) -> None:
        """Look at a route no more: it ended."""
        self._schedule.forget(route.id)
        self._ending.pop(route.id, None)

    def timeout_ns(self, now_ns: int, longest_ns: int) -> int:
        """Return how long there is no route to look at."""
        return 0 if self._ending else self._schedule.timeout_ns(now_ns, longest_ns)

    def turn(self, now_ns: int) -> None:
        """Look at the routes that are woken, due, touched and at their end."""
        for _ in range(len(self._woken)):
            self._poll(self._woken.popleft(), now_ns)
        self._fire(now_ns)
        self._end(now_ns)
        self._maintain(now_ns)

    def guarded(self, route: _MayFail, function: Callable[[], object]) -> None:
        """Call something of a route; what it raises makes the route fail, and nothing else."""
        try:
            function()
        except ClosedError:
            raise
        except Exception as error:
            self._bridge.counts.failures += 1
            LOG.exception("route %a failed", route.id.key)
            route.state.set(State.FAILED, self._bridge.now_ns(), str(error))

    def _poll(self, route: Route, now_ns: int) -> None:
        def poll() -> None:
            due_ns = route.poll(now_ns)
            if due_ns is not None and due_ns <= now_ns:
                self._woken.append(route)  # more is there: in the next turn, others come between
            elif due_ns is not None:
                self.touch_at(route, due_ns)

        self.guarded(route, poll)

    def _fire(self, now_ns: int) -> None:
        for id_ in self._schedule.due(now_ns):
            route = self._bridge.routes.get(id_)
            if route is None:
                continue
            if route.end_ns is not None and now_ns >= route.end_ns:
                self._ending[id_] = None
            else:
                self._look(route, now_ns)

    def _end(self, now_ns: int) -> None:
        for id_ in list(itertools.islice(self._ending, END_COUNT)):
            del self._ending[id_]
            route = self._bridge.routes.get(id_)
            if route is None:
                continue
            is_over = route.end_ns is not None and now_ns >= route.end_ns
            if is_over and self._may_end(route, now_ns):
                self._bridge.end_route(route)
            else:  # it has samples, or endpoints again
                self._look(route, now_ns)

    def _look(self, route: Route, now_ns: int) -> None:
        if route.end_ns is not None:
            self.touch_at(route, max(route.end_ns, now_ns + DRAIN_LOOK_NS))
        self.touch(route)
        self._poll(route, now_ns)

    def _may_end(self, route: Route, now_ns: int) -> bool:
        """Whether a route without endpoints has passed on all it has, or had time for it."""
        assert route.end_ns is not None
        if not isinstance(route, FromDds) or now_ns >= route.end_ns + DRAIN_NS:
            return True
        return route.is_drained(now_ns)

    def _maintain(self, now_ns: int) -> None:
        self._bridge.doing = "mirrors"
        for id_ in self._schedule.take_touched(MAINTAIN_COUNT):
            route = self._bridge.routes.get(id_)
            if route is not None and route.end_ns is None:
                self.guarded(route, partial(route.maintain, now_ns))

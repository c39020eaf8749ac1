"""CancellationToken: ends queries before they are answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from elea.session import dispatch
from elea.session.context import Context
from elea.session.outlet import CallbackOutlet, Channel
from elea.session.queries import PendingGet, cancelled
from elea.session.tokens import TokenGet


@final
class CancellationToken:
    """Ends all queries it was given to, and every one it is given to later.

    Example:
        >>> token = CancellationToken()
        >>> token.cancel()
        >>> token.is_cancelled
        True
    """

    __slots__ = ("_cancelled", "_lock", "_running")

    def __init__(self) -> None:
        self._cancelled = False
        self._lock = threading.Lock()
        # How to end each query, and how to wait until its last function has returned.
        self._running: dict[object, tuple[Callable[[], None], Callable[[], object]]] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self, /) -> None:
        """End the queries; return when no function is called for their replies any more.

        From inside of such a function it returns at once.
        """
        with self._lock:
            self._cancelled = True
            running = list(self._running.values())
            self._running.clear()
        for end, _ in running:
            end()
        if not dispatch.in_callback():
            for _, wait in running:
                wait()

    def _check(self) -> None:
        """Raise if it was cancelled."""
        if self._cancelled:
            raise cancelled()

    def _watch(self, context: Context, get: PendingGet | TokenGet) -> None:
        """End this query with the others. Under the node's lock."""
        outlet = get.outlet
        if get.ended and not isinstance(outlet, CallbackOutlet):
            return
        core = context.core
        ended = threading.Event()
        if isinstance(outlet, Channel):
            ended.set()

        def finished() -> None:
            ended.set()
            self._forget(get)

        def end() -> None:
            if get.ended:
                return  # its replies are there; a function may still be at work on them
            if isinstance(get, PendingGet):
                context.call(lambda: core.gets.cancel(get))
            else:
                context.call(lambda: core.tokens.end(get))

        def wait() -> object:
            idle = context.driver.idle
            return ended.wait() if idle is None else idle(ended.is_set, None)

        with self._lock:
            self._running[get] = (end, wait)
        if isinstance(outlet, CallbackOutlet):
            outlet.ended = finished  # later than the query's end: when the last call has returned
            if outlet.finished:
                finished()  # a query that was answered at once
        else:
            get.on_end.append(lambda: self._forget(get))

    def _forget(self, get: object) -> None:
        with self._lock:
            running = self._running.pop(get, None)
        del running  # without the lock: what goes with it may run finalisers

"""Binding: listeners that cannot be bound at once, and what becomes of them. behaviour.md 1.11.

`listen/timeout_ms` says how long binding is retried, `listen/retry` with which pauses, and
`listen/exit_on_failure` whether opening waits for it, and fails with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from elea.errors import LinkError
from elea.link.listeners import Listeners
from elea.link.settings import LinkSettings
from elea.link.timers import Timer, Timers
from elea.locator import Endpoint
from elea.node.settings import NodeSettings

_LOG: Final = logging.getLogger("elea.link")


class Binding:
    """The endpoints of one node that are still to be bound.

    Args:
        listeners: Binds them.
        settings: Of the node: how long to retry, and whether opening depends on it.
        timers: Of the poller; retries run there.
        clock: The monotonic time.
        on_bound: Called on the poller after a retry bound one.
    """

    def __init__(
        self,
        listeners: Listeners,
        settings: NodeSettings,
        timers: Timers,
        clock: Callable[[], int],
        on_bound: Callable[[], None],
    ) -> None:
        self._listeners = listeners
        self._settings = settings
        self._timers = timers
        self._clock = clock
        self._on_bound = on_bound
        self._pending: dict[Endpoint, str] = {}  # to why the last attempt failed
        self._timer: Timer | None = None
        self._deadline_ns: int | None = None  # None: retry for ever
        self._pause_ns = settings.listen_retry.init_ns

    def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Bind these now; retry later what cannot be bound, if the settings say so.

        Raises:
            LinkError: if one cannot be bound, opening depends on it and it is not retried.
            ConfigError: if one asks for something that cannot be.
        """
        settings = self._settings
        timeout_ns = settings.listen_timeout_ns
        for endpoint in endpoints:
            try:
                self._listeners.open(endpoint)
            except LinkError as error:
                if timeout_ns == 0 and settings.listen_exit_on_failure:
                    raise
                _LOG.warning("does not listen at %s: %s", endpoint.locator(), error)
                self._pending[endpoint] = str(error)
        if timeout_ns == 0:
            self._pending.clear()
        elif self._pending:
            self._deadline_ns = None if timeout_ns < 0 else self._clock() + timeout_ns
            self._wait()

    def is_over(self) -> bool:
        """Whether opening need not wait for a listener.

        Raises:
            LinkError: if it had to, and the time is over.
        """
        if not self._settings.listen_exit_on_failure or not self._pending:
            return True
        if self._timer is not None:
            return False
        timeout_s = self._settings.listen_timeout_ns / 1e9
        why = "; ".join(self._pending.values())
        raise LinkError(f"cannot listen: gave up after {timeout_s:g} s: {why}")

    def change(self, endpoints: list[Endpoint], settings: LinkSettings) -> None:
        """Listen at these from now on, and retry nothing; raises as `Listeners.change`."""
        pending = self._pending
        self.stop()
        try:
            self._listeners.change(endpoints, settings)
        except Exception:
            self._pending = pending
            if pending:
                self._wait()
            raise

    def stop(self) -> None:
        """Retry no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending = {}

    def _wait(self) -> None:
        retry = self._settings.listen_retry
        due_ns = self._clock() + self._pause_ns
        if self._deadline_ns is not None:
            due_ns = min(due_ns, self._deadline_ns)
        self._pause_ns = retry.pause_after(self._pause_ns)
        self._timer = self._timers.call_at(due_ns, self._retry)

    def _retry(self) -> None:
        bound = []
        for endpoint in list(self._pending):
            try:
                self._listeners.open(endpoint)
            except LinkError as error:
                self._pending[endpoint] = str(error)
            else:
                self._pending.pop(endpoint, None)
                bound.append(endpoint)
                _LOG.info("listens at %s after all", endpoint.locator())
        self._timer = None
        if self._pending and (self._deadline_ns is None or self._clock() < self._deadline_ns):
            self._wait()
        elif self._pending:
            for endpoint, why in self._pending.items():
                _LOG.warning("gave up listening at %s: %s", endpoint.locator(), why)
        if bound:
            self._on_bound()

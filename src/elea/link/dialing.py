"""Dialing: the attempts of a node to reach others, from the node's wish to a link or a reason."""

from __future__ import annotations

from collections.abc import Callable

from elea.errors import LinkError
from elea.limits import Limits
from elea.link.connect import Attempt, Connected, Connector
from elea.link.flow import Lock
from elea.link.learned import dialable
from elea.node.ports import Connect
from elea.node.stats import NodeStats, Refusal


class Dialing:
    """The attempts that are under way.

    Args:
        connector: Makes attempts.
        lock: The node's lock: any thread may end attempts while one is over.
        limits: The node's bounds.
        stats: Counts what may not be dialled.
        on_done: Told once for each attempt that was not cancelled, on the poller without the lock.
    """

    def __init__(
        self,
        connector: Connector,
        lock: Lock,
        limits: Limits,
        stats: NodeStats,
        on_done: Callable[[int, Connected | LinkError], None],
    ) -> None:
        self._connector = connector
        self._acquire, self._release = lock.acquire, lock.release
        self._limits = limits
        self._stats = stats
        self._on_done = on_done
        self._attempts: dict[int, Attempt] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def dial(self, effect: Connect) -> None:
        """Begin to connect. With the lock."""
        connector_id, endpoints = effect.connector_id, list(effect.endpoints)
        if effect.teller is not None:
            allow = self._connector.settings.learned_allow
            endpoints = dialable(endpoints, effect.teller, self._limits, allow=allow)
        if not endpoints:
            self._stats.refuse(Refusal.LEARNED)
            places = ", ".join(str(one.locator()) for one in effect.endpoints)
            why = LinkError(
                f"found a node at {places} and did not connect: a node of another host told of it,"
                " and only configured endpoints may lead there; give --connect ENDPOINT"
            )
            self._connector.poller.call_soon_threadsafe(lambda: self._done(connector_id, why))
            return
        self._attempts[connector_id] = self._connector.connect(
            endpoints,
            timeout_ns=effect.timeout_ns,
            on_done=lambda outcome: self._done(connector_id, outcome),
            teller=effect.teller,
        )

    def cancel(self) -> None:
        """End all attempts and tell of none. With the lock."""
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            attempt.cancel()

    def _done(self, connector_id: int, outcome: Connected | LinkError) -> None:
        self._acquire()
        try:
            self._attempts.pop(connector_id, None)
        finally:
            self._release()
        self._on_done(connector_id, outcome)

"""Holds reading from the network while a handler of the application is behind.

A handler over its capacity holds up all links of the node: senders feel it as a full queue, and
nothing is lost. That must not last when nobody reads: a handler that takes nothing for five seconds
holds nothing up any more, and refuses what does not fit until it is read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from elea.session.ports import Idle

PATIENCE_NS: Final = 5_000_000_000

_LOGGER: Final = logging.getLogger("elea.session")


class Handling(Protocol):
    """A handler that may be behind."""

    behind: bool  # it holds up the network
    stalled: bool  # nobody reads it: it refuses what does not fit
    read_count: int


class Pressure:
    """Which handlers of a session are behind.

    Args:
        hold_reading: Stops reading from links, or goes on.
        call_after: Has a function called after a time, under the node's lock.
        idle: How readers of handlers wait, where they do not wait as threads do.

    All is called with or without the node's lock.
    """

    __slots__ = ("_behind", "_call_after", "_hold_reading", "_lock", "idle")

    def __init__(
        self,
        hold_reading: Callable[[bool], None],
        call_after: Callable[[int, Callable[[], None]], None],
        idle: Idle | None = None,
    ) -> None:
        self.idle = idle
        self._hold_reading = hold_reading
        self._call_after = call_after
        self._behind: dict[int, Handling] = {}
        self._lock = threading.Lock()

    def begin(self, handling: Handling) -> None:
        """It is behind."""
        with self._lock:
            handling.behind = True
            first = not self._behind
            self._behind[id(handling)] = handling
        if first:
            self._hold_reading(True)
        self._look_after(handling, handling.read_count)

    def end(self, handling: Handling) -> None:
        """It caught up, is gone, or nobody reads it."""
        with self._lock:
            handling.behind = False
            if self._behind.pop(id(handling), None) is None or self._behind:
                return
        self._hold_reading(False)

    def _look_after(self, handling: Handling, read_count: int) -> None:
        def look() -> None:
            if not handling.behind:
                return
            if handling.read_count != read_count:
                self._look_after(handling, handling.read_count)
                return
            handling.stalled = True
            self.end(handling)
            _LOGGER.warning("a handler is full and nobody reads it: what does not fit is dropped")

        self._call_after(PATIENCE_NS, look)

"""Signal: a condition whose lock is taken without a step in between, and that nobody pays for.

`threading.Condition` is written in Python: to enter it, to leave it and to notify nobody are a
dozen calls for a row that somebody waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Signal:
    """Tells those who wait that something has changed. All but making it: with `lock` held."""

    __slots__ = ("_changed", "_waiting_count", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._waiting_count = 0

    def wait_for(self, holds: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until something is so; False: it is not in time."""
        if holds():
            return True
        self._waiting_count += 1
        try:
            return bool(self._changed.wait_for(holds, timeout_s))
        finally:
            self._waiting_count -= 1

    def tell(self) -> None:
        """Something has changed."""
        if self._waiting_count:
            self._changed.notify_all()

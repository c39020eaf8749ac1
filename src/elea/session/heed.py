"""Waiting in the main thread, so that a signal ends it.

The system interrupts a wait, but not the instant before it: Python runs the handler of a signal
that arrives there when the wait is over, which may be never. So the main thread, which alone runs
handlers, looks up now and then. It is not compiled: only interpreted code runs handlers.
"""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Final

_LOOK_S: Final = 0.2  # as long as a Ctrl-C may take


def get_heeding(queue: SimpleQueue[object], timeout: float | None) -> object:
    """As `queue.get`; signals are heard.

    Raises:
        Empty: nothing came in time.
    """
    if timeout is None:
        while True:
            try:
                return queue.get(timeout=_LOOK_S)
            except Empty:
                continue
    end_s = time.monotonic() + timeout
    while (left_s := end_s - time.monotonic()) > _LOOK_S:
        try:
            return queue.get(timeout=_LOOK_S)
        except Empty:
            continue
    return queue.get(timeout=max(left_s, 0.0))

"""Memory that a neighbour leaves behind: given back to the system, not kept for the next one.

A client with ten thousand declarations leaves blocks behind that are free and scattered. Python and
the C library keep them; a collection empties Python's free lists, and glibc gives whole pages back
when it is asked to.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from elea import heap

QUIET_S: Final = 1.0  # after a link has gone: others may follow
PAUSES: Final = 20  # after a collection, which holds all up, so many times as long is none
GROWTH: Final = 1.05  # less than this is not worth it
BLOCK_LEN: Final = 80  # what one of Python's blocks takes, about

_STATM: Final = Path("/proc/self/statm")


class Memory:
    """Tells when to tidy up, and does it.

    Args:
        now_s: A monotonic clock.
        resident_len: Octets in use; 0 where nobody knows, and then nothing is done.
        blocks_count: How many blocks Python has given out.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        resident_len: Callable[[], int] | None = None,
        blocks_count: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._now_s = now_s
        self._resident_len = resident_len or _resident_len
        self._blocks_count = blocks_count
        self._last_len = 0  # after the last time, or at first
        self._last_count = 0
        self._due_s: float | None = None
        self._earliest_s = 0.0
        self.tidied_count = 0

    def begin(self) -> None:
        """What is in use now is what is in use without neighbours."""
        self._last_len = self._resident_len()
        self._last_count = self._blocks_count()

    def link_closed(self) -> bool:
        """A link has gone, by any thread; whether `wait_s` is not None any more."""
        idle = self._due_s is None
        self._due_s = max(self._now_s() + QUIET_S, self._earliest_s)
        return idle

    def wait_s(self) -> float | None:
        """How long there is nothing to do; None: until a link goes."""
        return None if self._due_s is None else max(0.0, self._due_s - self._now_s())

    def tidy(self) -> None:
        """Give back what can be, if it is time and what is there could do with less."""
        if self._due_s is None or self._now_s() < self._due_s:
            return
        self._due_s = None
        would_do = self._last_len + BLOCK_LEN * (self._blocks_count() - self._last_count)
        if self._resident_len() > would_do * GROWTH:
            began_s = self._now_s()
            self.tidied_count += 1
            gc.collect()
            heap.give_back()
            self.begin()
            ended_s = self._now_s()
            self._earliest_s = ended_s + PAUSES * (ended_s - began_s)


def _resident_len() -> int:
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0

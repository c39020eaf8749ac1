"""Feed: a bounded queue from the threads of a session to one coroutine.

The session's threads never wait for a browser. What finds no room is counted: a ring gives up its
oldest entries, any other feed refuses the new one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from elea.web.payloads import Entry


class Budget:
    """Octets that several feeds share."""

    def __init__(self, len_max: int) -> None:
        self.free_len = len_max
        self._lock = threading.Lock()

    def take(self, length: int) -> bool:
        """Whether there was so much; then it is taken."""
        with self._lock:
            if length > self.free_len:
                return False
            self.free_len -= length
            return True

    def give(self, length: int) -> None:
        """Give it back."""
        with self._lock:
            self.free_len += length


class Feed:
    """Entries for the coroutine that made it.

    Args:
        count_max: How many may wait.
        len_max: How many octets may wait.
        ring: Whether the oldest make room for the newest.
        budget: What it shares with others.
    """

    def __init__(
        self, count_max: int, len_max: int, *, ring: bool = False, budget: Budget | None = None
    ) -> None:
        self._count_max = count_max
        self._len_max = len_max
        self._ring = ring
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._len = 0
        self._ended = False
        self._awake = False  # the coroutine is at it, or will be: waking it costs a system call
        self.dropped_count = 0

    # By any thread.

    def offer(self, entry: Entry) -> bool:
        """Take an entry if there is room; never waits."""
        with self._lock:
            if self._ended:
                return False
            length = len(entry)
            while not self._admit(length):
                self.dropped_count += 1
                if not (self._ring and self._entries) or length > self._len_max:
                    return False
                self._pop()
            self._entries.append(entry)
            self._len += length
            woken, self._awake = self._awake, True
        if not woken:
            self._wake()
        return True

    def end(self) -> None:
        """Nothing comes any more."""
        with self._lock:
            self._ended = True
        self._wake()

    # By the coroutine.

    @property
    def is_ended(self) -> bool:
        """Whether nothing comes any more."""
        return self._ended

    async def take(self) -> Entry | None:
        """The next entry; None after the last."""
        while True:
            with self._lock:
                if self._entries:
                    return self._pop()
                if self._ended:
                    return None
                self._awake = False
                self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """End it, and forget what waits."""
        self.end()
        with self._lock:
            while self._entries:
                self._pop()

    def _admit(self, length: int) -> bool:
        has_room = len(self._entries) < self._count_max and self._len + length <= self._len_max
        return has_room and (self._budget is None or self._budget.take(length))

    def _pop(self) -> Entry:
        entry = self._entries.popleft()
        self._len -= len(entry)
        if self._budget is not None:
            self._budget.give(len(entry))
        return entry

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop is closed: nobody reads
            self._ended = True

"""Shelf: where the samples of a spool wait, in memory here, on disk in `spool_log`."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from elea.errors import NotStoredError
from elea.session.ack import Entry

NAME: Final = "spool"


class Shelf(Protocol):
    """Where samples wait, each under a number."""

    log: uuid.UUID | None  # on disk: the log they are in
    first: int  # the oldest that was not forwarded
    end: int  # the one after the newest

    def keep(self, entry: Entry, done: Callable[[int | NotStoredError], None]) -> None:
        """Keep one more; `done` is told its number, in any thread, when it is safe."""

    def read(self, first: int, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """The next ones that are safe, with their numbers; and the number to go on with.

        Those that are missing between are lost.
        """

    def release(self, first: int) -> None:
        """All below this number were forwarded."""

    def length(self) -> int:
        """The octets it takes."""

    def close(self) -> None:
        """Nothing is kept any more."""


class MemoryShelf:
    """Samples that wait in memory.

    Args:
        len_max: Octets of them together.
    """

    __slots__ = ("_entries", "_len", "_len_max", "_lock", "end", "first", "log")

    def __init__(self, len_max: int) -> None:
        self._entries: deque[Entry] = deque()
        self._len = 0
        self._len_max = len_max
        self._lock = threading.Lock()
        self.log: uuid.UUID | None = None
        self.first = self.end = 0

    def keep(self, entry: Entry, done: Callable[[int | NotStoredError], None]) -> None:
        """Keep one more."""
        with self._lock:
            length = self._len + len(entry)
            has_room = length <= self._len_max
            number = self.end
            if has_room:
                self._entries.append(entry)
                self._len = length
                self.end += 1
        detail = f"{length} octets would wait in memory, {self._len_max} may: raise max_bytes"
        done(number if has_room else NotStoredError(entry.key, NAME, "full", detail))

    def read(self, first: int, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """The next ones, and the number to go on with."""
        with self._lock:
            end = min(first + count, self.end)
            return [(one, self._entries[one - self.first]) for one in range(first, end)], end

    def release(self, first: int) -> None:
        """All below this number were forwarded."""
        with self._lock:
            while self.first < first:
                self._len -= len(self._entries.popleft())
                self.first += 1

    def length(self) -> int:
        """Octets of those that wait."""
        return self._len

    def close(self) -> None:
        """Nothing to be done."""

"""Trace: one line per event, and a hash over all of them; two runs of one seed are identical."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

LINES_COUNT: Final = 2_000  # kept for people; the hash covers all


class Trace:
    """What happened in a world; the last `lines_count` events as text, or all of them."""

    __slots__ = ("_hash", "count", "lines")

    def __init__(self, lines_count: int | None = LINES_COUNT) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.lines: deque[str] = deque(maxlen=lines_count)

    def add(self, now_ns: int, line: str) -> None:
        """Record one event."""
        text = f"{now_ns} {line}"
        self._hash.update(text.encode() + b"\n")
        self.lines.append(text)
        self.count += 1

    @property
    def digest(self) -> str:
        """A name for everything that happened so far."""
        return self._hash.hexdigest()

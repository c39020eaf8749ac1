"""Events: what happened at a node of late, for operators: joined, left, refused, changed.

Made of the same facts as the audit, which keeps them; these are in memory, few, and without what
an operator does not need to know. Each has a number, so that a client asks for what is new.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.json5 import Json

KEPT_COUNT: Final = 1_000
_FIELDS: Final = (
    *("identity", "zid", "user", "address", "reason", "flow", "action", "key", "rule", "why"),
    *("quota", "closed", "count", "keys", "accepted", "service", "state"),
)
_NAMES: Final = {"login": "joined", "logout": "left"}  # of the audit; others stay as they are


@dataclass(frozen=True, slots=True)
class Tail:
    """What is new since a number.

    Args:
        first: The number of the first entry that is still kept.
        last: The number of the last one; what a client asks with next.
        entries: Those after what was asked for, the newest of them if there are too many.
        left_out: How many were forgotten, or exceed what was asked for.
    """

    first: int
    last: int
    entries: tuple[Mapping[str, Json], ...]
    left_out: int

    def json(self, name: str) -> dict[str, Json]:
        """As a reply has it."""
        return {
            "first": self.first,
            "last": self.last,
            name: [dict(one) for one in self.entries],
            "left_out": self.left_out,
        }


class Ring:
    """The last entries of a sequence, numbered from 1. Any thread may use it."""

    def __init__(self, kept_count: int = KEPT_COUNT) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Mapping[str, Json]] = deque(maxlen=kept_count)
        self._last = 0

    def add(self, entry: Mapping[str, Json]) -> None:
        """Keep one more; the oldest goes."""
        with self._lock:
            self._last += 1
            self._kept.append({"n": self._last, **entry})

    def after(self, number: int, most: int) -> Tail:
        """What came after a number, `most` at the most.

        A number that was never given is of another life of the node: all that is kept is new then.

        Example:
            >>> ring = Ring(3)
            >>> for name in "abcd":
            ...     ring.add({"event": name})
            >>> [one["event"] for one in ring.after(2, 9).entries], ring.after(0, 9).left_out
            (['c', 'd'], 1)
        """
        with self._lock:
            kept, last = list(self._kept), self._last
        first = last - len(kept) + 1
        asked = number if 0 <= number <= last else 0
        new = kept[max(0, asked + 1 - first) :]
        shown = new[-most:] if most else []
        return Tail(first, last, tuple(shown), last - asked - len(shown))


class Events:
    """What happened at one node."""

    def __init__(self) -> None:
        self.ring = Ring()

    def of_audit(self, line: Mapping[str, Json]) -> None:
        """Note what an audit line says."""
        name = str(line.get("event"))
        told = {field: line[field] for field in _FIELDS if line.get(field) not in (None, "", [])}
        self.ring.add({"time": line.get("time"), "event": _NAMES.get(name, name), **told})

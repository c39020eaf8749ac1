"""Connections: how many there may be, in all and of one address; and who has to make room.

A connection that waits for its peer makes room for a new one, the oldest first: a peer that sends
its request at once is served, however many others dribble. One whose whole request was received
keeps its place.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from elea.limits import Limits


class Connection(Protocol):
    """One connection, as it is counted."""

    @property
    def address(self) -> str:
        """Where its peer is."""

    @property
    def is_waiting(self) -> bool:
        """Whether a whole request has yet to be received."""

    def give_up(self) -> None:
        """Close it at once."""


class Connections:
    """Those of a server, the oldest first.

    Args:
        limits: How many there may be.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, newcomer: Connection) -> bool:
        """Make room for a connection; False if there is none."""
        limits = self._limits
        own = [one for one in self._open if one.address == newcomer.address]
        if len(own) >= limits.web_connections_per_address_count and not self._drop_one(own):
            return False
        if len(self._open) >= limits.web_connections_count and not self._drop_one():
            return False
        waiting = [one for one in self._open if one.is_waiting]
        if len(waiting) >= limits.web_waiting_count:
            self._drop_one(waiting)
        self._open[newcomer] = None
        return True

    def discard(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.pop(connection, None)

    def _drop_one(self, among: list[Connection] | None = None) -> bool:
        """Close the oldest that waits, of the address that has most of them."""
        waiting = [one for one in among or self._open if one.is_waiting]
        if not waiting:
            return False
        [(address, _)] = Counter(one.address for one in waiting).most_common(1)
        oldest = next(one for one in waiting if one.address == address)
        del self._open[oldest]
        oldest.give_up()
        return True

"""Pumps: the open links of a node. Which of them are read, and writing what the node has for them.

Everything here is called with the node's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from elea.link.flow import BUFFERS_COUNT, WRITE_AHEAD_LEN
from elea.link.multicast import GroupPump
from elea.link.pump import LinkPump
from elea.node.node import Node

Pump: TypeAlias = LinkPump | GroupPump


class Pumps:
    """The open links of one node, by number.

    Args:
        node: The node.
        clock: The monotonic time.
    """

    __slots__ = ("_all_held", "_held", "_last_id", "_node", "_now_ns", "by_id")

    def __init__(self, node: Node, clock: Callable[[], int]) -> None:
        self._node = node
        self._now_ns = clock
        self.by_id: dict[int, Pump] = {}  # read by the compiled `Flow`, and changed here alone
        self._all_held = False  # sessions are behind: no link is read
        self._held: set[int] = set()  # links whose messages have nowhere to go: not read either
        self._last_id = 0

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def is_holding(self) -> bool:
        """Whether a link is not read because its messages have nowhere to go."""
        return bool(self._held)

    def add(self, make: Callable[[int], Pump]) -> tuple[int, Pump]:
        """Add a link; `make` is given its number."""
        self._last_id += 1
        pump = self.by_id[self._last_id] = make(self._last_id)
        return self._last_id, pump

    def remove(self, link_id: int) -> None:
        """Forget a link that is closed."""
        self.by_id.pop(link_id, None)
        self._held.discard(link_id)

    def write(self, link_id: int) -> None:
        """Write what the node has for a link, as far as the link takes it."""
        pump = self.by_id.get(link_id)
        if pump is None:
            return
        now_ns = self._now_ns()
        while pump.queued_len < WRITE_AHEAD_LEN:
            buffers: list[bytes | memoryview] = []
            while len(buffers) < BUFFERS_COUNT and self._node.pull_into(link_id, now_ns, buffers):
                pass
            if not buffers:
                return
            pump.send(buffers)

    def write_dirty(self) -> bool:
        """Write all that the node has; whether there was anything."""
        dirty = self._node.dirty_links()
        for link_id in dirty:
            self.write(link_id)
        return bool(dirty)

    def moved(self) -> list[int]:
        """Links with octets that wait, and whose other end took some since this was last asked."""
        return [
            link_id
            for link_id, pump in self.by_id.items()
            if isinstance(pump, LinkPump) and pump.queued_len and pump.has_moved()
        ]

    def hold_all(self, held: bool) -> None:
        """Stop, or go on, reading from all links: sessions are behind."""
        self._all_held = held
        for link_id in self.by_id:
            self._apply_hold(link_id)

    def hold(self, link_id: int, held: bool) -> None:
        """Stop, or go on, reading from a link: its messages have nowhere to go."""
        self.moved()  # from now on it counts
        (self._held.add if held else self._held.discard)(link_id)
        self._apply_hold(link_id)

    def _apply_hold(self, link_id: int) -> None:
        pump = self.by_id.get(link_id)
        if pump is None:
            return
        held = self._all_held or link_id in self._held
        self._node.link_held(link_id, held, self._now_ns())
        if held:
            pump.pause_reading()
        else:
            pump.resume_reading()

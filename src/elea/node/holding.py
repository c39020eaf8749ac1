"""Holding: links that are not read while what they bring has nowhere to go. Threat T28.

A message that must not be dropped waits for a neighbour that has no room. When too much waits, the
links that brought it are not read any more, until half of it is gone: whoever sends feels it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.limits import Limits
from elea.node.backlog import Backlog
from elea.node.neighbour import Neighbour, NodeLink
from elea.node.ports import Effect, HoldReading

_LOOK_NS: Final = 250_000_000  # between two looks at what waits for all neighbours


class Holding:
    """The links of a node that are held.

    Args:
        links: All links.
        limits: What may wait for one neighbour before its sources are held, and for all.
        ask: Takes effects for the driver.
    """

    __slots__ = ("_ask", "_backlog_len", "_limits", "_links", "_look_ns")

    def __init__(
        self, links: dict[int, NodeLink], limits: Limits, ask: Callable[[Effect], None]
    ) -> None:
        self._links = links
        self._limits = limits
        self._backlog_len = limits.backlog_len
        self._look_ns = 0
        self._ask = ask

    def grew(self, face_id: int, backlog: Backlog, link_id: int) -> None:
        """A message that a link brought waits for a face."""
        source = self._links.get(link_id)
        if source is None or backlog.pending_len <= self._backlog_len:
            return
        backlog.sources[link_id] = None
        if not source.waits_for:
            self._ask(HoldReading(link_id, True))
        source.waits_for.add(face_id)

    def excess(self, neighbours: list[Neighbour], now_ns: int) -> Neighbour | None:
        """The neighbour that most waits for, if too much waits for all together."""
        if now_ns < self._look_ns:
            return None
        self._look_ns = now_ns + _LOOK_NS
        if sum(one.waiting_len() for one in neighbours) <= self._limits.waiting_node_len:
            return None
        return max(neighbours, key=Neighbour.waiting_len)

    def shrank(self, face_id: int, backlog: Backlog) -> None:
        """There may be room again."""
        if not backlog.sources or 2 * backlog.pending_len > self._backlog_len:
            return
        for link_id in backlog.sources:
            link = self._links.get(link_id)
            if link is not None:
                link.waits_for.discard(face_id)
                if not link.waits_for:
                    self._ask(HoldReading(link_id, False))
        backlog.sources.clear()

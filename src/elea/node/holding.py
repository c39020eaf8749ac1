"""Holding: links that are not read while what they bring has nowhere to go. Threat T28.

A message that must not be dropped waits for a neighbour that has no room. When too much waits, the
links that brought it are not read any more, until half of it is gone: whoever sends feels it. The
same happens for a while to links that bring more than a quota allows (threat T23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.node.backlog import Backlog
from elea.node.neighbour import NodeLink
from elea.node.ports import Effect, HoldReading

_QUOTA: Final = -1  # in `NodeLink.waits_for`: not a face, but time


class Holding:
    """The links of a node that are held.

    Args:
        links: All links.
        backlog_len: What may wait for one neighbour before its sources are held.
        ask: Takes effects for the driver.
    """

    __slots__ = ("_ask", "_backlog_len", "_links")

    def __init__(
        self, links: dict[int, NodeLink], backlog_len: int, ask: Callable[[Effect], None]
    ) -> None:
        self._links = links
        self._backlog_len = backlog_len
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

    def pause(self, link_id: int, paused: bool) -> None:
        """Whoever is at the other end has sent more than it may: it has to wait, or may go on."""
        link = self._links.get(link_id)
        if link is None or paused == (_QUOTA in link.waits_for):
            return
        if paused and not link.waits_for:
            self._ask(HoldReading(link_id, True))
        link.waits_for ^= {_QUOTA}
        if not link.waits_for:
            self._ask(HoldReading(link_id, False))

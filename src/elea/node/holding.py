"""Holding: links that are not read while what they bring has nowhere to go. Threat T28.

A message that must not be dropped waits for a neighbour that has no room. When too much waits, the
links that brought it are not read any more, until half of it is gone: whoever sends feels it. That
costs all who get something from there, so a router does not wait for a neighbour that takes nothing
at all as long as for one that holds up nobody but itself. The same happens for a while to links
that bring more than a quota allows (threat T23).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from elea.ids import WhatAmI
from elea.limits import Limits
from elea.node.backlog import Backlog
from elea.node.links import Links
from elea.node.neighbour import Neighbour
from elea.node.ports import Effect, HoldReading
from elea.node.settings import NodeSettings

_QUOTA: Final = -1  # in `NodeLink.waits_for`: not a face, but time


class Holding:
    """The links of a node that are held.

    Args:
        links: Of the node.
        settings: How long a neighbour that takes nothing is waited for.
        limits: What may wait for one neighbour before its sources are held, how long then, and
            what may wait for all.
        ask: Takes effects for the driver.
    """

    __slots__ = ("_ask", "_held_ns", "_limits", "_links", "_wait_ns")

    def __init__(
        self,
        links: Links,
        settings: NodeSettings,
        limits: Limits,
        ask: Callable[[Effect], None],
    ) -> None:
        self._links = links
        self._limits = limits
        self._wait_ns = self._held_ns = settings.wait_before_close_ns
        if settings.whatami is WhatAmI.ROUTER:
            self._held_ns = min(self._wait_ns, limits.held_ns)
        self._ask = ask

    def grew(self, face_id: int, backlog: Backlog, link_id: int) -> None:
        """A message that a link brought waits for a face."""
        source = self._links.get(link_id)
        if source is None or backlog.pending_len <= self._limits.backlog_len:
            return
        backlog.sources[link_id] = None
        if not source.waits_for:
            self._ask(HoldReading(link_id, True))
        source.waits_for.add(face_id)

    def excess(self, neighbours: Collection[Neighbour]) -> Neighbour | None:
        """The neighbour that most waits for, if too much waits for all together."""
        if sum(one.waiting_len() for one in neighbours) <= self._limits.waiting_node_len:
            return None
        return max(neighbours, key=Neighbour.waiting_len)

    def shrank(self, face_id: int, backlog: Backlog) -> None:
        """There may be room again."""
        if not backlog.sources or 2 * backlog.pending_len > self._limits.backlog_len:
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

    def moved(self, link_id: int, now_ns: int) -> None:
        """A neighbour took something from a link, although nothing more could be written yet."""
        link = self._links.get(link_id)
        if link is not None and link.neighbour is not None:
            link.neighbour.backlog.moved(now_ns)

    def due_ns(self, backlog: Backlog) -> int | None:
        """When a neighbour that takes nothing is given up."""
        stuck_ns = backlog.stuck_since_ns()
        if stuck_ns is None:
            return None
        return stuck_ns + (self._held_ns if backlog.sources else self._wait_ns)

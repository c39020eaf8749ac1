"""Subtrees: which routers lie below this one in the tree of a source.

A message of `root` goes on to a neighbour that is a child of this router in the tree of `root`, as
`paths` tells, if a router below that child wants it. Which routers lie below takes one search of
the whole network per source, which is done when a source is first asked for. A network that is
large, or made up to be, must not hold up everything else: searches run in bounded turns with a
pause in proportion after each.

Until a search is done, `contains` does not know. A message then goes to a child that may have no
use for it. It travels along the tree of its source even so: no router gets it twice, and none that
wants it misses it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Final

from elea.routing.linkstate.trees import Edges
from elea.routing.timers import Timer, Timers

TURN_COST: Final = 2_000  # steps of a turn: some two milliseconds
PAUSE_NS: Final = 5_000  # after each step, which takes about a microsecond


class Subtrees:
    """Searches for the routers below this one, by source.

    Args:
        own: This router.
        timers: Of routing.
        on_found: Called with a source when its search is done that was not done at once.
    """

    __slots__ = (
        "_at_once_cost",
        "_bits",
        "_cost",
        "_edges",
        "_found",
        "_on_found",
        "_own",
        "_search",
        "_timer",
        "_timers",
        "_wanted",
    )

    def __init__(self, own: bytes, timers: Timers, on_found: Callable[[bytes], None]) -> None:
        self._own = own
        self._timers = timers
        self._on_found = on_found
        self._edges: Edges = {}
        self._bits: dict[bytes, int] = {}  # the bit of each router in a mask
        self._cost = 0  # of one search
        self._at_once_cost = 0  # steps that may still be done at once
        self._found: dict[bytes, int] = {}  # by source, a mask of the routers below
        self._wanted: dict[bytes, None] = {}  # sources to search from, oldest first
        self._search: Generator[int, None, set[bytes]] | None = None  # of the first of them
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._found) + len(self._wanted)

    @property
    def pending_count(self) -> int:
        """How many sources wait for their search to be done."""
        return len(self._wanted)

    def reset(self, edges: Edges) -> None:
        """Forget all that was found: the network has these edges now."""
        self._edges = edges
        self._bits = {zid: bit for bit, zid in enumerate(edges)}
        self._cost = sum(1 + len(near) for near in edges.values())
        self._at_once_cost = TURN_COST
        self._found.clear()
        self._wanted.clear()
        self._search = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def contains(self, root: bytes, target: bytes, now_ns: int) -> bool | None:
        """Whether `target` lies below this router in the tree of `root`; None: not known yet."""
        mask = self._found.get(root)
        if mask is None:
            mask = self._begin(root, now_ns)
        if mask is None:
            return None
        bit = self._bits.get(target)
        return bit is not None and bool(mask >> bit & 1)

    def _begin(self, root: bytes, now_ns: int) -> int | None:
        """Search at once if that is cheap; else have it done in turns."""
        if root not in self._edges:
            return 0
        if self._cost <= self._at_once_cost and not self._wanted:
            self._at_once_cost -= self._cost
            search = below(self._edges, root, self._own)
            while True:
                try:
                    next(search)
                except StopIteration as done:
                    return self._keep(root, done.value)
        self._wanted[root] = None
        if self._timer is None:
            self._timer = self._timers.add(now_ns + 1, self._continue)
        return None

    def _continue(self, now_ns: int) -> None:
        """Search for one turn."""
        cost = 0
        while self._wanted and cost < TURN_COST:
            root = next(iter(self._wanted))
            if self._search is None:
                self._search = below(self._edges, root, self._own)
            try:
                cost += next(self._search)
            except StopIteration as done:
                self._search = None
                del self._wanted[root]
                self._keep(root, done.value)
                self._on_found(root)
        self._timer = None
        if self._wanted:
            self._timer = self._timers.add(now_ns + max(cost * PAUSE_NS, 1), self._continue)

    def _keep(self, root: bytes, found: set[bytes]) -> int:
        # A mask, not a set: with as many sources as routers there are millions of pairs.
        mask = 0
        for zid in found:
            mask |= 1 << self._bits[zid]
        self._found[root] = mask
        return mask


def below(edges: Edges, root: bytes, own: bytes) -> Generator[int, None, set[bytes]]:
    """Search for the routers below `own` in the tree of `root`; yields the steps of each part."""
    found: set[bytes] = set()
    done: set[bytes] = set()
    heap: list[tuple[float, bytes, bytes]] = [(0.0, root, root)]  # distance, router, parent
    while heap:
        distance, zid, parent = heapq.heappop(heap)
        if zid in done:
            continue
        done.add(zid)
        if zid != root and (parent == own or parent in found):
            found.add(zid)
        near = edges.get(zid, {})
        for other, length in near.items():
            if other not in done:
                heapq.heappush(heap, (distance + length, other, zid))
        yield 1 + len(near)
    return found

"""Paths: what one router has to know of the trees of all, from a few searches for shortest paths.

Links are as long one way as the other and no two paths are equally long (`trees`), so the shortest
path from a router to this one is the shortest path back. That answers for every tree of the network
at once, with one search from this router and one from each of its neighbours:

    the parent here in the tree of R      the first router on the path from here to R
    N is a child here in the tree of R    the path from neighbour N to R begins with this router

A search is done in pieces, so that no number of routers holds up everything else.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from typing import Final

from elea.records import dataclass, field
from elea.routing.linkstate.graph import Links
from elea.routing.linkstate.trees import Edges, edge_length, edge_share

_HASH_COST: Final = 30  # a share costs as much as so many steps of a search


@dataclass(slots=True)
class Paths:
    """The network as of one moment, seen from one router.

    Attributes:
        edges: The links that both ends tell of, with their length.
        shares: What the ids of its two ends add to the length of each link.
        hops: For every router that can be reached, the neighbour that leads there.
        distances: How far it is.
        through: For every neighbour, the routers it reaches through this one.
    """

    edges: dict[bytes, dict[bytes, float]] = field(default_factory=dict)
    shares: dict[tuple[bytes, bytes], float] = field(default_factory=dict)
    hops: dict[bytes, bytes] = field(default_factory=dict)
    distances: dict[bytes, float] = field(default_factory=dict)
    through: dict[bytes, set[bytes]] = field(default_factory=dict)

    def children(self, root: bytes, own: bytes) -> list[bytes]:
        """The neighbours below this router in the tree of `root`, in a stable order."""
        if root == own:
            return sorted(zid for zid, hop in self.hops.items() if zid == hop)
        return sorted(zid for zid, roots in self.through.items() if root in roots)


def survey(links: Links, own: bytes, before: Paths) -> Generator[int, None, Paths]:
    """Find the paths of a network; yields what was done since the last time, in steps.

    `before` are the last ones: what ids add to a length is not computed again.
    """
    paths = Paths()
    for zid in links:
        yield from _measure(links, zid, paths, before)
    paths.hops, paths.distances = yield from _search(paths.edges, own)
    for zid in [zid for zid, hop in paths.hops.items() if zid == hop]:
        hops, _ = yield from _search(paths.edges, zid)
        paths.through[zid] = {root for root, hop in hops.items() if hop == own and root != own}
        yield len(hops)
    return paths


def _measure(links: Links, zid: bytes, paths: Paths, before: Paths) -> Iterator[int]:
    """Add the edges of one router."""
    edges = paths.edges[zid] = {}
    yield 1 + len(links[zid])
    for other, weight in links[zid].items():
        weight_back = links.get(other, {}).get(zid)
        if weight_back is None:
            continue
        pair = (zid, other) if zid < other else (other, zid)
        share = paths.shares.get(pair)
        if share is None:
            share = before.shares.get(pair)
            if share is None:
                share = edge_share(zid, other)
                yield _HASH_COST
            paths.shares[pair] = share
        edges[other] = edge_length(share, weight, weight_back)


def _search(
    edges: Edges, root: bytes
) -> Generator[int, None, tuple[dict[bytes, bytes], dict[bytes, float]]]:
    """For every router that `root` reaches: the first one on the way, and how far it is."""
    hops: dict[bytes, bytes] = {}
    distances: dict[bytes, float] = {}
    heap: list[tuple[float, bytes, bytes]] = [(0.0, root, root)]  # distance, router, hop
    while heap:
        distance, zid, hop = heapq.heappop(heap)
        if zid in distances:
            continue
        distances[zid] = distance
        if zid != root:
            hops[zid] = hop
        near = edges.get(zid, {})
        for other, length in near.items():
            if other not in distances:
                first = other if zid == root else hop
                heapq.heappush(heap, (distance + length, other, first))
        yield 1 + len(near)
    return hops, distances

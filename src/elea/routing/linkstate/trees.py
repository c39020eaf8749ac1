"""Shortest-path trees between routers, the same on every router (behaviour.md 6.4, 6.5).

Weights get a little of a hash of the two ids, so that no two paths are equally long. Every router
has to compute exactly the same number: SipHash-1-3 and IEEE doubles, in this order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final

from elea.limits import ZID_LEN_MAX
from elea.records import dataclass, field

WEIGHT_DEFAULT: Final = 100
_JITTER: Final = 0.01
_U32: Final = 0xFFFF_FFFF
_U64: Final = 0xFFFF_FFFF_FFFF_FFFF
_SIP_START: Final = (
    0x736F6D6570736575,
    0x646F72616E646F6D,
    0x6C7967656E657261,
    0x7465646279746573,
)

Edges = Mapping[bytes, Mapping[bytes, float]]  # who is linked to whom, with the edge's length


def siphash13(data: bytes) -> int:
    """SipHash-1-3 of `data` under a key of zeros.

    Example:
        >>> hex(siphash13(b""))
        '0xd1fba762150c532c'
    """
    state = _SIP_START
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = _round((*state[:3], state[3] ^ word))
        state = (v0 ^ word, v1, v2, v3)
    state = (state[0], state[1], state[2] ^ 0xFF, state[3])
    for _ in range(3):
        state = _round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def edge_share(a: bytes, b: bytes) -> float:
    """What the ids of two routers add to the edge between them, from 0 to 1."""
    first, second = sorted(zid.ljust(ZID_LEN_MAX, b"\0") for zid in (a, b))
    return (siphash13(first + second) & _U32) / _U32


def edge_length(share: float, weight_a: int = 0, weight_b: int = 0) -> float:
    """How long an edge is; 0 is a weight that was not set."""
    return (max(weight_a, weight_b) or WEIGHT_DEFAULT) * (1.0 + _JITTER * share)


@dataclass(slots=True)
class Tree:
    """The shortest paths from `root`, as one router uses them.

    Attributes:
        root: Whose tree it is.
        parent: The neighbour that what `root` sends comes from; None at the root, or off the tree.
        hops: For every router below this one, the neighbour that leads to it.
    """

    root: bytes
    parent: bytes | None = None
    hops: dict[bytes, bytes] = field(default_factory=dict)
    distance: float = 0.0  # from the root to this router

    @property
    def children(self) -> list[bytes]:
        """The neighbours that what `root` sends goes on to, in a stable order."""
        return sorted(set(self.hops.values()))


def grow(edges: Edges, root: bytes, own: bytes) -> Tree:
    """The tree of `root`, seen from router `own`."""
    tree = Tree(root)
    done: dict[bytes, float] = {}
    parents: dict[bytes, bytes] = {}
    heap: list[tuple[float, bytes, bytes]] = [(0.0, root, root)]
    while heap:
        distance, zid, parent = heapq.heappop(heap)
        if zid in done:
            continue
        done[zid] = distance
        if zid != root:
            parents[zid] = parent
        if zid == own:
            tree.distance = distance
            tree.parent = parents.get(own)
        elif parent == own and zid != root:
            tree.hops[zid] = zid
        elif parent in tree.hops:
            tree.hops[zid] = tree.hops[parent]
        for neighbour, length in edges.get(zid, {}).items():
            if neighbour not in done:
                heapq.heappush(heap, (distance + length, neighbour, zid))
    return tree


def _round(state: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = state
    v0 = (v0 + v1) & _U64
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = (v2 + v3) & _U64
    v3 = _rotate(v3, 16) ^ v2
    v0 = (v0 + v3) & _U64
    v3 = _rotate(v3, 21) ^ v0
    v2 = (v2 + v1) & _U64
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


def _rotate(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & _U64

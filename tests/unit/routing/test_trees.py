"""Trees: the numbers that every router must agree on, and the paths that follow from them."""

from __future__ import annotations

import itertools
import random

import pytest

from elea.routing.linkstate.paths import Paths, survey
from elea.routing.linkstate.trees import edge_length, edge_share, grow, siphash13


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # Of Rust's `DefaultHasher`, which is SipHash-1-3 with a key of zeros.
        (b"", 0xD1FBA762150C532C),
        (bytes(32), 0xB85BED2614339B3D),
        (bytes(range(32)), 0x31EF8061C910629B),
    ],
)
def test_hash_is_siphash_1_3(data: bytes, expected: int) -> None:
    assert siphash13(data) == expected


def test_length_of_an_edge_is_its_weight_and_up_to_one_percent() -> None:
    a, b = b"\x01\x02", b"\x02\x01"
    share = edge_share(a, b)
    assert 100 <= edge_length(share) <= 101
    assert share == edge_share(b, a)
    assert share != edge_share(a, b"\x03")
    assert 7 <= edge_length(share, 7, 0) <= 7.07
    assert edge_length(share, 7, 9) == edge_length(share, 9, 0) == edge_length(share, 0, 9)


def test_ids_are_padded_to_sixteen_octets() -> None:
    assert edge_share(b"\x01", b"\x02") == edge_share(b"\x01".ljust(16, b"\0"), b"\x02\0")


def _graph(seed: int) -> dict[bytes, dict[bytes, float]]:
    rng = random.Random(seed)
    zids = [rng.randbytes(16) for _ in range(6)]
    edges: dict[bytes, dict[bytes, float]] = {zid: {} for zid in zids}
    for a, b in itertools.combinations(zids, 2):
        if rng.random() < 0.5:
            edges[a][b] = edges[b][a] = edge_length(edge_share(a, b))
    return edges


def _shortest(edges: dict[bytes, dict[bytes, float]], root: bytes, to: bytes) -> list[bytes] | None:
    """The shortest path, by trying all."""
    best: tuple[float, list[bytes]] | None = None
    waiting: list[tuple[float, list[bytes]]] = [(0.0, [root])]
    while waiting:
        length, path = waiting.pop()
        if path[-1] == to and (best is None or length < best[0]):
            best = (length, path)
        for zid, step in edges[path[-1]].items():
            if zid not in path:
                waiting.append((length + step, [*path, zid]))
    return None if best is None else best[1]


@pytest.mark.parametrize("seed", range(12))
def test_trees_of_all_routers_are_shortest_paths(seed: int) -> None:
    edges = _graph(seed)
    for root, own in itertools.product(edges, repeat=2):
        tree = grow(edges, root, own)
        path = _shortest(edges, root, own)
        assert tree.parent == (path[-2] if path is not None and len(path) > 1 else None)
        below = {}
        for target in edges:
            way = _shortest(edges, root, target)
            if way is not None and own in way[:-1]:
                below[target] = way[way.index(own) + 1]
        assert tree.hops == below
        assert set(tree.children) == set(below.values())


def test_a_root_that_is_not_known_leads_nowhere() -> None:
    tree = grow({}, b"r", b"o")
    assert (tree.parent, tree.hops, tree.children) == (None, {}, [])


def _surveyed(links: dict[bytes, dict[bytes, int]], own: bytes, before: Paths) -> Paths:
    steps = survey(links, own, before)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Paths = done.value
            return found


@pytest.mark.parametrize("seed", range(40))
def test_paths_tell_of_the_trees_of_all_routers(seed: int) -> None:
    """One search for each neighbour says what one for each router would."""
    rng = random.Random(seed)
    zids = [rng.randbytes(rng.choice((1, 4, 16))) for _ in range(rng.choice((2, 5, 12, 25)))]
    links: dict[bytes, dict[bytes, int]] = {zid: {} for zid in zids}
    for a, b in itertools.combinations(links, 2):
        if rng.random() < 0.25:
            links[a][b] = rng.choice((0, 0, 10, 300))
            if rng.random() < 0.9:  # else only one end tells of it
                links[b][a] = rng.choice((0, 0, 10, 300))
    before = Paths()
    for own in links:
        paths = before = _surveyed(links, own, before)
        for root in links:
            tree = grow(paths.edges, root, own)
            assert paths.hops.get(root) == tree.parent
            assert paths.children(root, own) == tree.children
            assert paths.distances.get(root, 0.0) == pytest.approx(tree.distance)

"""What routers should know and do, computed from scratch: who is linked to whom, who has what.

Nothing here knows of trees or messages. A router owns what its sessions, clients and peers
declared; every router knows what all others own that it is linked to, over any number of links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from tests.unit.routing.mesh import Mesh, Node

from elea.routing.regions import ROUTERS
from elea.routing.tables import ABSENT, Kind, merge_info

Item = tuple[Kind, str]
SETTLED_S = 3.0  # trees are computed, told and confirmed


def linked(nodes: Iterable[Node]) -> dict[bytes, set[bytes]]:
    """The routers that each router is linked to, itself among them."""
    known = list(nodes)
    reached = {node.zid: {node.zid} for node in known}
    while True:
        before = sum(map(len, reached.values()))
        for node in known:
            for link in node.links.values():
                if link.node.zid in reached:
                    reached[node.zid] |= reached[link.node.zid]
        if sum(map(len, reached.values())) == before:
            return reached


def owned(node: Node) -> dict[Item, int]:
    """What a router should tell others to be its own."""
    found: dict[Item, int] = {}
    for kind in Kind:
        for entry in node.routing.tables.intersecting(kind, None):
            info = ABSENT
            for region, group in entry.owners.items():
                if region != ROUTERS.name:
                    for owner in group.values():
                        info = merge_info(info, owner.info)
            if info != ABSENT:
                found[kind, entry.key] = info
    return found


def learnt(node: Node) -> dict[bytes, dict[Item, int]]:
    """What a router believes that others own."""
    found: dict[bytes, dict[Item, int]] = {}
    for kind in Kind:
        for entry in node.routing.tables.intersecting(kind, None):
            for owner in entry.owners.get(ROUTERS.name, {}).values():
                found.setdefault(owner.face.spec.zid, {})[kind, entry.key] = owner.info
    return found


def check_tables(nodes: Iterable[Node]) -> None:
    """Compare what every router has learnt with what there is."""
    known = {node.zid: node for node in nodes}
    reached = linked(known.values())
    for zid, node in known.items():
        others = {other: owned(known[other]) for other in sorted(reached[zid]) if other != zid}
        assert learnt(node) == {other: items for other, items in others.items() if items}
        assert node.routing.network is not None
        assert set(node.routing.network.nodes) == reached[zid]


def graphs(count: int) -> Iterator[list[tuple[int, int]]]:
    """Every connected graph of `count` numbered nodes, as its edges."""
    pairs = list(combinations(range(count), 2))
    for bits in range(1 << len(pairs)):
        edges = [pair for number, pair in enumerate(pairs) if bits >> number & 1]
        met = {0}
        while True:
            more = {b for a, b in edges if a in met} | {a for a, b in edges if b in met}
            if more <= met:
                break
            met |= more
        if len(met) == count:
            yield edges


def routers(edges: Iterable[tuple[int, int]], count: int, prefix: str = "r") -> list[Node]:
    """Routers with these links, settled."""
    mesh = Mesh()
    nodes = [mesh.node(f"{prefix}{number}", "router") for number in range(count)]
    for a, b in edges:
        mesh.connect(nodes[a], nodes[b])
    mesh.wait(SETTLED_S)
    return nodes

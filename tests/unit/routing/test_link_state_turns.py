"""Link state of large networks, and floods of it: computed in bounded turns, now and then."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest
from tests.unit.routing.mesh import Mesh, Node

from elea.routing import paths, routers
from elea.routing.regions import ROUTER
from elea.routing.trees import grow
from elea.wire.fields_hot import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam


def network_of(count: int, sn: int, own: bytes, seed: int) -> Oam:
    """Link state of `count` made-up routers with twenty links each, told by router `n`."""
    rng = random.Random(seed)
    links: dict[int, set[int]] = {number: set() for number in range(count + 1)}
    for number in links:
        for step in range(1, 11):
            other = (number + step * rng.choice((1, 1, 1, 7))) % (count + 1)
            if other != number:
                links[number].add(other)
                links[other].add(number)
    states = [LinkState(0, sn, b"n", 1, None, [count + 1, *sorted(links[0])])]
    states.append(LinkState(count + 1, 1, own))
    for number in range(1, count + 1):
        zid = number.to_bytes(4, "big") + b"zid"
        states.append(LinkState(number, sn, zid, 1, None, sorted(links[number])))
    return Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE)


def steps_of_turns(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much work each turn of a computation of paths does, from now on."""
    turns: list[int] = []
    steps = paths.survey

    def counted(*args: Any) -> Generator[int, None, paths.Paths]:
        work = steps(*args)
        while True:
            try:
                cost = next(work)
            except StopIteration as done:
                found: paths.Paths = done.value
                return found
            turns[-1] += cost
            yield cost

    monkeypatch.setattr(routers, "survey", counted)
    fire = node.routing.handle_timer

    def handle_timer() -> None:
        due_ns = node.routing.next_timer_ns()
        assert due_ns is not None
        node.mesh.now_ns = max(node.mesh.now_ns, due_ns)
        turns.append(0)
        fire(node.mesh.now_ns)

    while node.routing.next_timer_ns() is not None:
        handle_timer()
    return turns


def test_a_large_network_is_computed_in_bounded_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message of 16 kB cost seconds in one turn."""
    node = Mesh().node("r", "router")
    teller, _ = node.neighbour(ROUTER, zid=b"n"), node.neighbour(ROUTER, zid=b"o")
    node.mesh.pump()
    teller.say(network_of(300, 2, node.zid, seed=1))
    turns = steps_of_turns(node, monkeypatch)
    assert len(turns) > 10
    assert max(turns) < 2_500  # the last step may be one more
    network = node.routing.network
    assert network is not None
    tree = grow(network._paths.edges, b"n", network.own.zid)
    assert network.parent(b"n") is node.routing.tables.faces[teller.face_id]
    assert [face.spec.zid for face in network.children(b"n")] == tree.children


def test_a_flood_of_link_state_is_computed_now_and_then() -> None:
    node = Mesh().node("r", "router")
    teller, _ = node.neighbour(ROUTER, zid=b"n"), node.neighbour(ROUTER, zid=b"o")
    node.mesh.pump()
    network = node.routing.network
    assert network is not None
    began: list[int] = []
    begin = network.on_trees
    assert begin is not None

    def regrown(now_ns: int) -> None:
        began.append(now_ns)
        begin(now_ns)

    network.on_trees = regrown
    for sn in range(2, 60):
        teller.say(network_of(100, sn, node.zid, seed=sn))
        assert node.routing.debts.pop(teller.face_id) >= 5_000_000  # and it is read again later
        node.mesh.now_ns += 10_000_000
        while (due_ns := node.routing.next_timer_ns()) is not None and due_ns <= node.mesh.now_ns:
            node.routing.handle_timer(node.mesh.now_ns)
            node.mesh.now_ns += 1
    assert 1 <= len(began) <= 6  # 58 messages in 0.58 seconds


def test_a_few_links_cost_no_rest() -> None:
    node = Mesh().node("r", "router")
    teller = node.neighbour(ROUTER, zid=b"n")
    teller.say(network_of(20, 2, node.zid, seed=1))
    assert node.routing.debts == {}

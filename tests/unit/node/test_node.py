"""Node: links become neighbours, neighbours become faces, and all of it goes away again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.node.worlds import Session, pair, settings

from elea.answers import QUEUED
from elea.ids import WhatAmI
from elea.node.node import Node
from elea.node.ports import ConnectFailed, NeighbourDown, NeighbourUp
from elea.sim.network import Faults
from elea.sim.world import World, seconds
from elea.wire.data.query import Query
from elea.wire.fields import QOS_DECLARE, QOS_REQUEST, WireExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.request import Request
from elea.wire.network.response_final import ResponseFinal


@pytest.mark.parametrize("whatami", [WhatAmI.PEER, WhatAmI.CLIENT])
def test_samples_of_any_size_cross_a_link_both_ways(whatami: WhatAmI) -> None:
    world, near, far = pair(whatami=whatami)
    far.subscribe("up/**")
    near.subscribe("down/*")
    world.run_for(seconds(1))
    payloads = [b"", b"x", bytes(1_000), bytes(300_000)]
    for payload in payloads:
        near.put("up/a/b", payload)
        far.put("down/c", payload)
    world.run_for(seconds(2))
    assert [payload for _, payload in far.samples] == payloads
    assert [payload for _, payload in near.samples] == payloads


def test_what_nobody_wants_is_not_sent() -> None:
    world, near, far = pair()
    far.subscribe("wanted/**")
    world.run_for(seconds(1))
    near.put("other/key", b"x")
    near.put("wanted/key", b"y")
    world.run_for(seconds(1))
    assert far.samples == [("wanted/key", b"y")]


def test_neighbours_come_and_go() -> None:
    world, near, far = pair()
    world.run_for(seconds(1))
    assert [type(event) for event in far.neighbours] == [NeighbourUp]
    assert [one.zid for one in near.driver.node.neighbours()] == [b"\xaa"]
    near.driver.close()
    world.run_for(seconds(1))
    assert [type(event) for event in far.neighbours] == [NeighbourUp, NeighbourDown]
    assert far.driver.node.neighbours() == []


def test_everything_is_forgotten_when_all_is_closed() -> None:
    world, near, far = pair()
    near.subscribe("a/**")
    far.subscribe("b/**")
    world.run_for(seconds(1))
    near.driver.node.detach(near.face_id, world.now_ns)
    near.driver.close()
    world.run_for(seconds(1))
    far.driver.node.detach(far.face_id, world.now_ns)
    assert near.driver.node.routing.is_empty()
    assert far.driver.node.routing.is_empty()


def test_a_lost_link_is_made_again_and_all_is_declared_again() -> None:
    world, near, far = pair()
    near.subscribe("a")
    world.run_for(seconds(1))
    [pipe] = world.network.pipes
    world.network.reset(pipe, "cut")
    world.run_for(seconds(1))
    kinds = [type(event) for event in far.neighbours]
    assert kinds == [NeighbourUp, NeighbourDown, NeighbourUp]
    far.put("a", b"again")
    world.run_for(seconds(1))
    assert near.samples == [("a", b"again")]


def test_silence_for_the_lease_ends_a_half_open_link() -> None:
    world, near, far = pair()
    world.run_for(seconds(1))
    world.network.part("near", "far")
    world.run_for(seconds(9))
    assert len(far.neighbours) == 1
    world.run_for(seconds(3))
    kinds = [[type(event) for event in one.neighbours] for one in (near, far)]
    assert kinds == [[NeighbourUp, NeighbourDown]] * 2
    world.network.heal()
    world.run_for(seconds(6))
    assert type(near.neighbours[-1]) is NeighbourUp


def test_an_idle_link_lives() -> None:
    world, near, far = pair()
    world.run_for(seconds(120))
    assert [type(event) for event in near.neighbours + far.neighbours] == [NeighbourUp] * 2


def test_attempts_are_repeated_with_growing_pauses() -> None:
    world = World(3)
    world.add("near", settings(1, connect=("tcp/nobody:7447",)))
    world.run_for(seconds(20))
    failures = [int(line.split()[0]) for line in world.trace.lines if "ConnectFailed" in line]
    pauses = [(b - a) / 1e9 for a, b in pairwise(failures)]
    assert 0.7 <= pauses[0] <= 1.1
    assert pauses[0] < pauses[1] < pauses[2] <= 4.1
    assert all(2.9 <= pause <= 4.1 for pause in pauses[2:])


def test_a_client_without_patience_tries_once() -> None:
    world = World(3)
    node = world.add(
        "near", settings(1, WhatAmI.CLIENT, connect=("tcp/nobody:7447",), connect_timeout_ns=0)
    )
    world.run_for(seconds(10))
    assert sum("ConnectFailed" in line for line in world.trace.lines) == 1
    assert node.node.next_timer_ns() is None


def test_a_node_does_not_connect_to_itself() -> None:
    world = World(5)
    node = world.add("me", settings(9, listen="tcp/me:7447", connect=("tcp/me:7447",)))
    session = Session(node)
    world.run_for(seconds(5))
    assert session.neighbours == []
    assert any("the same id as this node" in line for line in world.trace.lines)


def test_two_nodes_that_dial_each_other_are_one_neighbour_each() -> None:
    for seed in range(20):
        world = World(seed)
        one = world.add("one", settings(1, listen="tcp/one:1", connect=("tcp/two:2",)))
        two = world.add("two", settings(2, listen="tcp/two:2", connect=("tcp/one:1",)))
        here, there = Session(one), Session(two)
        here.subscribe("a/**")
        world.run_for(seconds(10))
        assert len(one.node.neighbours()) == len(two.node.neighbours()) == 1
        there.put("a/b", b"once")
        world.run_for(seconds(2))
        assert here.samples == [("a/b", b"once")], f"seed {seed}"


def test_clients_do_not_connect_to_clients() -> None:
    world = World(1)
    world.add("far", settings(1, WhatAmI.CLIENT, listen="tcp/far:7447"))
    near = Session(world.add("near", settings(2, WhatAmI.CLIENT, connect=("tcp/far:7447",))))
    world.run_for(seconds(3))
    assert not any(isinstance(one, NeighbourUp) for one in near.neighbours)


def test_garbage_ends_the_link_it_came_on_and_no_other() -> None:
    world, _, far = pair()
    other = Session(world.add("other", settings(3, connect=("tcp/far:7447",))))
    world.run_for(seconds(1))
    pipe = next(pipe for pipe in world.network.pipes if pipe.ends[0].node == "near")
    far.driver.node.link_data(pipe.ends[1].link_id, b"\x02\x00\xff\xff", world.now_ns)
    far.driver.flush()
    assert [one.zid for one in far.driver.node.neighbours()] == [b"\x03"]
    assert [type(event) for event in other.neighbours] == [NeighbourUp]


def test_a_stalled_neighbour_is_closed_after_the_blocking_time() -> None:
    world, near, far = pair()
    far.subscribe("**")
    world.run_for(seconds(1))
    near.driver.stalled = True
    answers = [near.put("a", bytes(100_000)) for _ in range(20)]
    assert answers[0] == 0
    assert answers[-1] == 2
    world.run_for(seconds(6))
    assert isinstance(near.neighbours[-1], NeighbourDown)


def test_a_failed_connection_is_told() -> None:
    node = Node(settings(1, connect=("tcp/a:1",)), rng=bytes)
    node.start(0)
    [connect] = node.effects()
    node.connect_failed(1, "nobody there", 0)
    [failed] = node.effects()
    assert isinstance(failed, ConnectFailed)
    assert (failed.connector_id, failed.reason) == (1, "nobody there")
    assert [str(one) for one in failed.endpoints] == ["tcp/a:1"]
    assert node.next_timer_ns() is not None
    assert connect is not None


def test_a_failure_is_news_when_its_reason_is_another_one() -> None:
    node = Node(settings(1, connect=("tcp/a:1",)), rng=bytes)
    node.start(0)
    news = []
    for reason in ("a; b", "b; a", "c", "c", "a; b"):
        node.effects()
        node.connect_failed(1, reason, 0)
        [failed] = node.effects()
        assert isinstance(failed, ConnectFailed)
        news.append(failed.is_news)
        node.handle_timer(10**15)
    assert news == [True, False, True, False, True]


@pytest.mark.parametrize("seed", range(10))
def test_cut_anywhere_it_comes_back(seed: int) -> None:
    world, near, far = pair(seed)
    world.network.faults = Faults(reset=0.2, cut=0.8)
    near.subscribe("a/**")
    world.run_for(seconds(30))
    world.network.faults = Faults()
    world.run_for(seconds(10))
    far.put("a/b", b"alive")
    world.run_for(seconds(2))
    assert near.samples == [("a/b", b"alive")]


def test_a_query_that_waits_for_room_is_not_over() -> None:
    world, near, far = pair()
    far.subscribe("**")
    queryable = Declare(DeclareQueryable(9, WireExpr(0, "q")), qos=QOS_DECLARE)
    far.driver.node.local_send(far.face_id, queryable, True, world.now_ns)
    far.driver.flush()
    world.run_for(seconds(1))
    near.driver.stalled = True
    while near.put("a", bytes(100_000)) != QUEUED:
        pass
    request = Request(1, WireExpr(0, "q"), Query(), qos=QOS_REQUEST)
    near.driver.node.local_send(near.face_id, request, True, world.now_ns)
    near.driver.flush()
    assert not any(isinstance(one, ResponseFinal) for one in near.messages)
    near.driver.stalled = False
    near.driver.flush()
    world.run_for(seconds(2))
    assert any(isinstance(one, Request) for one in far.messages)

"""The laws over a world at rest, on small worlds made by hand."""

from __future__ import annotations

from random import Random

import pytest

from elea.choices import SIM_SHAPES
from elea.routing.tables import Kind
from elea.sim.campaign.actor import Actor, Answer, Wish
from elea.sim.campaign.convergence import (
    Graph,
    all_are_connected,
    all_is_forgotten,
    expected_at,
    neighbours_agree,
    nothing_is_under_way,
    sessions_know_the_truth,
    tables_equal_fresh_ones,
)
from elea.sim.campaign.history import History
from elea.sim.campaign.plan import Options, Plan, draw
from elea.sim.world import World, seconds
from elea.wire.network.interest import InterestMode

WATCH = Wish(InterestMode.CURRENT_FUTURE, Kind.TOKEN, "**", aggregate=False)


def plan(shape: str, nodes_count: int) -> Plan:
    """The first plan of a shape, over streams and without faults."""
    for seed in range(10_000):
        found = draw(seed, Options(nodes_count=nodes_count, faults="none"), Random(seed))
        if found.shape == shape and found.scheme == "tcp":
            return found
    raise AssertionError(shape)


def peopled(shape: str, nodes_count: int = 4) -> tuple[World, list[Actor]]:
    """A world of a shape with one session per node, some time later."""
    world = World(1)
    history = History(lambda: world.now_ns, world.trace)
    actors = []
    for number, one in enumerate(plan(shape, nodes_count).nodes):
        driver = world.add(one.name, one.settings, limits=one.limits)
        actors.append(Actor(driver, number, history, lambda: Answer.INSIDE))
    world.run_for(seconds(5))
    return world, actors


@pytest.mark.parametrize(
    ("shape", "one", "other", "reaches"),
    [
        ("mesh", "n0", "n3", True),
        ("chain", "n0", "n1", True),
        ("chain", "n0", "n2", False),  # peers hand nothing from peer to peer
        ("star", "n1", "n3", True),
        ("tree", "n2", "n3", True),
        ("mesh", "n1", "n1", True),
    ],
)
def test_how_far_samples_go(shape: str, one: str, other: str, reaches: bool) -> None:
    world, _ = peopled(shape)
    assert Graph(world).reaches(one, other) is reaches
    assert Graph(world).reaches(other, one) is reaches


@pytest.mark.parametrize("shape", SIM_SHAPES)
def test_a_sound_world_breaks_no_law(shape: str) -> None:
    world, actors = peopled(shape)
    for actor in actors:
        actor.declare(Kind.SUBSCRIBER, "a/*")
        actor.declare(Kind.TOKEN, f"t/{actor.number}")
        actor.wish(WATCH)
    world.run_for(seconds(2))
    for law in (all_are_connected, nothing_is_under_way, neighbours_agree, tables_equal_fresh_ones):
        assert law(world) == []
    assert sessions_know_the_truth(world, actors) == []
    assert len(expected_at(actors, Graph(world), actors[0], Kind.SUBSCRIBER, "a/1")) >= 1


def test_a_missing_link_is_named() -> None:
    world, _ = peopled("chain", 2)
    world.network.part("n0", "n1")
    world.run_for(seconds(30))
    assert {"n0 is not connected to n1", "n1 is not connected to n0"} == set(
        all_are_connected(world)
    )


def test_a_neighbour_that_does_not_exist_is_named() -> None:
    world, _ = peopled("chain", 2)
    world.crash("n1", silent=True)
    assert "n0 is connected to 0201, a dead node" in all_are_connected(world)
    assert "n0 believes in a dead link" in nothing_is_under_way(world)
    assert neighbours_agree(world) == ["n0: neighbour 0201 is not there"]


def test_what_waits_is_named() -> None:
    world, actors = peopled("chain", 2)
    actors[1].declare(Kind.SUBSCRIBER, "a")
    world.run_for(seconds(1))
    actors[0].driver.stalled = True
    while not actors[0].driver.node.is_congested():
        actors[0].put("a", fill_len=60_000, blocking=True, reliable=True)
    assert nothing_is_under_way(world) == ["n0: messages wait for room"]


def test_a_process_that_stands_still_is_named() -> None:
    world, actors = peopled("chain", 2)
    actors[0].driver.pause(seconds(1))
    assert nothing_is_under_way(world) == ["n0 stands still"]


def test_an_open_query_is_named() -> None:
    world, actors = peopled("chain", 2)
    actors[1].declare(Kind.QUERYABLE, "a")
    world.run_for(seconds(1))
    world.network.part("n0", "n1")
    actors[0].ask("a", target=1, timeout_ms=5_000)
    assert nothing_is_under_way(world) == ["n0: queries or interests are open"]


def test_a_session_that_was_not_told_is_named() -> None:
    world, actors = peopled("chain", 2)
    actors[0].wish(WATCH)
    world.network.part("n0", "n1")
    actors[1].declare(Kind.TOKEN, "t")
    world.run_for(seconds(0.5))
    assert sessions_know_the_truth(world, actors) == ["session 0: TOKEN {'t'} not told"]
    assert neighbours_agree(world) != []
    world.network.heal()
    world.run_for(seconds(0.5))
    assert sessions_know_the_truth(world, actors) == []
    world.network.part("n0", "n1")
    actors[1].undeclare(Kind.TOKEN, 1)
    world.run_for(seconds(0.5))
    assert sessions_know_the_truth(world, actors) == ["session 0: TOKEN {'t'} is gone"]


def test_what_is_left_after_the_end_is_named() -> None:
    world, actors = peopled("chain", 2)
    for actor in actors[:1]:
        actor.detach()
    for driver in world.nodes.values():
        driver.close()
    world.run_for(seconds(4))
    [broken] = all_is_forgotten(world)
    assert broken.startswith("n1 still holds something: neighbours 0, faces 1")
    actors[1].detach()
    assert all_is_forgotten(world) == []

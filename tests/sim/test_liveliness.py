"""I11: the tokens of a node that dies are gone within its lease and a second, once; no others."""

from __future__ import annotations

from collections import Counter

import pytest

from elea.routing.tables import Kind
from elea.sim.campaign.actor import Actor, Answer, Wish
from elea.sim.campaign.convergence import Graph, sessions_know_the_truth
from elea.sim.campaign.history import History, Vanished
from elea.sim.campaign.plan import Options, draw
from elea.sim.world import World, seconds, seeded
from elea.wire.network.interest import InterestMode

WATCH = Wish(InterestMode.CURRENT_FUTURE, Kind.TOKEN, "**", aggregate=False)


@pytest.mark.parametrize("seed", range(30))
def test_the_tokens_of_a_dead_node_are_gone_in_time(seed: int) -> None:
    rng = seeded(seed)
    plan = draw(seed, Options(nodes_count=4, faults="none"), rng)
    world = World(seed)
    history = History(lambda: world.now_ns, world.trace)
    actors: list[Actor] = []
    for one in plan.nodes:
        driver = world.add(one.name, one.settings, limits=one.limits)
        for _ in range(2):
            actor = Actor(driver, len(actors), history, lambda: Answer.NEVER)
            actor.declare(Kind.TOKEN, f"t/{actor.number}")
            actor.wish(WATCH)
            actors.append(actor)
    world.run_for(seconds(3 + rng.random()))
    assert sessions_know_the_truth(world, actors) == []
    before = Graph(world)
    dead = rng.choice([one.name for one in plan.nodes])
    knew = {
        actor.number
        for actor in actors
        if actor.driver.name != dead and before.reaches(dead, actor.driver.name)
    }

    start = len(history.events)
    world.crash(dead, silent=rng.random() < 0.7)
    world.run_for(seconds(plan.nodes[0].settings.offered.lease_ms / 1_000 + 1))

    alive = [actor for actor in actors if actor.driver.name != dead]
    assert sessions_know_the_truth(world, alive) == []
    ends = Counter(
        (event.session, event.key)
        for _, event in history.events[start:]
        if isinstance(event, Vanished)
    )
    assert set(ends.values()) == {1}
    gone = {f"t/{actor.number}" for actor in actors if actor.driver.name == dead}
    assert {session for session, key in ends if key in gone} == knew
    # Others vanish only for those who were connected through the dead node.
    after = Graph(world)
    homes = {actor.number: actor.driver.name for actor in actors}
    for session, key in ends:
        owner = homes[int(key[2:])]
        assert owner == dead or not after.reaches(owner, homes[session])

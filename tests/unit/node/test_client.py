"""A client has one neighbour: which one, and which after that one is lost."""

from __future__ import annotations

from tests.unit.node.worlds import Session, settings

from elea.ids import WhatAmI
from elea.sim.world import World, seconds

PLACES = ("tcp/first:1", "tcp/second:1")


def world_with(*names: str, connect_timeout_ns: int = -1) -> tuple[World, Session]:
    """Peers that listen, and a client told of two places."""
    world = World(3)
    for number, name in enumerate(names):
        world.add(name, settings(0xA0 + number, listen=f"tcp/{name}:1"))
    client = settings(1, WhatAmI.CLIENT, connect=PLACES, connect_timeout_ns=connect_timeout_ns)
    return world, Session(world.add("client", client))


def neighbours(session: Session) -> list[bytes]:
    return [one.zid for one in session.driver.node.neighbours()]


def dialled(world: World, name: str) -> int:
    return sum("client link" in line and f"to {name}" in line for line in world.trace.lines)


def test_the_first_place_that_works_is_taken_and_no_other_is_tried() -> None:
    world, client = world_with("first", "second")
    world.run_for(seconds(20))
    assert neighbours(client) == [b"\xa0"]
    assert dialled(world, "second") == 0


def test_the_next_place_is_tried_when_one_does_not_answer() -> None:
    world, client = world_with("second", connect_timeout_ns=0)
    world.run_for(seconds(20))
    assert neighbours(client) == [b"\xa0"]


def test_when_the_neighbour_is_lost_every_place_is_tried_until_one_works() -> None:
    world, client = world_with("first", "second")
    world.run_for(seconds(3))
    world.crash("first", silent=False)
    world.run_for(seconds(20))
    assert neighbours(client) == [b"\xa1"]
    world.crash("second", silent=False)
    world.add("first", settings(0xB0, listen="tcp/first:1"))
    world.run_for(seconds(20))
    assert neighbours(client) == [b"\xb0"]


def test_a_faster_place_leaves_the_slower_one_alone() -> None:
    world, client = world_with()
    world.run_for(seconds(3))  # both places are tried by now
    for number, name in enumerate(("first", "second")):
        world.add(name, settings(0xA0 + number, listen=f"tcp/{name}:1"))
    world.run_for(seconds(30))
    assert len(neighbours(client)) == 1

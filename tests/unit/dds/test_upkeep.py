"""Upkeep: a turn of the DDS thread does a bounded part of what is due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from elea.dds.routes import Direction, RouteId
from elea.dds.upkeep import END_COUNT, Upkeep

COUNT = 5 * END_COUNT


def test_routes_that_ended_together_held_up_the_others() -> None:
    bridge: Any = SimpleNamespace(routes={}, doing="")
    upkeep = Upkeep(bridge, lambda: None)
    polled: list[int] = []

    def end_route(route: Any) -> None:
        upkeep.forget(route)
        del bridge.routes[route.id]

    bridge.end_route = end_route
    for number in range(COUNT):
        id_ = RouteId(Direction.TO_DDS, f"k/{number}", "T", "", "T")
        route: Any = SimpleNamespace(id=id_, end_ns=1_000)
        bridge.routes[id_] = route
        upkeep.touch_at(route, 1_000)
    alive: Any = SimpleNamespace(
        id=RouteId(Direction.TO_DDS, "alive", "T", "", "T"), end_ns=None, poll=polled.append
    )
    bridge.routes[alive.id] = alive
    upkeep.turn(999)
    assert len(bridge.routes) == COUNT + 1
    for turn in range(1, COUNT // END_COUNT + 1):
        upkeep.wake(alive)
        assert upkeep.timeout_ns(1_000, 10**9) == 0  # the next ones are due at once
        upkeep.turn(1_000)
        assert len(polled) == turn
        assert len(bridge.routes) == COUNT + 1 - turn * END_COUNT
    assert list(bridge.routes) == [alive.id]
    assert upkeep.timeout_ns(1_000, 10**9) == 10**9

"""Upkeep: a turn of the DDS thread does a bounded part of what is due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from elea.dds.routes import Direction, RouteId
from elea.dds.upkeep import DRAIN_LOOK_NS, END_COUNT, Upkeep

COUNT = 5 * END_COUNT


def ending(count: int) -> tuple[Any, Upkeep]:
    """A bridge whose routes all end at 1,000 ns, and the one who looks after them."""
    bridge: Any = SimpleNamespace(routes={}, doing="")
    upkeep = Upkeep(bridge, lambda: None)

    def end_route(route: Any) -> None:
        upkeep.forget(route)
        del bridge.routes[route.id]

    bridge.end_route = end_route
    for number in range(count):
        id_ = RouteId(Direction.TO_DDS, f"k/{number}", "T", "", "T")
        route: Any = SimpleNamespace(id=id_, end_ns=1_000)
        bridge.routes[id_] = route
        upkeep.touch_at(route, 1_000)
    return bridge, upkeep


def living(bridge: Any, polled: list[int]) -> Any:
    """One more route, which does not end."""
    id_ = RouteId(Direction.TO_DDS, "alive", "T", "", "T")
    alive: Any = SimpleNamespace(
        id=id_, end_ns=None, poll=polled.append, maintain=lambda _now_ns: None
    )
    bridge.routes[id_] = alive
    return alive


def test_routes_that_ended_together_held_up_the_others() -> None:
    bridge, upkeep = ending(COUNT)
    polled: list[int] = []
    alive = living(bridge, polled)
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


def test_routes_that_ended_together_held_up_those_that_were_due() -> None:
    """A route that tries a write again, or keeps a rate, waits for a time and is not woken."""
    bridge, upkeep = ending(COUNT)
    polled: list[int] = []
    alive = living(bridge, polled)
    for turn in range(1, COUNT // END_COUNT):
        upkeep.touch_at(alive, 1_000 + turn)
        upkeep.turn(1_000 + turn)
        assert polled == list(range(1_001, 1_001 + turn))
        assert len(bridge.routes) == COUNT + 1 - turn * END_COUNT


def test_a_route_that_came_back_while_it_waited_for_its_end_stays() -> None:
    bridge, upkeep = ending(2 * END_COUNT)
    polled: list[int] = []
    upkeep.turn(1_000)
    back = list(bridge.routes.values())[-1]
    back.end_ns, back.poll, back.maintain = None, polled.append, lambda _now_ns: None
    upkeep.turn(1_001)
    assert (list(bridge.routes), polled) == ([back.id], [1_001])
    upkeep.turn(1_002)
    assert upkeep.timeout_ns(1_002, 10**9) == 10**9


def test_a_route_that_still_has_samples_lets_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is tried again later."""
    bridge, upkeep = ending(2 * END_COUNT)
    polled: list[int] = []
    later = next(iter(bridge.routes.values()))
    later.poll = polled.append
    monkeypatch.setattr(upkeep, "_may_end", lambda route, _now_ns: route is not later)
    upkeep.turn(1_000)
    upkeep.turn(1_001)
    assert (list(bridge.routes), polled) == ([later.id], [1_000])
    assert 0 < upkeep.timeout_ns(1_001, 10**9) <= DRAIN_LOOK_NS

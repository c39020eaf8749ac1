"""What is due when."""

from __future__ import annotations

from collections.abc import Callable

from elea.routing.timers import Timers


def test_timers_fire_in_order_and_once() -> None:
    timers, fired = Timers(), list[tuple[str, int]]()

    def noting(name: str) -> Callable[[int], None]:
        return lambda now_ns: fired.append((name, now_ns))

    for name, deadline in (("b", 20), ("a", 10), ("c", 20)):
        timers.add(deadline, noting(name))
    assert timers.next_ns() == 10
    timers.fire(9)
    assert fired == []
    timers.fire(25)
    timers.fire(30)
    assert fired == [("a", 25), ("b", 25), ("c", 25)]
    assert timers.next_ns() is None
    assert len(timers) == 0


def test_a_cancelled_timer_never_fires() -> None:
    timers, fired = Timers(), list[int]()
    timer = timers.add(10, fired.append)
    timer.cancel()
    timer.cancel()
    assert timers.next_ns() is None
    timers.fire(20)
    assert fired == []


def test_an_action_may_add_and_cancel() -> None:
    timers, fired = Timers(), list[str]()
    victim = timers.add(11, lambda _: fired.append("victim"))

    def first(now_ns: int) -> None:
        victim.cancel()
        timers.add(12, lambda _: fired.append("second"))

    timers.add(10, first)
    timers.fire(12)
    assert fired == ["second"]


def test_cancelled_timers_do_not_pile_up() -> None:
    """Queries that end early would otherwise fill the heap until their deadlines."""
    timers = Timers()
    keep = timers.add(5, lambda _: None)
    for number in range(10_000):
        timers.add(1_000 + number, lambda _: None).cancel()
    assert len(timers) == 1
    assert len(timers._heap) < 200
    keep.cancel()
    assert timers.next_ns() is None

"""The line of a route: bounded, in order, and nobody waits who need not."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from elea.dds.line import ADDED, ADDED_FIRST, FULL, Item, Line
from elea.limits import DEFAULT_LIMITS

LIMITS = replace(DEFAULT_LIMITS, dds_line_count=3, dds_line_len=10)


def item(number: int, length: int = 1) -> Item:
    return Item("k", bytes((number,)) * length, 0, b"", None)


@pytest.mark.line("D-005", "D-452")
def test_samples_come_in_order_within_bounds() -> None:
    line = Line(LIMITS)
    assert line.try_add(item(1), 1) == ADDED_FIRST
    assert line.try_add(item(2), 1) == ADDED
    assert line.try_add(item(3, 9), 9) == FULL
    assert line.try_add(item(3), 1) == ADDED
    assert line.try_add(item(4), 1) == FULL
    taken = line.take(2)
    assert taken == [item(1), item(2)]
    line.put_back(taken[1:])
    assert line.try_add(item(5), 1) == ADDED_FIRST
    assert line.take(9) == [item(2), item(3), item(5)]
    assert len(line) == 0


@pytest.mark.line("D-457")
def test_what_becomes_of_samples_that_find_it_full() -> None:
    line = Line(LIMITS)
    for number in range(3):
        line.try_add(item(number), 1)
    assert line.add(item(3), 1, waits=False, drops_oldest=False) == (FULL, 0)
    assert line.add(item(4), 1, waits=False, drops_oldest=True) == (ADDED, 1)
    assert line.take(9) == [item(1), item(2), item(4)]
    long = item(5, 50)
    assert line.try_add(long, 50) == FULL
    assert line.add(long, 50, waits=False, drops_oldest=False) == (ADDED_FIRST, 0)
    line.close()
    assert line.add(item(6), 1, waits=True, drops_oldest=False) == (FULL, 0)


@pytest.mark.line("D-457")
def test_a_thread_that_finds_the_line_full_again_is_told_again() -> None:
    """A waiting thread was told once, found the line full again, and waited two seconds."""
    line = Line(LIMITS)
    for number in range(3):
        line.try_add(item(number), 1)
    results: list[tuple[int, int]] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(line.add(item(9), 1, waits=True, drops_oldest=False))
        )
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    while line._waiting_count < 4:
        threading.Event().wait(0.001)
    for _ in range(50):
        if not any(one.is_alive() for one in threads):
            break
        line.put_back(line.take(1))
        line.take(1)
        for one in threads:
            one.join(0.01)
    assert not any(one.is_alive() for one in threads)
    assert all(result != FULL for result, _ in results)

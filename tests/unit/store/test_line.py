"""Line: a few threads answer queries of many askers, and none of these takes the places of all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually

from elea.store.line import Line


class Asked:
    """A query that is answered when it is told to be."""

    def __init__(self, asker: str, name: str = "") -> None:
        self.asker = asker
        self.name = name or asker
        self.may_end = threading.Event()
        self.refusal: str | None = None
        self.is_over = False

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_args: object) -> None:
        self.drop()

    def reply_err(self, payload: str, **_more: object) -> None:
        self.refusal = json.loads(payload)["error"]

    def drop(self) -> None:
        self.is_over = True


class Bench:
    """A line whose answers end when they are told to."""

    def __init__(self, workers_count: int, queries_count: int) -> None:
        self.begun: list[str] = []
        self.full_count = 0
        self.now_s = 0.0
        self.line = Line(
            *("t", workers_count, queries_count, self._answer, self._failed, self._full),
            clock=lambda: self.now_s,
        )

    def take(self, *asked: Asked) -> None:
        query: Any
        for query in asked:
            self.line.take(0, query)

    def _answer(self, query: Any, _number: int) -> None:
        self.begun.append(query.name)
        assert query.may_end.wait(WAIT_S)

    def _failed(self, _query: Any, error: Exception) -> None:
        raise error

    def _full(self) -> None:
        self.full_count += 1


@contextmanager
def bench(workers_count: int, queries_count: int) -> Iterator[Bench]:
    one = Bench(workers_count, queries_count)
    try:
        yield one
    finally:
        one.line.stop()


def ended(*asked: Asked) -> None:
    for one in asked:
        one.may_end.set()


def test_one_asker_does_not_take_the_places_of_all() -> None:
    """Sixteen questions of one asker made everybody else's `busy`."""
    greedy = [Asked("greedy", f"greedy {number}") for number in range(40)]
    others = [Asked(f"other {number}") for number in range(5)]
    with bench(2, 16) as made:
        made.take(*greedy)
        assert [one.refusal for one in greedy] == [None] * 16 + ["busy"] * 24
        made.take(*others)
        assert [one.refusal for one in others] == [None] * 5
        assert [one.refusal for one in greedy].count(None) == 11
        assert made.full_count == 29
        ended(*greedy, *others)
        assert eventually(lambda: all(one.is_over for one in (*greedy, *others)))
        assert set(made.begun) >= {one.name for one in others}


def test_one_asker_uses_every_place_that_nobody_else_wants() -> None:
    asked = [Asked("one") for _ in range(16)]
    with bench(2, 16) as made:
        made.take(*asked)
        ended(*asked)
        assert eventually(lambda: len(made.begun) == 16)
    assert [one.refusal for one in asked] == [None] * 16


def test_questions_that_take_all_their_time_leave_a_thread_to_others() -> None:
    """Two questions of half a minute each held up those of everybody."""
    slow = [Asked("greedy", f"slow {number}") for number in range(8)]
    quick = [Asked("other", f"quick {number}") for number in range(3)]
    with bench(2, 16) as made:
        made.take(*slow)
        assert eventually(lambda: made.begun == ["slow 0"])
        for one in quick:
            ended(one)
            made.take(one)
        assert eventually(lambda: all(one.is_over for one in quick))
        assert made.begun == ["slow 0", "quick 0", "quick 1", "quick 2"]
        ended(*slow)
        assert eventually(lambda: all(one.is_over for one in slow))


def was_begun(made: Bench, name: str) -> bool:
    return name in made.begun


def test_long_answers_of_many_askers_held_up_everybody_else() -> None:
    """Six of them with ten long questions each: a question for one value waited for 33 s."""
    first = [Asked(f"heavy {number}") for number in range(3)]
    slow = [Asked(f"heavy {number % 3}", f"slow {number}") for number in range(9)]
    quick = [Asked("other", f"quick {number}") for number in range(2)]
    with bench(3, 16) as made:
        made.take(*first)
        assert eventually(lambda: len(made.begun) == 3)
        made.now_s = 5.0
        ended(*first)
        assert eventually(lambda: all(one.is_over for one in first))
        made.take(*slow)
        assert eventually(lambda: len(made.begun) == 5)
        for one in quick:
            made.take(one)
            assert eventually(partial(was_begun, made, one.name))
            ended(one)
        assert len(made.begun) == 7
        ended(*slow)
        assert eventually(lambda: all(one.is_over for one in slow))


def test_askers_are_answered_in_turn() -> None:
    first = Asked("a", "first")
    many = [Asked("a", f"a{number}") for number in range(3)]
    others = [Asked("b", "b0"), Asked("c", "c0"), Asked("b", "b1")]
    with bench(1, 16) as made:
        made.take(first)
        assert eventually(lambda: made.begun == ["first"])
        made.take(*many, *others)
        ended(*many, *others, first)
        assert eventually(lambda: len(made.begun) == 7)
    assert made.begun == ["first", "a0", "b0", "c0", "a1", "b1", "a2"]


def test_askers_with_as_many_places_displace_nobody() -> None:
    asked = [Asked(f"asker {number}") for number in range(5)]
    with bench(1, 4) as made:
        made.take(*asked)
        assert [one.refusal for one in asked] == [None] * 4 + ["busy"]
        ended(*asked)
        assert eventually(lambda: all(one.is_over for one in asked))


@pytest.mark.parametrize("askers_count", [1, 3])
def test_a_line_that_stops_drops_who_waits(askers_count: int) -> None:
    asked = [Asked(f"asker {number % askers_count}") for number in range(6)]
    made = Bench(1, 16)
    made.take(*asked)
    assert eventually(lambda: made.begun)
    ended(*asked)
    made.line.stop()
    late = Asked("late")
    made.take(late)
    assert late.refusal == "busy"
    assert all(one.is_over for one in asked)

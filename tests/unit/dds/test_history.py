"""Queries for history: a bounded number at a time, in order, whatever is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from elea.dds.history import HistoryQueries, Question
from elea.dds.line import Item

line = pytest.mark.line


class _Asker:
    """History queries of a session that a test answers."""

    def __init__(self, running_max: int, waiting_max: int, *, denied: str = "denied") -> None:
        self.posted: list[Callable[[int], None]] = []
        self.ends: list[Callable[[], object]] = []
        self.done: list[str] = []
        session: Any = SimpleNamespace(get=self._get)
        rights: Any = SimpleNamespace(allow_query=lambda key, _: not key.startswith(denied))
        self.queries = HistoryQueries(
            session,
            self.posted.append,
            rights,
            timeout_s=1.0,
            running_max=running_max,
            waiting_max=waiting_max,
            samples_max=10,
        )

    def _get(self, _selector: object, handler: Any, **_options: object) -> None:
        self.ends.append(handler.drop)

    def ask(self, key: str) -> None:
        def done(_items: list[Item], _beyond: int) -> None:
            self.done.append(key)

        self.queries.ask(Question(key, "", done))

    def end(self, at: int = 0) -> None:
        """End a query that runs."""
        self.ends.pop(at)()
        while self.posted:
            self.posted.pop(0)(0)


@line("D-567", "D-814")
def test_many_queries_that_are_refused_after_they_waited_ended_in_a_recursion() -> None:
    asker = _Asker(1, 5_000)
    asker.ask("first")
    for number in range(3_000):
        asker.ask(f"denied/{number}")
    asker.ask("last")
    assert asker.done == []
    asker.end()
    assert asker.done == ["first", *(f"denied/{number}" for number in range(3_000))]
    asker.end()
    assert asker.done[-1] == "last"


@line("D-567")
def test_the_oldest_that_waits_gives_way() -> None:
    asker = _Asker(1, 2)
    for name in "abcd":
        asker.ask(name)
    assert (asker.done, asker.queries.dropped_count) == (["b"], 1)
    for _ in range(3):
        asker.end()
    assert asker.done == ["b", "a", "c", "d"]

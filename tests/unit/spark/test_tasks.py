"""Processes that run tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from elea.spark.tasks import settle


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_only_a_process_of_tasks_is_settled() -> None:
    settle()
    assert gc.get_freeze_count() == 0


def test_what_is_loaded_stays_and_what_comes_later_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    settle()
    count = gc.get_freeze_count()
    assert count > 10_000
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    settle()
    assert gc.get_freeze_count() <= count, "once is enough"
    assert gc.collect() > 0

"""Processes that run tasks."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from elea.errors import ConfigError
from elea.spark import tasks
from elea.spark.tasks import end_quietly, rows_told_briefly, settle, told_briefly


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in a process that is not settled; what was frozen before is frozen again."""
    monkeypatch.setattr(tasks, "_SETTLED", threading.Event())
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


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


def test_a_settled_process_does_not_count_what_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count walks every frozen object: 18 ms for each scan, whatever its size."""
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    settle()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("counted"))
    settle()


def test_the_orderly_end_of_a_stream_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark closes the connection of the process that answers it."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    end_quietly()
    assert sys.excepthook is sys.__excepthook__, "only in that process"
    name = "pyspark.sql.streaming.python_streaming_source_runner"
    spec = SimpleNamespace(__spec__=SimpleNamespace(name=name))
    monkeypatch.setitem(sys.modules, "__main__", spec)
    end_quietly()
    sys.excepthook(BrokenPipeError, BrokenPipeError(32, "Broken pipe"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("mine"), None)
    assert "mine" in capsys.readouterr().err


@told_briefly
def refuse() -> int:
    raise ConfigError("option x", "is unknown")


@rows_told_briefly
def refuse_later() -> Iterator[int]:
    yield 1
    raise ConfigError("option x", "is unknown")


@pytest.mark.parametrize(("main", "hides"), [("pyspark.daemon", "1"), ("pytest", None)])
def test_only_a_process_of_spark_hides_tracebacks(
    main: str, hides: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a program would hand it on to the workers that it starts, for all that they raise."""
    module = SimpleNamespace(__spec__=SimpleNamespace(name=main))
    for call in (refuse, lambda: list(refuse_later())):
        monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "__main__", module)
            with pytest.raises(ConfigError) as caught:
                call()
        assert os.environ.pop("SPARK_HIDE_TRACEBACK", None) == hides
        assert caught.value.__cause__ is None

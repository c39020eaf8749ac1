"""Runs with queries that are told what to do: restarts, ends, state for other processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from tests.unit.spark.pipelines import fleet

from elea.cli.main import main
from elea.errors import EleaError, StoreError
from elea.spark import pipelines as dp
from elea.spark.pipelines import state
from elea.spark.pipelines.definition import Pipeline
from elea.spark.pipelines.queries import Handle, Job, progress_of
from elea.spark.pipelines.runner import Run
from elea.spark.pipelines.state import Board, Lease, now_status
from elea.spark.pipelines.supervision import Supervision, is_final, told
from elea.spark.pipelines.upkeep import Upkeep


class Fake:
    """A query that does as it is told."""

    def __init__(self, error: str | None, *, ends: bool) -> None:
        self._error = error
        self._active = not ends
        self.stopped = False

    def is_active(self) -> bool:
        return self._active

    def error(self) -> str | None:
        return self._error

    def progress(self) -> Mapping[str, Any]:
        return {"batch": 3}

    def stop(self) -> None:
        self.stopped, self._active = True, False


@dataclass
class Starts:
    """Starts queries, one after the other; the last one again and again."""

    fakes: list[Callable[[], Handle]]
    count: int = 0
    made: list[Any] = field(default_factory=list)

    def __call__(self) -> Handle:
        make = self.fakes[min(self.count, len(self.fakes) - 1)]
        self.count += 1
        self.made.append(make())
        handle: Handle = self.made[-1]
        return handle


def eventually(condition: Callable[[], bool], limit_s: float = 30.0) -> bool:
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        threading.Event().wait(0.02)
    return True


def made(
    pipeline: Pipeline, starts: Starts, *, once: bool = False, attempts_max: int = 3
) -> tuple[Run, Board]:
    board = Board(now_status(pipeline.name))
    upkeep = Upkeep(pipeline, None, board)  # type: ignore[arg-type]  # there is nothing to do
    jobs = [Job("landing", ("bronze", "imu"), starts, is_vital=True)]
    lease = Lease(pipeline.own)
    run = Run(pipeline, lease, board, jobs, upkeep, once=once, attempts_max=attempts_max)
    run.start()
    return run, board


def fails() -> Handle:
    return Fake("the disk is full", ends=True)


def raises() -> Handle:
    raise StoreError("cannot be opened")


def lasts() -> Handle:
    return Fake(None, ends=False)


def ends() -> Handle:
    return Fake(None, ends=True)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elea.spark.pipelines.supervision._FIRST_S", 0.01)


def test_what_fails_is_begun_again(tmp_path: Path) -> None:
    pipeline = fleet.pipeline(tmp_path)
    starts = Starts([fails, raises, lasts])
    run, board = made(pipeline, starts)
    assert eventually(lambda: starts.count == 3 and board.status().tables["imu"].batch == 3)
    found = run.status().tables["imu"]
    assert (found.restarts, found.batch) == (2, 3)
    assert "cannot be opened" in (found.error or "")
    assert "the disk is full" in run.status().events[0]
    assert run.stop(30)
    assert starts.made[-1].stopped
    assert (run.failed, run.status().state) == ([], "stopped")
    run.check()


@pytest.mark.parametrize("last_round", [True, False])
def test_a_last_round_is_made_unless_it_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_round: bool
) -> None:
    rounds: list[Upkeep] = []

    def round(self: Upkeep) -> bool:
        rounds.append(self)
        return True

    monkeypatch.setattr(Upkeep, "is_needed", True)
    monkeypatch.setattr(Upkeep, "start", lambda self: None)
    monkeypatch.setattr(Upkeep, "round", round)
    run, _ = made(fleet.pipeline(tmp_path), Starts([lasts]))
    assert run.stop(30, last_round=last_round)
    assert len(rounds) == last_round


def test_what_fails_too_often_is_given_up(tmp_path: Path) -> None:
    run, _ = made(fleet.pipeline(tmp_path), starts := Starts([fails]))
    assert run.wait(30)
    assert starts.count == 3
    assert (run.failed, run.status().state) == (["landing"], "failed")
    assert run.status().tables["bronze"].state == "failed"
    with pytest.raises(EleaError, match="given up: landing: the disk is full"):
        run.check()


def test_once_is_over_when_all_queries_are(tmp_path: Path) -> None:
    run, _ = made(fleet.pipeline(tmp_path), Starts([fails, ends]), once=True)
    assert run.wait(30)
    assert run.status().tables["imu"].state == "done"


def test_one_runner_at_a_time(tmp_path: Path) -> None:
    pipeline = fleet.pipeline(tmp_path)
    run, _ = made(pipeline, Starts([lasts]))
    with run, pytest.raises(StoreError, match="runs already"):
        Lease(pipeline.own)
    Lease(pipeline.own).release()


def test_status_and_stop_from_another_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = fleet.pipeline(tmp_path)
    file = str(tmp_path / "pipeline.yaml")
    assert main(["pipeline", "status", file]) == 1
    assert "it never ran" in capsys.readouterr().err
    assert main(["pipeline", "stop", file]) == 1
    assert "does not run" in capsys.readouterr().err
    run, _ = made(pipeline, Starts([lasts]))
    assert eventually(lambda: (pipeline.own / "state.json").exists())
    assert eventually(lambda: _is_told(pipeline, "imu", batch=3))
    assert main(["pipeline", "status", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["tables"]["imu"]["batch"]) == ("running", 3)
    assert main(["pipeline", "stop", file]) == 0
    assert run.wait(30)
    capsys.readouterr()
    assert main(["pipeline", "status", file]) == 1
    shown = capsys.readouterr().out
    assert "fleet: stopped" in shown
    assert "imu" in shown


def _is_told(pipeline: Pipeline, table: str, **more: int) -> bool:
    found = state.read(pipeline.own)
    row = None if found is None else found.tables.get(table)
    return row is not None and all(getattr(row, name) == value for name, value in more.items())


def _runs(folder: Path) -> None:
    made(fleet.pipeline(folder), Starts([lasts]))
    threading.Event().wait(60)


def test_a_runner_that_was_killed_is_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = fleet.pipeline(tmp_path)
    process = multiprocessing.get_context("fork").Process(target=_runs, args=(tmp_path,))
    process.start()
    try:
        assert eventually(
            lambda: (found := state.read(pipeline.own)) is not None and found.is_alive
        )
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert main(["pipeline", "status", str(tmp_path / "pipeline.yaml")]) == 1
    assert "goes on where it ended" in capsys.readouterr().out
    (pipeline.own / "state.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        state.read(pipeline.own)


def test_failures_in_a_row_wait_longer_and_longer() -> None:
    one = Supervision(attempts_max=3)
    assert one.may_begin(0.0)
    one.begins(0.0)
    one.fails("x", 1.0)
    assert not one.may_begin(1.005)
    assert one.may_begin(1.02)
    one.begins(1.02)
    assert one.restarts_count == 1
    one.fails(ValueError("y"), 400.0)  # it worked for long: that is no row
    assert (one.failures_count, one.error) == (1, "ValueError: y")
    one.works()
    for _ in range(3):
        one.fails("z", 401.0)
    assert one.is_given_up
    assert not one.may_begin(1e9)


def test_an_error_is_told_in_a_line() -> None:
    text = "Query ended\n  ConflictError: rows\n\nJVM stacktrace:\n\tat org.x.Y\n"
    assert told(text) == "Query ended ConflictError: rows"
    text = (
        "X: failed: Traceback (most recent call last):\n  File 1\n    x()\nelea.errors.AError: y\n"
    )
    assert told(text) == "elea.errors.AError: y"
    text = "[STREAM_FAILED] Query ended: elea.errors.ConfigError: option x: y\n SQLSTATE: 38000\n"
    assert told(text) == "elea.errors.ConfigError: option x: y"
    assert is_final(told(text))


def test_an_error_of_code_is_told_with_its_place_and_is_final() -> None:
    text = (
        "[PYTHON_EXCEPTION] Traceback (most recent call last):\n"
        '  File "/x/site-packages/pyspark/worker.py", line 9, in main\n'
        '  File "/home/me/fast.py", line 12, in boom\n    1 / 0\n'
        "ZeroDivisionError: division by zero\n"
    )
    assert told(text) == "ZeroDivisionError: division by zero (/home/me/fast.py:12)"
    with pytest.raises(KeyError) as caught:
        raise KeyError("x")
    assert told(caught.value).startswith(f"KeyError: 'x' ({__file__}:")
    for final in ("ZeroDivisionError: x", "pyspark.errors.AnalysisException: y", "ConfigError: z"):
        assert is_final(final)
    for other in ("elea.errors.LinkError: x", "OSError: full", "ends with ValueError: y"):
        assert not is_final(other)
    assert told("┌──┐\n│ a │\n└──┘") == "a"


def test_a_hopeless_query_ends_once_at_once(tmp_path: Path) -> None:
    def breaks() -> Handle:
        raise ZeroDivisionError("division by zero")

    pipeline = fleet.pipeline(tmp_path)
    run, _ = made(pipeline, Starts([breaks] * 20), once=True)
    assert run.wait(30)
    assert run.status().tables["imu"].restarts == 0
    assert run.errors["landing"].startswith("ZeroDivisionError: division by zero")
    with pytest.raises(EleaError, match="ZeroDivisionError"):
        run.check()


def test_code_that_called_sys_exit_ended_a_run_without_a_word(tmp_path: Path) -> None:
    """And with status 0: a thread that raises SystemExit just ends."""

    def leaves() -> Handle:
        sys.exit(3)

    pipeline = fleet.pipeline(tmp_path)
    run, _ = made(pipeline, Starts([leaves] * 20), once=True)
    assert run.wait(30)
    assert run.errors["landing"].startswith("SystemExit: 3 (")
    assert run.status().state == "failed"
    (tmp_path / "fast.py").write_text("raise SystemExit(0)\n")
    [problem] = dp.check(fleet.written(tmp_path, head=f"{fleet.HEAD}python: fast.py\n"))
    assert problem.reason == f"{tmp_path / 'fast.py'}: SystemExit: 0 ({tmp_path / 'fast.py'}:1)"


def test_an_error_of_any_kind_at_the_same_place_twice_is_not_tried_ten_times(
    tmp_path: Path,
) -> None:
    """Of code of a user; what others raise, as a router that is not there yet, may be over."""
    place = tmp_path / "elea" / "fast.py"  # a folder of a user that is called as this package is
    place.parent.mkdir()
    place.write_text("class Boom(Exception): ...\ndef f():\n    raise Boom('mine')\n")
    functions = runpy.run_path(str(place))
    pipeline = fleet.pipeline(tmp_path)
    run, _ = made(pipeline, Starts([functions["f"]] * 20), once=True)
    assert run.wait(30)
    assert run.status().tables["imu"].restarts == 1
    assert run.errors["landing"] == f"Boom: mine ({place}:3)"
    one = Supervision()
    for _ in range(3):
        one.fails("LinkError: nobody is there", 1.0)
    assert not one.is_hopeless


def test_the_plan_of_a_query_is_not_part_of_what_is_told() -> None:
    text = "AnalysisException: [X] no column `a`. SQLSTATE: 42703;\n'Project ['a]\n+- Relation b\n"
    assert told(text) == "AnalysisException: [X] no column `a`. SQLSTATE: 42703"


def test_a_java_process_that_is_killed_while_spark_starts_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What breaks then is a connection to it, of which the caller knows nothing."""
    fleet.pipeline(tmp_path)
    fleet.log_at(tmp_path / "log").close()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def start(*_: object, **__: object) -> None:
        process.kill()
        raise ConnectionRefusedError(111, "Connection refused")

    def leave(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr("elea.spark.pipelines.runner.session_for", start)
    monkeypatch.setattr(os, "_exit", leave)
    with process:
        assert main(["pipeline", "run", str(tmp_path / "pipeline.yaml"), "--once"]) == 1
    assert "Java process" in (told := capsys.readouterr().err)
    assert "was killed by signal 9" in told
    assert len(told.splitlines()) == 1


def test_once_without_a_log_fails_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten attempts of Spark took five minutes."""
    fleet.pipeline(tmp_path)
    assert main(["pipeline", "run", str(tmp_path / "pipeline.yaml"), "--once"]) == 1
    assert "there is no log; a recorder makes it: elea record" in capsys.readouterr().err


def test_what_is_counted_of_tables_is_a_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Late rows, wrong clocks, bounds and failures; it was in the status alone."""
    pipeline = fleet.pipeline(tmp_path)
    run, board = made(pipeline, Starts([lasts]))
    board.table("w", "gold", late=7, ahead=2, forgotten=1, state="failing", restarts=3)
    assert eventually(lambda: _is_told(pipeline, "w", restarts=3))
    assert main(["pipeline", "status", str(tmp_path / "pipeline.yaml"), "--metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    run.stop()
    about = 'pipeline="fleet",table="w",kind="gold"'
    for name, value in (
        ("late_rows_total", 7),
        ("ahead_rows_total", 2),
        ("forgotten_total", 1),
        ("restarts_total", 3),
        ("failing", 1),
    ):
        assert f"elea_pipeline_table_{name}{{{about}}} {value}" in lines
    assert 'elea_pipeline_up{pipeline="fleet"} 1' in lines
    assert lines[-1] == "# EOF"


def test_progress_of_spark_in_few_words() -> None:
    told = {"batchId": 4, "durationMs": {"triggerExecution": 1500}}
    assert progress_of(told) == {"batch": 4, "batch_s": 1.5}
    assert progress_of({"batchId": 4}) == {"batch": 4}


@pytest.mark.parametrize(
    ("verb", "options", "complaint"),
    [
        ("run", ["--duration", "0"], "--duration: saw 0.0; legal are seconds above 0"),
        ("run", ["--conf", "x"], "--conf: saw 'x'; legal is NAME=VALUE"),
        ("run", ["--table", "x"], 'saw "x"; legal are bronze, imu, imu_bad'),
        ("stop", ["--timeout", "0"], "--timeout: saw 0.0; legal are seconds above 0"),
    ],
)
def test_options_that_are_not_legal(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    options: list[str],
    complaint: str,
) -> None:
    fleet.pipeline(tmp_path)
    assert main(["pipeline", verb, str(tmp_path / "pipeline.yaml"), *options]) == 1
    assert complaint in capsys.readouterr().err

"""All parts but Spark: a router, a recorder, robots with their faults, tables, and the proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from elea.cli import demo as cli
from elea.cli import up
from elea.cli.demo import _interruptible, _Screen, summary_json, summary_lines
from elea.cli.main import main
from elea.cli.output import Painter
from elea.daemon.effective import Options
from elea.demo import dds_robot, files, queries
from elea.demo.dds_robot import reserved_domain
from elea.demo.plan import Plan
from elea.demo.proof import Check
from elea.demo.run import Run, Summary, Tick
from elea.demo.stack import Recorded, Stack
from elea.errors import EleaError

PLAN = Plan(robots=6, duration_s=2.0, dds=True)


def local_archive(file: Path) -> list[str]:
    """Bronze only, without Java."""
    log, table = file.parent / "log" / "fleet", file.parent / "lake" / "bronze"
    archive = [sys.executable, "-m", "elea.cli.main", "spark", "archive", str(log), str(table)]
    return [*archive, "--engine", "local", "--every", "0.5"]


def made(directory: Path, command: object = local_archive) -> tuple[Run, list[str], list[Tick]]:
    steps: list[str] = []
    ticks: list[Tick] = []
    run = Run(
        PLAN,
        directory,
        on_step=steps.append,
        on_tick=ticks.append,
        on_result=lambda sample: None,
        command=command,  # type: ignore[arg-type]
    )
    return run, steps, ticks


def test_every_sample_is_found_once(tmp_path: Path) -> None:
    run, steps, ticks = made(tmp_path / "demo")
    summary = run.run()
    checks = {check.name: check.seen for check in summary.checks}
    assert summary.holds, summary.checks
    assert checks["samples sent"] == PLAN.count()
    assert checks["acknowledged as stored"] == PLAN.count(acknowledged_only=True)
    assert checks["lost on a bad radio"] == PLAN.lost_count() > 0
    assert (checks["missing"], checks["duplicates"]) == (0, 0)
    assert checks["of tiny devices, by XRCE"] == PLAN.tiny_count() == 16
    assert checks["of the DDS robot, bridged"] == PLAN.dds_count() == 20
    assert checks["of the ROS 2 node"] == PLAN.ros_count() == 20
    assert ticks[-1].sent == PLAN.count()
    assert any("robots" in step for step in steps)
    page = (tmp_path / "demo" / queries.PLOT).read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    # It can be asked by others, as the summary says.
    asked = subprocess.run(
        [sys.executable, str(tmp_path / "demo" / queries.DUCKDB)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fleet/r01/imu" in asked.stdout


def test_one_that_is_interrupted_is_counted_so_far(tmp_path: Path) -> None:
    run, _, _ = made(tmp_path / "demo")
    run._plan = Plan(robots=6, duration_s=600.0)  # it would last too long
    told = threading.Event()

    def tick(tick: Tick) -> None:
        if tick.sent and not told.is_set():
            told.set()
            run.interrupt()

    run._tick = tick
    summary = run.run()
    assert summary.interrupted
    assert summary.holds, summary.checks
    assert 0 < summary.checks[0].seen < 1_000_000


def test_a_run_without_dds_says_so_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dds_robot, "PACKAGE", "cyclonedds_that_is_not_installed")
    run, steps, _ = made(tmp_path / "demo")
    run._plan = replace(PLAN, duration_s=1.0)
    summary = run.run()
    assert summary.holds, summary.checks
    checks = {check.name: check.seen for check in summary.checks}
    assert (checks["of the DDS robot, bridged"], checks["of the ROS 2 node"]) == (0, 10)
    assert "no DDS robot: pip install 'elea[dds]' adds one" in steps


def test_runs_on_one_host_have_domains_of_their_own() -> None:
    with reserved_domain() as first, reserved_domain() as second:
        assert first is not None
        assert second is not None
        assert first != second
        with ExitStack() as others:
            every = [others.enter_context(reserved_domain()) for _ in dds_robot.DOMAINS]
            assert every[-1] is None  # all are taken


def test_a_pipeline_that_cannot_run_is_told(tmp_path: Path) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('no Java today')"]
    run, _, _ = made(tmp_path / "demo", lambda file: broken)
    run._restarts_max = 0
    with pytest.raises(EleaError, match="no Java today"):
        run.run()


def test_a_router_without_devices_says_so() -> None:
    stack = Stack(Options(listen=("tcp/127.0.0.1:0",)))
    stack.start_router()
    try:
        with pytest.raises(EleaError, match="set plugins/xrce/listen"):
            stack.gateway()
    finally:
        stack.stop()


def summary_of(directory: Path, seen: int) -> Summary:
    checks = [Check("missing", seen, 0, "fleet/r01/imu 7")]
    gold = {"hot": [{"robot": "r05", "state": "raised"}]}
    return Summary(directory, "tcp/127.0.0.1:1", False, checks, {"bronze": 3}, gold, 5)


def test_what_is_off_is_said(tmp_path: Path) -> None:
    plain = Painter(enabled=False)
    good = "\n".join(summary_lines(summary_of(tmp_path, 0), plain))
    assert "exactly once" in good
    assert "robot=r05 state=raised" in good
    bad = summary_of(tmp_path, 2)
    text = "\n".join(summary_lines(bad, plain))
    assert "OFF" in text
    assert "should be 0" in text
    assert "a count is off" in text
    assert json.loads(json.dumps(summary_json(bad)))["holds"] is False
    assert not Summary(tmp_path).holds  # nothing was shown


def test_ctrl_c_ends_the_fleet_and_then_everything(tmp_path: Path) -> None:
    run, _, _ = made(tmp_path / "demo")
    screen = _Screen(as_json=True, paint=Painter(enabled=False))
    before = signal.getsignal(signal.SIGINT)
    with _interruptible(run, screen):
        signal.raise_signal(signal.SIGTERM)
        assert run._interrupted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert "elea[demo]" in capsys.readouterr().err


def test_a_directory_that_is_there_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--to", str(tmp_path)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["demo", "--to", str(tmp_path / "new"), "--robots", "3"]) == 2
    assert "legal are 6 to 99" in capsys.readouterr().err


def test_up_goes_on_without_its_pipeline_and_ends_in_order(tmp_path: Path) -> None:
    router = files.text(files.ROUTER).replace(":7447", ":0")
    (tmp_path / files.ROUTER).write_text(router, encoding="utf-8")
    (tmp_path / files.PIPELINE).write_text("pipeline: of nothing\n", encoding="utf-8")
    command = [sys.executable, "-m", "elea.cli.main", "up", str(tmp_path / files.ROUTER)]
    with subprocess.Popen(
        [*command, "--every", "1", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["ready"].startswith("tcp/127.0.0.1:")
        for line in process.stdout:
            status = json.loads(line)
            if "page" not in status and status["pipeline"]["restarts"] >= 1:
                break
        assert status["recorded"]["problem"] is None
        os.kill(process.pid, signal.SIGTERM)
        rest = process.stdout.read()
        assert '{"stopping": true}' in rest
        assert process.wait(60) == 0
    assert (tmp_path / "log").is_dir()
    assert (tmp_path / "pipeline.log").read_text(encoding="utf-8")


def test_up_ran_for_ever_when_its_output_was_closed(tmp_path: Path) -> None:
    router = files.text(files.ROUTER).replace(":7447", ":0")
    (tmp_path / files.ROUTER).write_text(router, encoding="utf-8")
    command = [sys.executable, "-m", "elea.cli.main", "up", str(tmp_path / files.ROUTER)]
    with subprocess.Popen(
        [*command, "--every", "1", "--no-ui"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready: ")
        process.stdout.close()
        try:
            assert process.wait(60) != 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (Recorded(), "records nothing: CONFIG has no recordings in plugins/recorder"),
        (Recorded(logs=1), "recorded 0 rows, 0 acknowledged, 0 missing"),
        (Recorded(problem="fails"), "recorded 0 rows, 0 acknowledged, 0 missing"),
    ],
)
def test_up_counted_rows_of_no_recording(recorded: Recorded, words: str) -> None:
    """`recorded 0 rows` every ten seconds looked as if it would record what comes."""
    stack = SimpleNamespace(recorded=lambda: recorded, pipeline=None)
    value, line = up._status(cast(Any, stack), None, None)
    assert line.startswith(words)
    assert value["recorded"]["logs"] == recorded.logs  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    "wrong",
    [
        ["none.json5"],
        ["-c", "none.json5"],  # as of every verb; it was not known
        ["router.json5", "--pipeline", "none.yaml"],
        ["--config", "router.json5", "--pipeline", "none.yaml"],
    ],
)
def test_up_names_the_file_that_is_missing(
    tmp_path: Path,
    wrong: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    files.lay_out(tmp_path)
    assert main(["up", *wrong]) == 1
    assert f"{wrong[-1]}: is no file" in capsys.readouterr().err

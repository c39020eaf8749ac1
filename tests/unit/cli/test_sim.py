"""`elea sim`: what it prints, how a failure is replayed, and its exit codes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from elea.cli import sim
from elea.cli.main import main
from elea.sim.campaign import run as campaign
from elea.sim.campaign.plan import Options
from elea.sim.campaign.run import Result
from elea.sim.trace import Trace

SHORT = ("--seconds", "1")


def test_one_seed_prints_its_plan_and_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "0", *SHORT]) == 0
    first = capsys.readouterr().out
    assert main(["sim", "--seed", "0", *SHORT]) == 0
    assert capsys.readouterr().out == first
    assert first.count("\n") == 1
    assert f"trace {campaign.run(0, Options(seconds=1)).digest}" in first


def test_many_seeds_print_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "3:6", "--nodes", "2", "--faults", "none", *SHORT]) == 0
    assert capsys.readouterr().out.startswith("3 seeds, 0 failed, ")


def test_json_gives_one_object_per_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "3:5", "--json", *SHORT]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["seed"], one["ok"], one["violations"]) for one in records] == [
        (3, True, []),
        (4, True, []),
    ]
    assert records[0]["replay"] == "elea sim --seed 3 --seconds 1"


def test_the_trace_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.txt"
    assert main(["sim", "--seed", "2", "--trace", str(path), *SHORT]) == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    assert f" {len(lines)} events, " in capsys.readouterr().out
    assert any("Attached(session=1, node='n0')" in line for line in lines)


def test_a_failing_seed_is_printed_as_the_line_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = campaign.run

    def broken(seed: int, options: Options | None = None, *, trace: Trace | None = None) -> Result:
        result = sound(seed, options, trace=trace)
        if seed == 4:
            result.violations.append("order_is_kept: a\x1b[31m came after b")
        return result

    monkeypatch.setattr(campaign, "run", broken)
    arguments = ["--nodes", "3", "--faults", "rough", *SHORT]
    assert main(["sim", "--seeds", "3:6", *arguments]) == 1
    replay, violation, summary = capsys.readouterr().out.splitlines()
    assert replay == "elea sim --seed 4 --nodes 3 --seconds 1 --faults rough"
    assert violation == "    order_is_kept: a\\x1b[31m came after b"
    assert summary.startswith("3 seeds, 1 failed, ")
    assert main(shlex.split(replay)[1:]) == 1


def test_the_defaults_are_not_repeated_in_the_replay_line() -> None:
    assert sim.replay_line(8127, Options()) == "elea sim --seed 8127"
    assert sim.replay_line(8127, Options(nodes_count=4)) == "elea sim --seed 8127 --nodes 4"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "5"],
        ["--seeds", "5:5"],
        ["--seeds", "a:b"],
        ["--nodes", "1"],
        ["--nodes", "x"],
        ["--seconds", "0"],
        ["--seconds", "x"],
        ["--faults", "some"],
        ["--seed", "1", "--seeds", "1:2"],
        ["--seeds", "1:3", "--trace", "file"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", *arguments]) == 2
    assert "elea sim: error: " in capsys.readouterr().err


def test_progress_and_what_never_happened_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "_PROGRESS_S", 0.0)
    monkeypatch.setattr(sim, "_SEEDS_ENOUGH", 1)
    monkeypatch.setattr("elea.sim.campaign.run.SOMETIMES", ("the moon fell",))
    assert main(["sim", "--seeds", "1:3", *SHORT]) == 0
    printed = capsys.readouterr()
    assert "elea sim: 1 of 2 seeds, 0 failed" in printed.err
    assert printed.out.splitlines()[-1] == "never happened: the moon fell"

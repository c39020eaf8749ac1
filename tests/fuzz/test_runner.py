"""The fuzz runner itself: it finds what it is there to find, and forgives noise."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz.run import Checker, Finding, Target, mutations, run_mutations
from tests.meta.tree import ROOT

from fuzz import run

PLANTED = """
SEEDS = [b"abc"]

def one_input(data: bytes) -> None:
    if len(data) > 3:
        raise KeyError(data[3])
"""


@pytest.fixture(autouse=True)
def _no_tracing_afterwards() -> Iterator[None]:
    yield
    tracemalloc.stop()


def quiet(data: bytes) -> None:
    """Accept anything."""


def ticks(*durations: float) -> Iterator[float]:
    """A clock for `Checker`: each measurement reads it twice and takes the next duration."""
    now = 0.0
    for duration in durations:
        yield now
        now += duration
        yield now


def test_an_escaped_exception_is_a_finding() -> None:
    def fail(data: bytes) -> None:
        raise KeyError("lost")

    with pytest.raises(Finding, match="KeyError escaped") as caught:
        Checker(Target("t", fail, []), "mutation").check(b"xy")
    assert caught.value.data == b"xy"


def test_slow_once_is_noise_slow_always_is_a_finding() -> None:
    target = Target("t", quiet, [])
    noisy = ticks(0.3, 0.2, 0.01, 0.2)
    checker = Checker(target, "mutation", memory=False, clock=noisy.__next__)
    checker.check(b"")
    assert checker.slowest_s == pytest.approx(0.01)

    slow = ticks(0.3, 0.2, 0.15, 0.2)
    with pytest.raises(Finding, match="took 150 ms"):
        Checker(target, "mutation", memory=False, clock=slow.__next__).check(b"")


def test_memory_is_bounded_by_the_input_plus_an_allowance() -> None:
    def greedy(data: bytes) -> None:
        bytearray(16 * len(data))

    small, large = bytes(100), bytes(100_000)
    checker = Checker(Target("t", greedy, [], memory_allowance=4096), "mutation")
    checker.check(small)  # 1600 bytes: inside the allowance
    assert 0 < checker.memory_ratio < 1
    with pytest.raises(Finding, match="peak memory"):
        checker.check(large)


def test_a_cache_filled_once_is_not_the_fault_of_the_input() -> None:
    cache: list[bytes] = []

    def caching(data: bytes) -> None:
        if not cache:
            cache.append(bytes(100_000))

    Checker(Target("t", caching, []), "mutation").check(b"")


def test_an_input_that_never_ends_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(run, "HANG_SECONDS", 0.05)
    with pytest.raises(Finding, match="did not end"):
        run_mutations(Checker(Target("t", forever, [b"s"]), "mutation"), 1, None, seed=1)


def test_mutations_start_with_the_seeds_and_stay_short() -> None:
    target = Target("t", quiet, [b"one", b"two", bytes(5000)])
    inputs = list(mutations(target, 500, seed=3))
    assert inputs[:3] == target.seeds
    assert len(inputs) == 500
    assert len(set(inputs)) > 300
    assert max(map(len, inputs)) <= 5000
    assert list(mutations(target, 2, seed=3)) == target.seeds[:2]


@pytest.mark.parametrize("engine", ["auto", "mutation"])
def test_a_finding_is_kept_and_can_be_replayed(engine: str, tmp_path: Path) -> None:
    target = tmp_path / "fuzz_planted.py"
    target.write_text(PLANTED, encoding="ascii")
    runner = tmp_path / "run.py"  # beside its own findings folder
    runner.write_bytes((ROOT / "fuzz" / "run.py").read_bytes())

    found = _run(runner, "planted", "--engine", engine, "--runs", "2000")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "KeyError escaped" in found.stdout
    [kept] = (tmp_path / "findings").iterdir()

    again = _run(runner, "planted", "--replay", str(kept))
    assert again.returncode == 1
    assert "KeyError escaped" in again.stdout

    target.write_text(PLANTED.replace("> 3", "> 9999"), encoding="ascii")
    mended = _run(runner, "planted", "--replay", str(kept))
    assert mended.returncode == 0
    assert json.loads(mended.stdout)["runs"] == 1


def _run(runner: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(runner), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)

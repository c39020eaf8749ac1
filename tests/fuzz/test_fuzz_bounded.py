"""Every fuzz target for a short, repeatable run; the long ones are `make fuzz`."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from fuzz.run import Checker, Finding, load_target, mutations, report, run_mutations, target_names
from tests.meta.tree import ROOT
from tests.scale import scaled


@pytest.mark.parametrize("name", target_names())
def test_mutated_seeds_keep_the_bounds(name: str) -> None:
    target = load_target(name)
    assert target.seeds, "a target without seeds only meets its first branch"
    checker = Checker(target, "mutation")
    runs = max(scaled(target.short_runs // 2, target.short_runs * 4), len(target.seeds))
    try:
        run_mutations(checker, runs, seconds=None, seed=1)
    except Finding as finding:
        report(target, finding)  # keeps the input and prints how to see it again
        pytest.fail(finding.reason)
    assert checker.runs == runs


@pytest.mark.parametrize("name", target_names())
def test_a_run_is_repeatable(name: str) -> None:
    target = load_target(name)
    assert list(mutations(target, 200, seed=7)) == list(mutations(target, 200, seed=7))


@pytest.mark.parametrize("name", [name for name in target_names() if name == "batch"])
def test_the_real_fuzzer_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "fuzz/run.py", name, "--runs", "3000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["runs"] == 3000
    has_atheris = importlib.util.find_spec("atheris") is not None
    assert summary["engine"] == ("atheris" if has_atheris else "mutation")

"""bench/router.py runs, and what it prints can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "router.py"
SMALL = ("--scale", "0.02", "--rounds", "1", "--sessions", "4", "--silent", "5")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *SMALL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("figure", "none"),
    [
        ("one_to_one", "lost"),
        ("fan_out", "lost"),
        ("sessions", "missing"),
        ("silent", "failed"),
        ("frozen", "lost"),
    ],
)
def test_a_figure_of_both_routers_is_printed(figure: str, none: str) -> None:
    done = run("--only", figure)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    row = json.loads(line)
    assert row["figure"] == figure
    assert row["elea"][none] == row["zenoh"][none] == 0
    assert set(row["elea"]) == set(row["zenoh"])


def test_a_figure_that_is_none_is_refused() -> None:
    done = run("--only", "speed")
    assert done.returncode == 2
    assert "no figure speed; there are one_to_one" in done.stderr

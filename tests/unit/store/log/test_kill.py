"""Writers that are killed: at any time, with the power, and at every named point."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos import run
from chaos.kill import Victim

from elea import crash


@pytest.mark.parametrize("power", [False, True])
def test_what_was_acknowledged_survives(power: bool, tmp_path: Path) -> None:
    victim = Victim(tmp_path / "log", seed=3)
    for _ in range(4):
        victim.die(power=power)
    assert victim.problems == []
    assert victim.next_number > 0


def test_every_crash_point_is_survived(tmp_path: Path) -> None:
    result = run.points(1, 5, tmp_path)
    assert result["problems"] == 0, result["first_problems"]
    assert result["deaths"] == len(crash.POINTS) + 2  # two need somebody to die before


def test_flips_and_cuts_are_found(tmp_path: Path) -> None:
    result = run.flips(50, 1, tmp_path)
    assert result["problems"] == 0, result["first_problems"]

"""`elea record` that is killed while puts are acknowledged."""

from __future__ import annotations

from pathlib import Path

from chaos.recorder import RecorderVictim


def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    victim = RecorderVictim(tmp_path / "log", seed=5)
    for _ in range(3):
        victim.die()
    assert victim.problems == []
    assert victim.placed
    assert any(isinstance(one, bytes) for one in victim.placed)

"""What Spark needs while it runs is in one directory, which goes with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from elea.spark.scratch import sweep

USES_IT = "from elea.spark.scratch import scratch; p = scratch(); (p / 'left').mkdir()"


def started(root: Path, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"{USES_IT}; print(scratch(), flush=True); {then}"]
    return subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_goes_with_the_process(tmp_path: Path) -> None:
    with started(tmp_path, "assert p.is_dir() and scratch() == p") as process:
        said, _ = process.communicate()
        assert process.returncode == 0
    assert Path(said.strip()).parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_that_of_one_that_was_killed_goes_with_the_next(tmp_path: Path) -> None:
    with started(tmp_path, "input()") as killed, started(tmp_path, "input()") as lives:
        assert killed.stdout is not None
        assert lives.stdout is not None
        left, kept = Path(killed.stdout.readline().strip()), Path(lives.stdout.readline().strip())
        sweep(tmp_path)
        assert (left / "left").is_dir()  # both live
        killed.kill()
        killed.wait()
        assert (left / "left").is_dir()
        with started(tmp_path, "") as following:
            following.communicate()
        assert not left.exists()
        assert (kept / "left").is_dir()
        lives.communicate("\n")
    assert not list(tmp_path.iterdir())


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elea-spark-run-new").mkdir()  # its lock is not there yet
    (tmp_path / "spark-run" / "lock").mkdir(parents=True)
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2

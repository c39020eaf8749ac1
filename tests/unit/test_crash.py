"""Crash points: nothing unless the environment says so, and then the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from elea import crash


def test_nothing_happens_by_itself() -> None:
    for name in crash.POINTS:
        crash.point(name)


def test_the_process_is_killed_at_the_nth_time() -> None:
    program = (
        "from elea import crash\n"
        "for n in range(5):\n"
        "    print(n, flush=True)\n"
        "    crash.point('log.after_write')\n"
        "    crash.point('log.after_sync')\n"
    )
    environment = {**os.environ, crash.ENVIRONMENT: "log.after_sync:3"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()) == (-9, ["0", "1", "2"])


def test_rare_events_are_counted() -> None:
    before = crash.seen().get("test.rare", 0)
    crash.sometimes("test.rare")
    assert crash.seen()["test.rare"] == before + 1


def test_the_table_of_points_is_what_the_code_has() -> None:
    source = Path(crash.__file__).parent
    found: set[str] = set()
    for file in source.rglob("*.py"):
        if file.name != "crash.py":
            text = file.read_text(encoding="utf-8")
            found |= set(re.findall(r'"(log\.(?:before|after)_\w+)"', text))
    assert found == set(crash.POINTS)

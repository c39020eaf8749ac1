"""Who is killed with -9 leaves nothing running: fleet and pipeline notice, and end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from elea.demo.files import has_sql

# All of the demo, but Spark.
DEMO = """
import sys
from pathlib import Path
from elea.demo.plan import Plan
from elea.demo.run import Run

Run(
    Plan(robots=6, duration_s=600.0),
    Path(sys.argv[1]),
    on_step=lambda text: None,
    on_tick=lambda tick: print(tick.sent, flush=True),
    on_result=lambda sample: None,
    command=lambda file: [sys.executable, "-c", sys.argv[2], str(file)],
).run()
"""
# `elea pipeline run` as the demo starts it, but for Spark.
PIPELINE = """
import sys, threading
from pathlib import Path
from elea.cli.main import main
from elea.demo.stack import pipeline_command
from elea.spark import pipelines
from elea.spark.pipelines import runner, state

place = Path(sys.argv[1]).parent
table = place / "lake" / "bronze" / "_delta_log"

class Made:
    failed = ()
    def __init__(self):
        self.ended = threading.Event()
        table.mkdir(parents=True)
        (table / "0.json").touch()
    def wait(self, timeout_s):
        return self.ended.wait(timeout_s)
    def stop(self, *, last_round):
        assert not last_round  # results would be for nobody
        self.ended.set()
    def status(self):
        return state.now_status("fleet")

class Spark:
    def stop(self):
        (place / "in order").touch()

runner.session_for = lambda *_, **options: Spark()
pipelines.run = lambda *_, **options: Made()
sys.exit(main(pipeline_command(Path(sys.argv[1]))[3:]))
"""


def until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def processes() -> dict[int, int]:
    """All that run, each with who started it; what is dead is none."""
    told = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in told.stdout.splitlines())
    return {int(pid): int(by) for pid, by, state in rows if not state.startswith("Z")}


def below(pid: int) -> set[int]:
    """All that a process started, and what those did, and so on."""
    running, found = processes(), {pid}
    while more := {one for one, by in running.items() if by in found} - found:
        found |= more
    return found - {pid}


def test_nothing_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    command = [sys.executable, "-c", DEMO, str(place), PIPELINE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if int(line):
                break  # robots publish
        children = below(demo.pid)
        # Fleet, its DDS robot, pipeline, and what answers questions in SQL.
        assert len(children) == 3 + has_sql()
        demo.kill()
    until(lambda: not children & processes().keys())
    assert (place / "in order").exists()  # the pipeline was not torn down

"""`elea pipeline run` in a process of its own: without a session, with bad code, without Java."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.unit.spark.pipelines import fleet

from elea.spark.pipelines import state
from elea.store.tables.results import open_results

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pipelines.md"
WAIT_S = 400.0  # at most: the machine may be busy with something else
COMMAND = [sys.executable, "-m", "elea.cli.main", "pipeline", "run"]
BROKEN = """\
from elea.spark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.active()


@udf("int")  # needs a session while the file is loaded
def broken(x):
    return 1 // 0


@dp.table
def flow():
    return spark.readStream.table("imu").select(broken("ax").alias("y"))


@dp.materialized_view
def view():
    return spark.table("imu").select(1 / 0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 100)
    return tmp_path


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, str(folder / "pipeline.yaml"), "--once", "--quiet", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)


def test_the_example_of_the_documentation_runs_where_there_is_no_session(folder: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert "SparkSession.active()" in code
    endpoint = free_endpoint()
    (folder / "fast.py").write_text(code.replace("tcp/127.0.0.1:7447", endpoint))
    made = fleet.pipeline(folder, head=f"{fleet.HEAD}python: fast.py\n")
    got: list[str] = []
    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("fast/**", lambda sample: got.append(str(sample.key_expr)))
        done = run(folder)
        assert done.returncode == 0, done.stderr
        assert eventually(
            lambda: len(got) >= len([n for n in range(100) if not fleet.is_delete(n)])
        )
    found = open_results(made.path("by_robot")).rows()
    assert found is not None
    assert sum(found["count"].to_pylist()) == open_results(made.path("fast")).rows_count() > 0


def test_an_error_of_code_ends_once_at_once_and_names_its_place(folder: Path) -> None:
    (folder / "more.py").write_text(BROKEN)
    fleet.pipeline(folder, head=f"{fleet.HEAD}python: more.py\n")
    done = run(folder)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) < 150, "not a page for each attempt"
    assert any(
        re.search(r"elea: flow flow failed: ZeroDivisionError: .*more\.py:10\)", one)
        for one in lines
    )
    assert any(
        re.search(r"elea: view failed: ZeroDivisionError: .*more\.py:20\)", one) for one in lines
    )


def test_a_run_whose_java_is_killed_says_so_in_a_line(folder: Path) -> None:
    made = fleet.pipeline(folder)
    command = [*COMMAND, str(folder / "pipeline.yaml"), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def has_rows() -> bool:
        found = state.read(made.own)
        return found is not None and "imu" in found.tables and found.tables["imu"].rows > 0

    try:
        assert eventually(lambda: has_rows() or process.poll() is not None, WAIT_S)
        os.kill(java_of(process.pid), signal.SIGKILL)
        _, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    told = [line for line in errors.splitlines() if not line.startswith("WARNING")]
    assert len(told) == 1, errors
    assert re.search(r"Spark's Java process \d+ was killed by signal 9", told[0])


def java_of(parent: int) -> int:
    """The Java process that a process started."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            status = (folder / "stat").read_text()
            name, _, rest = status.partition("(")[2].partition(") ")
        except OSError:  # it has ended
            continue
        if name == "java" and int(rest.split()[1]) == parent:
            return int(folder.name)
    raise AssertionError("no Java")

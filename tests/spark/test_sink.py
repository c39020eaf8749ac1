"""The sink in a real Spark: batches and streams, tasks that are tried again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.ports import free_port
from tests.unit.spark.logs import fill, log_at

import elea
from elea.spark.repeats import Repeats, once


@pytest.fixture
def end() -> Iterator[tuple[str, list[elea.Sample], Repeats]]:
    endpoint = free_endpoint()
    got: list[elea.Sample] = []
    repeats = Repeats()
    with session(ELEA, "router", listen=endpoint) as node:
        node.declare_subscriber("**", once(got.append, repeats))
        yield endpoint, got, repeats


def test_rows_become_samples(
    spark: SparkSession, end: tuple[str, list[elea.Sample], Repeats]
) -> None:
    endpoint, got, _ = end
    frame = spark.range(0, 100, 1, 4).selectExpr(
        "concat('out/', id % 5) AS key", "cast(id AS string) AS payload"
    )
    frame.write.format("zenoh").option("connect", endpoint).mode("append").save()
    assert eventually(lambda: len(got) == 100)
    assert sorted(int(one.payload.to_string()) for one in got) == [*range(100)]
    by_partition: dict[str, list[int]] = {}
    for one in got:
        assert one.source_info is not None
        zid = str(one.source_info.source_id.zid)
        by_partition.setdefault(zid, []).append(int(one.payload.to_string()))
    assert sorted(len(numbers) for numbers in by_partition.values()) == [25] * 4
    for numbers in by_partition.values():  # each in its order
        assert numbers == sorted(numbers)


def test_a_stream_that_is_tried_again_is_seen_once(
    spark: SparkSession,
    end: tuple[str, list[elea.Sample], Repeats],
    tmp_path: Path,
    checkpoint: str,
) -> None:
    endpoint, got, repeats = end
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 120)
        frame = spark.readStream.format("zenoh").option("log", str(tmp_path / "log"))
        writer = frame.load().writeStream.format("zenoh").option("connect", endpoint)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
        assert eventually(lambda: len(got) == 120)
        # As if the driver had died before it wrote down that the batch is done.
        for name in (Path(checkpoint) / "commits").iterdir():
            name.unlink()
        writer.start().awaitTermination()
    assert eventually(lambda: repeats.dropped_count == 120)
    assert len(got) == 120
    keys = {str(one.key_expr) for one in got}
    assert keys == {f"k/{number}" for number in range(8)}
    for key in keys:  # the order of each key is the log's
        numbers = [
            int(one.payload.to_bytes().split(b":")[0]) for one in got if str(one.key_expr) == key
        ]
        assert numbers == sorted(numbers)


def test_what_is_no_sample_is_refused(spark: SparkSession) -> None:
    there = f"tcp/127.0.0.1:{free_port()}"  # where nothing listens
    keys = spark.range(3).selectExpr("'k' AS key")
    for frame, mode, complaint in (
        (keys, "append", "column payload: is missing"),
        (keys.selectExpr("key", "key AS payload"), "overwrite", "mode overwrite: is refused"),
        (keys.selectExpr("key", "key AS payload"), "append", "nothing listens there"),
    ):
        with pytest.raises(AnalysisException, match=complaint) as caught:
            frame.write.format("zenoh").mode(mode).option("connect", there).save()
        assert "\tat " not in str(caught.value), "frames of Java"
        assert 'File "' not in str(caught.value), "frames of Python"


def test_an_error_that_would_come_again_is_told_after_one_attempt(
    spark: SparkSession, end: tuple[str, list[elea.Sample], Repeats], tmp_path: Path
) -> None:
    """Spark tries tasks four times, each with pauses of seconds."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (attempts / uuid.uuid4().hex).touch()
        yield from batches

    rows = spark.range(0, 4, 1, 1).selectExpr("concat('s/', id) AS key", "'x' AS payload")
    router, _, _ = end
    for frame, options, complaint in (
        (rows.selectExpr("nullif(key, 's/2') AS key", "payload"), {}, "row 2 .* has no key"),
        (rows.selectExpr("key || '//' AS key", "payload"), {}, "s/0//"),
        (rows, {"ack": "stored", "timeout": "2"}, "nobody records 's/"),
    ):
        for file in attempts.iterdir():
            file.unlink()
        frame = frame.mapInArrow(counted, frame.schema)
        writer = frame.write.format("zenoh").mode("append").option("connect", router)
        with pytest.raises(PySparkException, match=complaint):
            writer.options(**options).save()
        assert len(list(attempts.iterdir())) == 1

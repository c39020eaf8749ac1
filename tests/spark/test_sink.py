"""The sink in a real Spark: batches and streams, tasks that are tried again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
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

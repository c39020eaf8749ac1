"""Rows of a plan are what Spark takes: a source that yields them, read by a real session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from elea.spark.decode import Plan, Rule
from elea.store.log.schema import POSITION, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

LAYOUT = (
    "{t: f32, n: u64, on: bool, tags: [string], at: {x: i8}, m: map(string, f64),"
    " p: (i16, u8), e: enum {A, B}, raw: bytes, h: i128}"
)
PLAN = Plan((Rule(decoder="json", layout=LAYOUT),))
GOOD = (
    b'{"t": 1.5, "n": 18446744073709551615, "on": true, "tags": ["a"], "at": {"x": -1},'
    b' "m": {"k": 2}, "p": [1, 255], "e": "B", "raw": "AQ==", "h": 5}'
)


class Source(DataSource):
    """One batch of a log, decoded where it is read."""

    @classmethod
    def name(cls) -> str:
        return "decoded"

    def schema(self) -> str:
        return PLAN.sql_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader()


class Reader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        row = {"kind": 0, "encoding": "application/json", "qos": 0, "recv_ts": 0, "key": "a"}
        rows = [{**dict.fromkeys(SCHEMA.names), **row, "payload": load} for load in (GOOD, b"{")]
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        batch = batch.append_column(POSITION[0], pa.array([0, 0], pa.int32()))
        batch = batch.append_column(POSITION[1], pa.array([0, 1], pa.int64()))
        yield PLAN.rows(batch)
        yield PLAN.rows(batch.slice(0, 0))


def test_a_source_yields_decoded_rows(spark: SparkSession) -> None:
    spark.dataSource.register(Source)
    good, bad = spark.read.format("decoded").load().orderBy("seq").collect()
    assert (good.t, good.n, good.on, good.tags) == (1.5, (1 << 64) - 1, True, ["a"])
    assert (good.at.x, good.m, tuple(good.p), good.e) == (-1, {"k": 2.0}, (1, 255), "B")
    assert (bytes(good.raw), good.h, good.payload, good.decode_error) == (b"\1", 5, None, None)
    assert (bad.t, bytes(bad.payload), bad.key) == (None, b"{", "a")
    assert "Expecting" in bad.decode_error

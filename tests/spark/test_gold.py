"""Gold tables in a real Spark: rounds over tables that grow, and the same rows all at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.unit.spark.gold_tables import Source, gold_of, time

from elea.errors import ConfigError
from elea.spark.pipelines.gold import refresh
from elea.spark.pipelines.gold.inputs import frame_of
from elea.store.log.schema import RowKind
from elea.store.tables.compaction import compact
from elea.store.tables.results import open_results
from elea.store.tables.table import open_table

FIELDS = [("robot", pa.string()), ("ax", pa.float64())]


def sample(robot: str, at: float, ax: float | None, **more: object) -> dict[str, object]:
    return {"key": f"fleet/{robot}/imu", "robot": robot, "at": at, "ax": ax, "zid": robot, **more}


def rows_of(path: Path, *columns: str) -> list[tuple[object, ...]]:
    rows = open_results(path).rows(columns)
    assert rows is not None
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=str)


def test_windows_close_when_all_who_are_alive_have_passed(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = gold_of(
        "window",
        tmp_path / "imu_1s",
        [imu.path],
        every="1 second",
        by=["robot"],
        values={"ax": ["avg", "last", "p50"]},
    )
    assert refresh(spark, gold_of("latest", tmp_path / "x", [tmp_path / "none"])).number == 0
    imu.add(sample("a", 0.1, 1), sample("a", 0.2, 3), sample("b", 0.5, 5))
    assert refresh(spark, gold).rows_count == 0  # b has not passed the end
    imu.add(sample("a", 1.5, 7))
    imu.add(sample("b", 2.2, 9), shard=1)
    made = refresh(spark, gold)
    assert made.rows_count == 2  # both have passed 1 s, only b has passed 2 s
    assert rows_of(gold.path, "robot", "window_start", "count", "ax_avg", "ax_last", "ax_p50") == [
        ("a", time(0), 2, 2.0, 3.0, 2.0),
        ("b", time(0), 1, 5.0, 5.0, 5.0),
    ]
    assert refresh(spark, gold).number == made.number  # nothing is new: nothing is done
    list(compact(open_table(imu.path)))  # the same rows in other files
    imu.add(sample("a", 0.9, 100), sample("b", 13, 1))  # the first is late, and a is silent
    made = refresh(spark, gold)
    assert (made.late_count, made.rows_count) == (1, 2)  # up to 3 s, which is `late` ago
    assert refresh(spark, gold, is_final=True).rows_count == 1
    starts = [row[1] for row in rows_of(gold.path, "robot", "window_start")]
    assert starts == [time(0), time(1), time(0), time(2), time(13)]


def test_the_last_value_of_each_group(spark: SparkSession, tmp_path: Path) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = gold_of(
        "latest", tmp_path / "last", [imu.path], by="robot", columns=["ax"], forget="10 s"
    )
    imu.add(sample("a", 1, 1), sample("a", 3, 3), sample("a", 2, 2), sample("b", 1, 9))
    assert refresh(spark, gold).rows_count == 2
    imu.add(sample("b", 4, None, kind=int(RowKind.DELETE)), sample("a", 2.5, 25))
    made = refresh(spark, gold)
    assert made.rows_count == 1  # what is older than what is there does not count
    imu.add(sample("b", 3.5, 35), sample("a", 5, None, kind=int(RowKind.GAP)))
    assert refresh(spark, gold).rows_count == 0  # nor what is older than a deletion
    assert rows_of(gold.path, "robot", "at", "ax", "deleted") == [
        ("a", time(3), 3.0, False),
        ("b", time(4), None, True),
    ]
    imu.add(sample("a", 20, 20))
    assert refresh(spark, gold).removed_count == 1
    assert rows_of(gold.path, "robot", "ax") == [("a", 20.0)]
    frame = frame_of(spark, gold.path)
    assert frame is not None
    assert [row.ax for row in frame.collect()] == [20.0]
    other = gold_of("latest", gold.path, [imu.path], by="key")
    with pytest.raises(ConfigError, match="make it anew"):
        refresh(spark, other)

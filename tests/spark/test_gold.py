"""Gold tables in a real Spark: rounds over tables that grow, and the same rows all at once."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.unit.spark.gold_tables import Source, gold_of, time, us

from elea.errors import ConfigError
from elea.predicate import MappingFields, compile_predicate, parse
from elea.spark.pipelines.gold import (
    AlertRule,
    Event,
    backfill,
    candidates,
    diff,
    event_time,
    refresh,
)
from elea.spark.pipelines.gold.inputs import frame_of
from elea.spark.pipelines.gold.verdicts import verdict
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


def test_presence_lets_windows_close(spark: SparkSession, tmp_path: Path) -> None:
    bronze = Source(tmp_path / "bronze")
    imu = Source(tmp_path / "imu", FIELDS)
    online = gold_of("presence", tmp_path / "online", [bronze.path], key="fleet/{robot}/alive")
    gold = gold_of(
        "downsample",
        tmp_path / "imu_1s",
        [imu.path, online.path],
        every="1 s",
        columns="ax",
        by="robot",
        late="60 s",
    )

    def token(robot: str, at: float, kind: RowKind) -> dict[str, object]:
        return {"key": f"fleet/{robot}/alive", "received": at, "kind": int(kind)}

    bronze.add(token("a", 0, RowKind.TOKEN_PUT), token("b", 0, RowKind.TOKEN_PUT))
    bronze.add({"key": "other", "received": 0, "kind": int(RowKind.TOKEN_PUT)}, {"at": 0})
    assert refresh(spark, online).rows_count == 2
    imu.add(sample("a", 0.5, 1), sample("a", 0.6, 2), sample("b", 0.5, 5), sample("a", 2.5, 3))
    assert refresh(spark, gold).rows_count == 0  # b is alive
    bronze.add(token("b", 2, RowKind.TOKEN_DELETE), token("c", 2.2, RowKind.TOKEN_PUT))
    refresh(spark, online)
    assert rows_of(online.path, "robot", "online_from", "online_to") == [
        ("a", time(0), None),
        ("b", time(0), time(2)),
        ("c", time(2.2), None),
    ]
    assert refresh(spark, gold).rows_count == 2  # up to when c came, who may send rows
    assert rows_of(gold.path, "robot", "window_start", "ax", "count") == [
        ("a", time(0), 1.5, 2),
        ("b", time(0), 5.0, 1),
    ]
    frames = [frame_of(spark, path) for path in gold.sources]
    assert frames[0] is not None
    assert gold.kind.apply(spark, {"imu": frames[0]}, gold.options).count() == 3


def test_losses_are_ranges_of_numbers(spark: SparkSession, tmp_path: Path) -> None:
    bronze = Source(tmp_path / "bronze")
    gold = gold_of("losses", tmp_path / "losses", [bronze.path])
    many = {"zid": "bb", "eid": 2}
    bronze.add(
        *({"at": sn, "sn": sn} for sn in (1, 2, 5, 5, 9)),
        *({"at": sn, "sn": sn, "key": f"k{sn}", **many} for sn in (1, 7)),
        {"received": 8, "kind": int(RowKind.GAP), "sn": 3, "payload": b"2"},
        {"received": 9, "kind": int(RowKind.DROP), "payload": b"4", "zid": None, "sn": None},
    )
    refresh(spark, gold)
    columns = ("reason", "first_sn", "last_sn", "count", "from_ts", "to_ts")
    dropped = ("dropped", None, None, 4, time(9), time(9))
    lost = ("lost", 3, 4, 2, time(8), time(8))
    assert rows_of(gold.path, *columns) == [dropped, lost, ("missing", 6, 8, 3, time(5), time(9))]
    bronze.add({"at": 7, "sn": 7}, {"at": 12, "sn": 12})
    refresh(spark, gold)
    assert rows_of(gold.path, *columns) == [
        dropped,
        lost,
        ("missing", 10, 11, 2, time(9), time(12)),
        ("missing", 6, 6, 1, time(5), time(9)),
        ("missing", 8, 8, 1, time(5), time(9)),
    ]
    frame = frame_of(spark, bronze.path)
    assert frame is not None
    assert gold.kind.apply(spark, {"bronze": frame}, gold.options).count() == 5


def test_delays_by_key_expression(spark: SparkSession, tmp_path: Path) -> None:
    bronze = Source(tmp_path / "bronze")
    gold = gold_of("latency", tmp_path / "delay", [bronze.path], every="10 s", keys=["a/*"])
    bronze.add(
        *({"at": 1, "received": 1 + ms / 1_000, "key": "a/b"} for ms in range(101)),
        {"at": 2, "received": 2.5, "key": "c"},
        {"received": 3, "key": "c"},  # without timestamp: not measured
    )
    refresh(spark, gold, is_final=True)
    columns = ("keyexpr", "count", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    assert rows_of(gold.path, *columns) == [
        ("**", 1, 500.0, 500.0, 500.0, 500.0),
        ("a/*", 101, 50.0, 95.0, 99.0, 100.0),
    ]


def test_rows_are_aligned(spark: SparkSession, tmp_path: Path) -> None:
    gps = Source(tmp_path / "gps", [("robot", pa.string()), ("lat", pa.float64())])
    imu = Source(tmp_path / "imu", FIELDS)
    gold = gold_of("align", tmp_path / "pose", [gps.path, imu.path], by="robot", tolerance="1 s")
    near = gold_of(
        "align", tmp_path / "near", gold.sources, by="robot", tolerance="1 s", how="nearest"
    )
    gps.add(*({"robot": "a", "at": at, "lat": at} for at in (1.0, 2.0, 3.0)))
    imu.add(sample("a", 0.9, 9), sample("a", 1.2, 12), sample("a", 2.1, 21))
    refresh(spark, gold)
    columns = ("at", "lat", "ax", "age_2_ms")
    assert rows_of(gold.path, *columns) == [
        (time(1), 1.0, 9.0, 100.0),
        (time(2), 2.0, 12.0, 800.0),
    ]
    imu.add(sample("a", 6, 60), sample("b", 6, 61))
    gps.add({"robot": "a", "at": 5.5, "lat": 5.5})
    refresh(spark, gold)
    assert rows_of(gold.path, *columns)[2:] == [(time(3), 3.0, 21.0, 900.0)]
    refresh(spark, near, is_final=True)
    assert rows_of(near.path, *columns) == [
        (time(1), 1.0, 9.0, 100.0),
        (time(2), 2.0, 21.0, -100.0),
        (time(3), 3.0, 21.0, 900.0),
        (time(5.5), 5.5, 60.0, -500.0),
    ]


def test_a_range_is_made_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    options: dict[str, object] = {"every": "1 s", "by": "robot", "values": {"ax": "max"}}
    gold = gold_of("window", tmp_path / "imu_1s", [imu.path], **options)
    imu.add(*(sample("a", at, at) for at in (0.5, 1.5, 2.5, 3.5)))
    assert refresh(spark, gold).rows_count == 3
    imu.add(sample("a", 0.6, 60), sample("a", 1.6, 61), sample("a", 3.6, 3.6))
    assert refresh(spark, gold).late_count == 2
    made = backfill(spark, gold, us(1), us(10))
    assert (made.removed_count, made.added_count) == (2, 2)  # 3.5 is in a window that is open
    columns = ("window_start", "count", "ax_max")
    assert rows_of(gold.path, *columns) == [
        (time(0), 1, 0.5),
        (time(1), 2, 61.0),
        (time(2), 1, 2.5),
    ]
    imu.add(sample("a", 4.5, 4.5))
    assert refresh(spark, gold).rows_count == 1  # rounds go on as if nothing had been
    # Another definition beside it, and then in its place.
    wider = gold_of("window", gold.path, [imu.path], **(options | {"every": "2 s"}))
    [other] = candidates({"imu_1s": wider}, tmp_path, "wider").values()
    assert other.path == tmp_path / "_candidates" / "wider" / "imu_1s"
    refresh(spark, other)
    found = diff(spark, gold.path, other.path, gold.identity, time="window_start")
    counts = (found.added_count, found.removed_count, found.changed_count, found.equal_count)
    assert counts == (0, 2, 2, 0)  # 0 and 2 s begin windows of both
    assert found.changed_by_column == {"window_end": 2, "count": 2, "ax_max": 2}
    assert found.samples["changed"][0]["before"]["ax_max"] == 0.5  # type: ignore[index]
    assert found.samples["changed"][0]["after"]["ax_max"] == 61.0  # type: ignore[index]
    with pytest.raises(ConfigError, match="leave out the range"):
        backfill(spark, wider, us(0), us(1))
    monkeypatch.setattr(event_time, "_ROWS_MAX", 3)  # a long history is taken in pieces
    assert backfill(spark, wider).added_count == 2
    monkeypatch.undo()
    assert diff(spark, gold.path, other.path, gold.identity).is_none
    more = gold_of("window", gold.path, [imu.path], **(options | {"values": {"ax": "min"}}))
    made = backfill(spark, more)  # other columns
    assert (made.removed_count, made.added_count) == (2, 4)
    assert "ax_min" in (open_results(gold.path).rows() or pa.table({})).column_names


def test_conditions_hold_in_sql_as_everywhere(spark: SparkSession) -> None:
    schema = "i bigint, f double, g float, t string, b boolean, s struct<x: int>, a array<int>"
    rows = [
        (1, 1.0, 1.5, "one", True, (1,), [1]),
        (2**53 + 1, float("nan"), 0.1, "o\\%", False, (2,), [2]),
        (-5, math.inf, -0.0, "", True, None, []),
        (None,) * 7,
    ]
    frame = spark.createDataFrame(rows, schema)
    texts = [
        *("i = 1", "i > 1.5", "f <> 1", "f = f", "f > 0", "g = 0.1", "g >= 1.5 OR i < 0"),
        *("t LIKE 'o%'", "t LIKE 'o\\%'", "NOT t = 'one'", "t < 'p' AND b = TRUE", "s.x = 2"),
        *("exists(s)", "i BETWEEN 0 AND 10", "f NOT BETWEEN 0 AND 2", "i = 9007199254740992.0"),
        *("lower(t) = 'one'", "a[0] = 1", "i = 't'", "b = 1", "i = 99999999999999999999"),
    ]
    columns = [
        verdict(parse(text), frame.schema, "test").alias(f"_{at}") for at, text in enumerate(texts)
    ]
    found = frame.select("*", *columns).collect()
    for at, text in enumerate(texts):
        test = compile_predicate(parse(text))
        wanted = [test(MappingFields(row.asDict(recursive=True))) for row in found]
        assert [row[f"_{at}"] for row in found] == wanted, text
    with pytest.raises(ConfigError, match="no column nope"):
        verdict(parse("nope > 1"), frame.schema, "test")


@pytest.mark.parametrize("seed", range(2))
def test_alerts_are_those_of_a_subscriber(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rule = AlertRule("hot", "ax > 80", 2_000_000 * seed, "ax < 75" if seed else None, ["robot"])
    imu = Source(tmp_path / "imu", FIELDS)
    options: dict[str, object] = {"name": "hot", "when": rule.when, "by": "robot"}
    if seed:
        options |= {"for": "2 s", "clear": rule.clear}
    gold = gold_of("alert", tmp_path / "hot", [imu.path], **options)
    machine = rule.machine()
    expected: list[Event | None] = []
    at = itertools.count(1)
    for _ in range(3):
        batch = []
        for _ in range(40):
            now = next(at)
            value = rng.choice([70.0, 78.0, 78.0, 85.0, 85.0, 85.0, None])
            row = sample(rng.choice("abc"), now - rng.choice([0, 0, 0, 5]), value, received=now)
            batch.append(row)
            stamp = us(row["at"])  # type: ignore[arg-type]
            expected.append(machine.fields(MappingFields(row), str(row["key"]), stamp))
        imu.add(*batch)
        refresh(spark, gold)
    wanted = sorted(
        (one.id, one.state, *one.group, one.key, one.values) for one in expected if one is not None
    )
    assert len(wanted) > 3
    assert rows_of(gold.path, "id", "state", "robot", "sample_key", "values") == wanted

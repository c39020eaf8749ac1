"""Gold tables that tell the truth: wrong clocks, late rows, many groups, every kind in Iceberg."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.scale import scaled
from tests.unit.spark.gold_tables import Source, gold_of, time, us
from tests.unit.spark.pipelines import fleet

import elea.spark
from elea.errors import EleaError
from elea.sample import Sample
from elea.spark import pipelines as dp
from elea.spark.pipelines.gold import Gold, refresh
from elea.spark.pipelines.gold.late import refill_of
from elea.spark.pipelines.state import Status
from elea.store.log.schema import RowKind
from elea.store.tables.results import open_results

FIELDS = [("robot", pa.string()), ("ax", pa.float64())]
DAY = 86_400.0
WAIT_S = 400.0  # at most: the machine may be busy with something else


def sample(robot: str, at: float, ax: float, **more: object) -> dict[str, object]:
    return {"key": f"fleet/{robot}/imu", "robot": robot, "at": at, "ax": ax, "zid": robot, **more}


def rows_of(path: Path, *columns: str) -> list[tuple[object, ...]]:
    rows = open_results(path).rows(columns)
    assert rows is not None
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=str)


def window(imu: Source, path: Path, **more: object) -> Gold:
    values = {"ax": "count"}
    return gold_of(
        "window", path, [imu.path], every="1 second", by=["robot"], values=values, **more
    )


def test_a_device_a_day_ahead_does_not_close_windows_into_tomorrow(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = window(imu, tmp_path / "w", late="5 s")
    imu.add(*(sample("a", DAY + at, 1, received=at) for at in (0.5, 1.5)))
    made = refresh(spark, gold)
    assert (made.rows_count, made.ahead_count) == (0, 2)
    # The clock is mended: its rows are in windows, and none is late.
    imu.add(*(sample("a", at, 1) for at in (3.1, 3.2, 4.5)))
    made = refresh(spark, gold)
    assert (made.ahead_count, made.late_count, made.totals["ahead_count"]) == (0, 0, 2)
    imu.add(sample("a", 9.5, 1))
    refresh(spark, gold)
    assert rows_of(gold.path, "window_start", "count") == [(time(3), 2), (time(4), 1)]
    assert refresh(spark, gold, is_final=True).rows_count == 3  # also those of tomorrow


def test_an_alert_is_not_deaf_after_a_row_of_a_wrong_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = gold_of("alert", tmp_path / "hot", [imu.path], when="ax > 80", by=["robot"])
    imu.add(sample("a", DAY, 1, received=1))
    refresh(spark, gold)
    imu.add(sample("a", 3, 90))
    made = refresh(spark, gold)
    assert (made.late_count, made.rows_count) == (0, 1)


_AHEAD = {
    "the clock of a recorder, devices right": (False, False),
    "the clock of this host, all stamps ahead": (True, True),
    "the clock of a recorder, all stamps ahead": (False, True),
    "the clock of this host, devices right": (True, False),
}


@pytest.mark.parametrize("name", [*_AHEAD][: scaled(2, 4)])
def test_rows_are_in_time_after_a_clock_a_day_ahead_was_corrected(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """What was recorded meanwhile has times of reception of tomorrow."""
    is_set_back, is_stamped = _AHEAD[name]

    def clock_at(at_s: float) -> None:
        monkeypatch.setattr("time.time_ns", lambda: us(at_s) * 1_000)

    imu = Source(tmp_path / "imu", FIELDS)
    golds = [
        window(imu, tmp_path / "w", late="5 s"),
        gold_of("align", tmp_path / "al", [imu.path, imu.path], by=["robot"], late="5 s"),
        gold_of("alert", tmp_path / "hot", [imu.path], when="ax > 80", by=["robot"]),
    ]
    ahead = DAY if is_stamped else 0.0
    imu.add(*(sample("a", at + ahead, 1, received=at + DAY) for at in (0.5, 1.5, 2.5)))
    clock_at(3 + (DAY if is_set_back else 0))
    for gold in golds:
        refresh(spark, gold)
    imu.add(*(sample(name, at, 90 if at == 20 else 1) for at in (19, 20, 21) for name in "ab"))
    clock_at(21.5)
    made = [refresh(spark, gold) for gold in golds]
    assert [one.late_count for one in made] == [0, 0, 0]
    imu.add(*(sample(name, 40, 1) for name in "ab"))
    clock_at(40.5)
    for gold in golds:
        refresh(spark, gold)
    windows, rows, alerts = (gold.path for gold in golds)
    starts = {at for (at,) in rows_of(windows, "window_start")}
    assert starts >= {time(19), time(20), time(21)}
    today = {time(tenth / 10) for tenth in range(600)}
    assert starts | {at for (at,) in rows_of(rows, "at")} <= today, "nothing of tomorrow"
    states = [state for (state,) in rows_of(alerts, "state")]
    assert (states.count("raised"), states.count("cleared")) == (2, 2)
    # Tomorrow comes: what was stamped so is there once.
    imu.add(*(sample(name, DAY + 60, 1) for name in "ab"))
    clock_at(DAY + 60)
    for gold in golds:
        refresh(spark, gold)
    again = [at for at, name in rows_of(windows, "window_start", "robot") if name == "a"]
    assert len(again) == len(set(again)) == 7, "of seven rows, in windows of their own"


def test_alerts_of_more_groups_than_are_remembered_are_told_and_none_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = gold_of(
        "alert", tmp_path / "hot", [imu.path], when="ax > 80", by=["robot"], groups_max=5
    )
    names = [f"r{number}" for number in range(9)]
    imu.add(*(sample(name, 1, 90 if name < "r5" else 10) for name in names))
    made = refresh(spark, gold)
    assert (made.rows_count, made.forgotten_count) == (5, 4)  # those that are not raised
    imu.add(*(sample(name, 2, 91 if name < "r5" else 10) for name in names))
    assert refresh(spark, gold).rows_count == 0
    imu.add(*(sample(name, 3, 10) for name in names))
    refresh(spark, gold)
    states = [state for (state,) in rows_of(gold.path, "state")]
    assert (states.count("raised"), states.count("cleared")) == (5, 5)
    imu.add(*(sample(name, 4, 90) for name in names))
    with pytest.raises(EleaError, match="holds for 9 groups, which exceeds groups_max"):
        refresh(spark, gold)
    more = replace(gold, options={**gold.options, "groups_max": 100})
    assert refresh(spark, more).rows_count == 9  # it need not be made anew


def test_losses_of_more_publishers_than_are_remembered_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    bronze = Source(tmp_path / "bronze")
    gold = gold_of("losses", tmp_path / "losses", [bronze.path], publishers_max=3)
    bronze.add(*({"at": number, "zid": f"a{number}", "sn": 1} for number in range(5)))
    assert refresh(spark, gold).forgotten_count == 2


def test_late_rows_are_kept_and_counted_and_their_spans_made_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By a pipeline, of rows that a recorder filled in."""
    head = f"{fleet.HEAD}trigger: available-now\n"
    tables = fleet.TABLES + (
        "w: {from: imu, window: {every: 20 ms, by: [robot], values: {ax: count}, late: 5 ms}}\n"
    )
    pipeline = fleet.pipeline(tmp_path, tables, head)

    def counted() -> int:
        with dp.run(pipeline, spark, once=True) as run:
            assert run.wait(WAIT_S)
        run.check()
        told.append(run.status())
        rows = open_results(pipeline.path("w")).rows(["count", "window_end"])
        assert rows is not None
        return sum(rows["count"].to_pylist())

    told: list[Status] = []
    missing = {45, 46, 47}
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        present = pa.array([n for n in range(200) if n not in missing])
        log.store(fleet.batch(0, 200).take(present))
        before = counted()
        log.store(fleet.batch(45, 3))  # recovered
        log.store(fleet.batch(200, 1))
        after = counted()
    status = told[-1]
    late = [number for number in missing if fleet.is_imu(number) and not fleet.is_bad(number)]
    assert status.tables["w"].late == len(late) > 0
    assert any("came too late" in event for event in status.events)
    assert any("back-filled" in event for event in status.events)
    assert after >= before + len(late), "the windows have them now"
    found = rows_of(pipeline.path("w_late"), "sn")
    assert [number for (number,) in found] == late


def test_a_span_that_waits_to_be_made_anew_is_remembered(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    gold = window(imu, tmp_path / "w", late="1 s")
    imu.add(sample("a", 0.5, 1), sample("a", 5, 1))
    refresh(spark, gold)
    imu.add(sample("a", 1.5, 1, received=6))
    assert refill_of(refresh(spark, gold).totals) is not None
    imu.add(sample("a", 6, 1))
    assert refill_of(refresh(spark, gold).totals) is not None
    assert refresh(spark, gold).late_count == 0
    assert gold.late_path.name == "w_late"


def test_iceberg_tables_of_every_kind_can_be_changed_and_read_by_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    imu = Source(tmp_path / "imu", FIELDS)
    bronze = Source(tmp_path / "bronze")
    options: dict[str, dict[str, object]] = {
        "window": {"every": "1 s", "by": "robot", "values": {"ax": ["avg", "p50"]}, "late": "1 s"},
        "downsample": {"every": "1 s", "by": "robot", "columns": "ax", "late": "1 s"},
        "latency": {"every": "1 s", "late": "1 s"},
        "latest": {"by": "robot", "columns": ["ax"]},
        "alert": {"when": "ax > 1", "by": "robot"},
        "align": {"by": "robot", "tolerance": "1 s", "late": "1 s"},
        "losses": {},
        "presence": {"key": "fleet/{robot}/alive"},
    }
    made = {}
    for kind, given in options.items():
        sources = [bronze.path] if kind in ("losses", "presence") else [imu.path]
        sources = [imu.path, imu.path] if kind == "align" else sources
        gold = gold_of(kind, tmp_path / kind, sources, **given)
        made[kind] = replace(gold, format="iceberg")
    for turn in range(scaled(2, 3)):  # from the second change on one failed
        at = 10.0 * turn
        imu.add(*(sample("a", at + step, step) for step in (0.1, 1.2, 2.3, 7.0)))
        bronze.add(
            {"at": at, "sn": 10 * turn},
            {"at": at + 1, "sn": 10 * turn + 5},
            {"key": f"fleet/r{turn}/alive", "received": at, "kind": int(RowKind.TOKEN_PUT)},
        )
        for gold in made.values():
            refresh(spark, gold)
    for kind, gold in made.items():
        assert open_results(gold.path).number() >= 2, kind
        catalog = SqlCatalog("elea", uri=f"sqlite:///{gold.path}/catalog.sqlite")
        scan = catalog.load_table("elea.results").scan()
        count = open_results(gold.path).rows_count()
        assert count > 0, kind
        assert scan.to_arrow().num_rows == count, kind
        assert len(scan.to_pandas()) == count, kind
        counted = scan.to_duckdb("t").sql("SELECT count(*) FROM t").fetchall()
        assert counted == [(count,)], kind


def test_a_thread_that_asks_for_the_session_can_write_to_the_sink(
    spark: SparkSession, checkpoint: str, tmp_path: Path
) -> None:
    """And a stream stamps rows by its batch, however often it is tried."""
    endpoint = free_endpoint()
    errors: list[BaseException] = []
    got: list[Sample] = []
    rows = spark.range(20).selectExpr("'a/' || id AS key", "cast(id AS string) AS payload")

    def write() -> None:
        try:
            elea.spark.session()
            rows.write.format("zenoh").mode("append").option("connect", endpoint).save()
        except BaseException as error:
            errors.append(error)

    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("**", got.append)
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert errors == []
        assert eventually(lambda: len(got) == 20)
        assert len({one.source_info for one in got}) == 20
        got.clear()
        rows.write.parquet(str(tmp_path / "rows"))
        query = (
            spark.readStream.schema("key STRING, payload STRING")
            .parquet(str(tmp_path / "rows"))
            .writeStream.format("zenoh")
            .options(connect=endpoint, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert eventually(lambda: len(got) == 20)
    stamped = {one.timestamp.id for one in got if one.timestamp is not None}
    assert stamped <= {one.source_info.source_id.zid for one in got if one.source_info}
    assert stamped


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"maxRowsPerTrigger": "-3"}, "option maxRowsPerTrigger"),
        ({"startingOffsets": "yesterday"}, "option startingOffsets"),
        ({"failOnDataLoss": "perhaps"}, "option failOnDataLoss"),
    ],
)
def test_options_of_a_stream_are_refused_at_load(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], complaint: str
) -> None:
    reader = spark.readStream.format("zenoh").options(log=str(tmp_path), **options)
    with pytest.raises(Exception, match=complaint):
        reader.load()

"""Compaction: the same rows in few sorted files, repeats aside."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.scale import scaled
from tests.unit.spark.pipelines import fleet
from tests.unit.store.log.rows import rows
from tests.unit.store.tables.made import fill, log_at, part_of, position, rows_in, stored

from elea.errors import StoreError
from elea.spark.pipelines import landing
from elea.spark.pipelines.silver import BAD_COLUMNS
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import POSITION, SCHEMA, RowKind
from elea.store.tables import compaction
from elea.store.tables.compaction import MERGE_COUNT, Compacted, compact, merge, tidy
from elea.store.tables.layout import COLUMNS, PartWriter
from elea.store.tables.table import FORMATS, Table, open_table


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(tmp_path / "table", request.param)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with log_at(tmp_path / "log") as made:
        fill(made, 0, 200)
        yield made


def id_of(log: Log) -> UUID:
    return LogReader(log.disk).log_id


def archived(table: Table, log: Log, step: int = 40, consumer: str = "c") -> None:
    for shard, end in enumerate(log.ends()):
        for first in range(0, end, step):
            table.commit(consumer, [part_of(table, log, shard, first, min(first + step, end))])


def with_columns(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    arrays = [columns.get(name, batch.column(name)) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@pytest.mark.parametrize("range_len_max", [1 << 30, 4_000])
def test_few_sorted_files_have_the_same_rows(table: Table, log: Log, range_len_max: int) -> None:
    archived(table, log)
    before = rows_in(table).sort_by([("shard", "ascending"), ("seq", "ascending")])
    [done] = compact(table, range_len_max=range_len_max)
    assert (done.date, done.files_count, done.rows_count, done.repeats_count) == (
        "2023-11-14",
        sum(len(range(0, end, 40)) for end in log.ends()),
        200,
        0,
    )
    after = rows_in(table).sort_by([("shard", "ascending"), ("seq", "ascending")])
    assert after.equals(before)
    files = table.files()
    assert len(files) == done.made_count == (1 if range_len_max > 4_000 else len(files))
    if range_len_max == 4_000:
        assert len(files) > 2
    ranges = []
    for file in files:
        found = pq.read_table(Path(table.layout.root) / file.path, partitioning=None)
        order = list(zip(found["key"].to_pylist(), found["ts"].to_pylist(), strict=True))
        assert order == sorted(order)
        ranges.append((order[0], order[-1]))
    ranges.sort()
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ranges))
    assert list(compact(table)) == []  # nothing is left to do
    assert position(table) == stored(log)


def test_a_day_that_gets_more_is_compacted_again(table: Table, log: Log) -> None:
    archived(table, log, step=100)
    assert len(list(compact(table))) == 1
    fill(log, 200, 50)
    for shard, end in enumerate(log.ends()):
        first = table.ends("c", id_of(log))[shard]
        table.commit("c", [part_of(table, log, shard, first, end)])
    assert list(compact(table, before="2023-11-14")) == []
    [done] = compact(table, before="2023-11-15")
    assert (done.files_count, done.made_count) == (3, 1)
    assert position(table) == stored(log)


def test_many_small_files_are_put_together_and_the_newest_left_alone(
    table: Table, log: Log
) -> None:
    archived(table, log, step=10)
    before, count = rows_in(table), len(table.files())
    assert count == 20
    assert merge(table, count=11) == 0, "there are not many"
    merged = merge(table, count=6)
    if table.format == "parquet":
        assert merged == 0
        return
    assert merged == 6
    assert len(table.files()) == count - 5
    order = [("shard", "ascending"), ("seq", "ascending")]
    assert rows_in(table).sort_by(order).equals(before.sort_by(order))
    assert merge(table, count=6) == 6, "what is merged is not counted"
    assert merge(table, count=6) == 0
    assert position(table) == stored(log)
    [done] = compact(table)
    assert (done.files_count, done.made_count) == (10, 1)


def test_files_without_places_or_with_much_in_them_are_left(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(tmp_path / "delta", "delta")
    archived(table, log, step=10)
    monkeypatch.setattr("elea.store.tables.compaction._MERGE_LEN", 1_000)
    assert merge(table, count=5) == 0
    monkeypatch.undo()
    monkeypatch.setattr("elea.store.tables.compaction._POSITION", ("log", "shard", "number"))
    assert merge(table, count=5) == 0


def test_what_cannot_be_put_together_stays_as_it_is(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = open_table(tmp_path / "delta", "delta")
    archived(table, log, step=10)
    merged: list[int] = []

    def full(_: Table) -> int:
        merged.append(1)
        raise OSError("no space left")

    monkeypatch.setattr("elea.store.tables.compaction.merge", full)
    for _ in range(2 * MERGE_COUNT):
        tidy(table)
    assert len(merged) == 2
    assert "no space left" in caplog.text
    assert position(table) == stored(log)


@pytest.mark.parametrize("shards_count", [1, 4])
def test_small_files_are_bounded_however_many_shards_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards_count: int
) -> None:
    monkeypatch.setattr("elea.store.tables.compaction.MERGE_COUNT", 8)
    table = open_table(tmp_path / "table", "delta")
    batches_count, most = scaled(24, 240), 0
    log_id = uuid4()
    for number in range(batches_count):
        parts = []
        for shard in range(shards_count):
            writer = PartWriter(table.layout, log_id, shard, number, number + 1)
            batch = rows(number, 1)
            for field, value in zip(POSITION, (shard, number), strict=True):
                batch = batch.append_column(field, pa.array([value], field.type))
            writer.add(batch)
            parts.append(writer.finish())
        table.commit("c", parts)
        tidy(table, len(parts))
        small = [file for file in table.files() if "merged-" not in file.path]
        most = max(most, len(small))
    assert most <= 3 * 8 + shards_count, "twice as many as are merged, and what came since"
    assert position(table) == [(s, n) for s in range(shards_count) for n in range(batches_count)]


def test_small_files_of_a_table_that_every_other_batch_is_for_were_never_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of bad rows, if their batches have odd numbers: batches with even ones merged."""
    monkeypatch.setattr("elea.store.tables.compaction.MERGE_COUNT", 4)
    monkeypatch.setattr("elea.spark.pipelines.landing._EMPTY_EVERY", 2)
    made = fleet.pipeline(tmp_path, 'imu: {decode: json, key: "fleet/{robot}/imu"}\n')
    place, log_id, most = landing.Place.of(made), uuid4(), 0
    with fleet.log_at(tmp_path / "log", shards_count=1):
        landing.prepare(place, made.landed)
    for number in range(48):
        part = PartWriter(place.layout("imu"), log_id, 0, number, number + 1).finish()
        landed = [landing.Landed("imu", part)]
        if number % 2:
            bad = PartWriter(place.layout("imu_bad"), log_id, 0, number, number + 1, BAD_COLUMNS)
            row = {"shard": 0, "seq": number, "decoder": "json", "reason": "no JSON"}
            bad.add(with_place(rows(number, 1), row))
            landed.insert(0, landing.Landed("imu_bad", bad.finish()))
        landing.commit(place, made.landed, landed, number)
        if number % 2:
            files = open_table(place.path("imu_bad")).files()
            most = max(most, len([one for one in files if "merged-" not in one.path]))
    assert most <= 3 * 4


def with_place(batch: pa.RecordBatch, more: dict[str, object]) -> pa.RecordBatch:
    for name, value in more.items():
        field = BAD_COLUMNS.field(BAD_COLUMNS.get_field_index(name))
        batch = batch.append_column(field, pa.array([value] * batch.num_rows, field.type))
    return batch


def test_repeats_are_left_out(table: Table, tmp_path: Path) -> None:
    same = rows(0, 40)
    none = pa.nulls(40, pa.int64())
    unnumbered = with_columns(rows(100, 40), sn=none)
    gaps = with_columns(same, kind=pa.array([int(RowKind.GAP)] * 40, pa.int8()))
    restarted = with_columns(same, payload=pa.array([b"another"] * 40, pa.binary()))
    neither = with_columns(rows(200, 40), sn=none, hlc=none)
    expected = 0
    with log_at(tmp_path / "a", shards_count=1) as a, log_at(tmp_path / "b", shards_count=1) as b:
        for log in (a, b):  # two recorders
            for batch in (same, unnumbered):
                log.store(batch)
                log.store(batch)
        for batch in (gaps, restarted, neither, neither):
            a.store(batch)
            expected += 40
        archived(table, a, step=160)
        archived(table, b, step=160)
        [done] = compact(table)
        assert done.repeats_count == 40 * 2 * 3
        assert done.rows_count == 80 + expected
        found = rows_in(table)
        kept = found.filter(pc.is_in(found["payload"], value_set=same["payload"]))
        first = min(str(id_of(a)), str(id_of(b)))
        kinds = zip(kept["kind"].to_pylist(), kept["log"].to_pylist(), strict=True)
        assert {log for kind, log in kinds if kind == 0} == {first}
        stays = kept.filter(pc.equal(kept["kind"], 0))
        assert max(stays["seq"].to_pylist()) < 40  # the lowest numbers of a log


def test_a_restarted_publisher_with_equal_payloads_loses_no_row(
    table: Table, tmp_path: Path
) -> None:
    """It counts from 0 again, and a heartbeat always says the same: only timestamps differ."""
    beat = with_columns(rows(0, 5), payload=pa.array([b"ok"] * 5, pa.binary()))
    hour = pa.array([3_600 << 32] * 5, pa.int64())
    restarted = with_columns(beat, hlc=pc.add(beat["hlc"], hour))
    other_clock = with_columns(beat, hlc_id=beat["zid"])
    unstamped = with_columns(beat, hlc=pa.nulls(5, pa.int64()))
    annotated = with_columns(beat, attachment=pa.array([b"note"] * 5, pa.binary()))
    distinct = (beat, restarted, other_clock, unstamped, unstamped, annotated)
    with log_at(tmp_path / "a", shards_count=1) as log:
        for batch in distinct:
            log.store(batch)
        archived(table, log, step=30)
        done = list(compact(table))
    assert sum(one.repeats_count for one in done) == 0
    assert rows_in(table).num_rows == 5 * len(distinct)


def test_duplicates_of_decoded_tables_agree_in_every_column(tmp_path: Path) -> None:
    columns = pa.schema(
        [
            *(one for one in COLUMNS if one.name != "payload"),
            pa.field("x", pa.float64()),
            pa.field("at", pa.struct([pa.field("y", pa.float64())])),
        ]
    )
    table = open_table(tmp_path / "table", "delta", columns=columns)
    log_id = uuid4()
    same = rows(0, 4)
    xs = [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 9.0]]
    ys = [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 9.0, 3.0], [0.0, 9.0, 2.0, 3.0]]
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        writer = PartWriter(table.layout, log_id, 0, number * 4, number * 4 + 4, columns)
        batch = same.drop_columns(["payload"])
        for field, values in zip(
            POSITION, ([0] * 4, range(number * 4, number * 4 + 4)), strict=True
        ):
            batch = batch.append_column(field, pa.array(values, field.type))
        at = pa.array([{"y": value} for value in y], columns.field("at").type)
        batch = batch.append_column("x", pa.array(x)).append_column("at", at)
        writer.add(batch)
        table.commit("c", [writer.finish()])
    [done] = compact(table, range_len_max=100)
    # Of 12 rows: rows 0, 1, 3 of the second and rows 0 and 2 of the third batch.
    assert (done.repeats_count, done.rows_count) == (5, 7)


def test_columns_that_were_added_stay(tmp_path: Path, log: Log) -> None:
    table = open_table(tmp_path / "table", "delta")
    archived(table, log, step=200)
    table.add_columns([pa.field("speed", pa.float64())])
    [file, _] = table.files()
    path = Path(table.layout.root) / file.path
    found = pq.read_table(path, partitioning=None)
    pq.write_table(found.append_column("speed", pa.array([1.5] * len(found))), path)
    list(compact(table))
    speeds = rows_in(table)["speed"].to_pylist()
    assert (speeds.count(1.5), speeds.count(None)) == (file.rows_count, 200 - file.rows_count)


def test_two_compactions_at_once_do_not_double(table: Table, log: Log) -> None:
    archived(table, log)
    done: list[Compacted] = []
    threads = [
        threading.Thread(target=lambda: done.extend(compact(open_table(table.layout.root))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert position(table) == stored(log)


def test_files_that_another_compaction_replaced_were_missed_while_they_were_read(
    table: Table, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(table, log)
    real_opened = compaction._opened
    done: list[Compacted] = []

    def opened(*args: Any) -> Any:
        """Read the footers; another compaction comes before the rows are read."""
        result = real_opened(*args)
        monkeypatch.setattr(compaction, "_opened", real_opened)
        done.extend(compact(open_table(table.layout.root)))
        return result

    monkeypatch.setattr(compaction, "_opened", opened)
    assert list(compact(table)) == []
    assert len(done) == 1
    assert position(table) == stored(log)


def test_a_listed_file_that_is_not_there_is_an_error(tmp_path: Path, log: Log) -> None:
    table = open_table(tmp_path / "delta", "delta")
    archived(table, log)
    (tmp_path / "delta" / table.files()[0].path).unlink()
    with pytest.raises(FileNotFoundError):
        list(compact(table))


def test_rows_come_in_while_it_is_compacted(table: Table, log: Log) -> None:
    archived(table, log, step=50)
    old = table.files()
    list(compact(table))
    fill(log, 200, 20)
    for shard, end in enumerate(log.ends()):
        first = table.ends("c", id_of(log))[shard]
        table.commit("c", [part_of(table, log, shard, first, end)])
    with pytest.raises(StoreError, match="not in the table any more"):
        table.replace(old, [])
    assert position(table) == stored(log)
    table.vacuum(0)
    assert position(table) == stored(log)

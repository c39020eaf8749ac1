"""Tables of every format: rows are taken once, whoever brings them; files by key and time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.unit.store.log.rows import EPOCH_S, rows, stamp
from tests.unit.store.tables.ambiguous import fail_after_commit
from tests.unit.store.tables.made import fill, log_at, part_of, position, rows_in, stored

from elea.errors import ConfigError, ConflictError, StoreError
from elea.store.log.log import Log
from elea.store.log.ranges import COLUMNS, rows_of
from elea.store.log.reader import LogReader
from elea.store.tables.compaction import compact
from elea.store.tables.files import DataFile, Stats, prefix_of, pruned
from elea.store.tables.layout import RETENTION, bucket_of, write_part
from elea.store.tables.parquet import ParquetCatalog
from elea.store.tables.table import FORMATS, Table, open_table

DAY = 86_400


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(tmp_path / "table", request.param)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with log_at(tmp_path / "log") as made:
        fill(made, 0, 100)
        yield made


def id_of(log: Log) -> UUID:
    return LogReader(log.disk).log_id


def test_files_are_rows_once_they_are_committed(table: Table, log: Log) -> None:
    ends = log.ends()
    parts = [part_of(table, log, shard, 0, end) for shard, end in enumerate(ends)]
    assert position(table) == []
    assert table.ends("c", id_of(log)) == {}
    assert table.commit("c", parts)
    assert position(table) == stored(log)
    assert table.ends("c", id_of(log)) == dict(enumerate(ends))
    again = open_table(table.layout.root)
    assert (again.format, again.ends("c", id_of(log))) == (table.format, dict(enumerate(ends)))
    found = rows_in(table)
    assert set(found["log"].to_pylist()) == {str(id_of(log))}
    for name in ("key", "payload", "attachment", "encoding", "ts", "hlc", "zid", "sn", "qos"):
        want = [
            row
            for shard in (0, 1)
            for b in LogReader(log.disk).read(shard, 0)
            for row in b[name].to_pylist()
        ]
        assert sorted(map(str, found[name].to_pylist())) == sorted(map(str, want)), name


def test_what_is_brought_again_is_not_taken_again(table: Table, log: Log) -> None:
    end = log.ends()[0]
    assert table.commit("c", [part_of(table, log, 0, 0, end)])
    repeated = part_of(table, log, 0, 0, end)
    assert not table.commit("c", [repeated])
    assert position(table) == [(0, seq) for seq in range(end)]
    assert not any((Path(table.layout.root) / file.path).exists() for file in repeated.files)
    assert not table.commit("c", [])


def test_what_does_not_follow_is_refused(table: Table, log: Log) -> None:
    assert table.commit("c", [part_of(table, log, 0, 0, 20)])
    with pytest.raises(ConflictError, match=r"rows 10 to 29 of shard 0 .* rows before 20"):
        table.commit("c", [part_of(table, log, 0, 10, 30)])
    with pytest.raises(ConflictError, match="go on with a new checkpoint"):
        table.commit("c", [part_of(table, log, 0, 25, 30)])
    with pytest.raises(ConflictError):  # half of a batch that it has: not one of its batches
        table.commit("c", [part_of(table, log, 0, 0, 20), part_of(table, log, 1, 0, 5)])
    assert position(table) == [(0, seq) for seq in range(20)]
    assert table.commit("c", [part_of(table, log, 0, 25, 30)], lossy=True)
    assert table.commit("c", [part_of(table, log, 1, 7, 9), part_of(table, log, 1, 9, 11)])
    assert table.ends("c", id_of(log)) == {0: 30, 1: 11}


def test_a_range_without_rows_is_remembered(table: Table, log: Log) -> None:
    part = part_of(table, log, 1, 0, 0)
    empty = type(part)(part.log_id, 1, 0, 9, ())
    assert table.commit("c", [empty])
    assert table.ends("c", id_of(log)) == {1: 9}
    assert not table.commit("c", [empty])
    assert table.files() == []


def test_consumers_and_logs_do_not_mix(table: Table, log: Log, tmp_path: Path) -> None:
    with log_at(tmp_path / "other") as other:
        fill(other, 0, 40)
        assert table.commit("c", [part_of(table, log, 0, 0, 10)])
        assert table.commit("c", [part_of(table, other, 0, 0, 12)])
        assert table.ends("c", id_of(log)) == {0: 10}
        assert table.ends("c", id_of(other)) == {0: 12}
        assert table.ends("d", id_of(log)) == {}


def test_of_two_who_write_at_once_one_wins_each_range(table: Table, log: Log) -> None:
    """Two drivers, the same consumer, other ranges: no row twice, none missing."""
    end = log.ends()[0]
    results: list[str] = []

    def drive(step: int) -> None:
        mine = open_table(table.layout.root)
        for _ in range(200):
            first = mine.ends("c", id_of(log)).get(0, 0)
            if first == end:
                return
            part = part_of(mine, log, 0, first, min(first + step, end))
            try:
                mine.commit("c", [part])
                results.append("taken")
            except ConflictError:
                results.append("lost")

    threads = [threading.Thread(target=drive, args=(step,)) for step in (7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "taken" in results
    assert position(table) == [(0, seq) for seq in range(end)]


def test_a_commit_for_a_table_that_changed_meanwhile_is_planned_again(
    table: Table, log: Log
) -> None:
    base = table.opened
    assert open_table(table.layout.root).commit("other", [part_of(table, log, 0, 0, 10)])
    assert table.commit("c", [part_of(table, log, 0, 0, 20)], base=base)
    late = part_of(table, log, 0, 0, 20)
    assert not table.commit("c", [late], base=base), "another process brought them"
    assert table.ends("c", id_of(log)) == {0: 20}
    assert not (Path(table.layout.root) / late.files[0].path).exists()
    assert len(position(table)) == 30


def test_orphans_go_when_they_are_old(table: Table, log: Log) -> None:
    table.commit("c", [part_of(table, log, 0, 0, 10)])
    young = part_of(table, log, 0, 10, 20).files[0].path
    old = part_of(table, log, 0, 10, 20).files[0].path
    os.utime(Path(table.layout.root) / old, (0, 0))
    half = str(Path(old).with_name(".x.parquet.partial"))
    (Path(table.layout.root) / half).touch()
    os.utime(Path(table.layout.root) / half, (0, 0))
    assert table.vacuum(3_600, dry_run=True) == sorted([half, old])
    assert (Path(table.layout.root) / old).exists()
    assert table.vacuum(3_600) == sorted([half, old])
    assert not (Path(table.layout.root) / half).exists()
    assert not (Path(table.layout.root) / old).exists()
    assert (Path(table.layout.root) / young).exists()
    assert position(table) == [(0, seq) for seq in range(10)]


def test_a_task_that_fails_leaves_nothing(table: Table, log: Log) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        for _, _, batch in rows_of(LogReader(log.disk), 0, 0, 40, COLUMNS):
            yield batch
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        write_part(table.layout, broken(), id_of(log), 0, 0, 40)
    assert not [file for file in Path(table.layout.root).rglob("*") if "parquet" in file.name]


def test_files_by_key_and_time(table: Table, tmp_path: Path) -> None:
    with log_at(tmp_path / "log", shards_count=1) as log:
        for first in (0, 1_000, 2_000):  # row n is at n milliseconds, of key k/(n % keys)
            log.store(rows(first, 100, 3))
        table.commit("c", [part_of(table, log, 0, at, at + 100) for at in (0, 100, 200)])
    assert len(table.files()) == 3
    assert len(table.files(since=stamp(1_000), until=stamp(1_050))) == 1
    assert len(table.files(since=stamp(99), until=stamp(1_000))) in (1, 2)
    assert table.files(since=stamp(5_000)) == []
    assert len(table.files("k/*")) == len(table.files("k/1")) == len(table.files("**")) == 3
    assert table.files("k/3") == table.files("a/**") == table.files("z/**") == []


def test_rows_are_filed_under_their_day(table: Table, tmp_path: Path) -> None:
    with log_at(tmp_path / "log", shards_count=1) as log:
        log.store(rows(0, 10))
        log.store(rows(DAY * 1_000, 10))
        late = rows(20, 10).set_column(6, "hlc", pa.array([0] * 10, pa.int64()))
        log.store(pa.RecordBatch.from_arrays(late.columns, schema=rows(0, 1).schema))
        unstamped = rows(DAY * 2_000, 5, stamped=False)
        log.store(unstamped)
        part = part_of(table, log, 0, 0, 35)
        table.commit("c", [part])
    found = {file.date: file.rows_count for file in table.files()}
    # 1 700 000 000 is 2023-11-14; rows of 1970 are filed under the day they were received.
    assert found == {"2023-11-14": 20, "2023-11-15": 10, "2023-11-16": 5}
    received = (EPOCH_S + 2 * DAY) << 32
    assert [file.date for file in table.files(since=received)] == ["2023-11-16"]


@pytest.mark.parametrize("format", FORMATS)
def test_buckets_are_partitions(format: str, tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", format, buckets={"one": "k/1", "two": "k/2"})
    with log_at(tmp_path / "log", shards_count=1) as log:
        fill(log, 0, 30)
        table.commit("c", [part_of(table, log, 0, 0, 30)])
    assert {file.bucket for file in table.files()} == {"one", "two", "other"}
    assert open_table(tmp_path / "table").layout.buckets == {"one": "k/1", "two": "k/2"}
    assert len(position(table)) == 30
    with pytest.raises(ConfigError, match="the table was made with"):
        open_table(tmp_path / "table", format, buckets={"x": "y"})


@pytest.mark.parametrize(
    ("buckets", "complaint"),
    [
        ({str(at): "a" for at in range(65)}, "at most 64"),
        ({"a/b": "a"}, "letters, digits"),
        ({"other": "a"}, "all other keys"),
        ({"a": "a/*"}, "how keys begin"),
    ],
)
def test_buckets_that_are_not_legal(
    tmp_path: Path, buckets: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_table(tmp_path, "parquet", buckets=buckets)


def test_columns_can_be_added(table: Table, log: Log) -> None:
    table.commit("c", [part_of(table, log, 0, 0, 10)])
    table.add_columns([pa.field("speed", pa.float64()), pa.field("key", pa.string())])
    table.add_columns([pa.field("speed", pa.float64())])
    with pytest.raises(StoreError, match="speed is double, and cannot become string"):
        table.add_columns([pa.field("speed", pa.string())])
    assert table.commit("c", [part_of(table, log, 0, 10, 20)])
    assert len(position(table)) == 20


def test_what_is_no_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no table; legal are directories of delta, iceberg"):
        open_table(tmp_path)
    with pytest.raises(ConfigError, match="saw 'orc'; legal are delta, iceberg, parquet"):
        open_table(tmp_path, "orc")
    open_table(tmp_path / "t", "parquet")
    with pytest.raises(ConfigError, match="is of format parquet"):
        open_table(tmp_path / "t", "delta")


def test_a_commit_that_was_cut_off_is_finished(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain files have no transactions: the journal is one."""
    table = open_table(tmp_path / "table", "parquet")
    part = part_of(table, log, 0, 0, 10)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetCatalog, "_apply", dies)
        with pytest.raises(KeyboardInterrupt):
            table.commit("c", [part])
    assert not list((tmp_path / "table").glob("date=*"))
    assert not table.commit("c", [part_of(table, log, 0, 0, 10)])
    assert position(table) == [(0, seq) for seq in range(10)]
    assert table.ends("c", id_of(log)) == {0: 10}


def test_files_travel() -> None:
    file = DataFile("a/b.parquet", 3, 9, "2026-11-15", None, Stats("a", "b", 1, 2, 3, 4, 0))
    assert DataFile.from_json(file.to_json()) == file


@pytest.mark.parametrize(
    ("stats", "key_expr", "is_there"),
    [
        (Stats("fleet/1/a", "fleet/9/z", unstamped_count=None), "fleet/*/imu", True),
        (Stats("fleet/1/a", "fleet/9/z", unstamped_count=None), "fleet", False),
        (Stats("a", "b", unstamped_count=None), "fleet/**", False),
        (Stats("g", "h", unstamped_count=None), "fleet/**", False),
        (Stats("a", "z", unstamped_count=None), "fleet/**", True),
        (Stats(), "x", True),
    ],
)
def test_pruning_by_key(stats: Stats, key_expr: str, is_there: bool) -> None:
    file = DataFile("f", 1, 1, "2026-11-15", None, stats)
    assert bool(pruned([file], key_expr)) is is_there


def test_beginnings() -> None:
    assert prefix_of("a/**/b") == "a"
    assert bucket_of("k/1/x", {"one": "k/1"}) == "one"
    assert bucket_of("k/10", {"one": "k/1"}) == "other"


def test_a_delta_table_forgets_versions_and_no_row(tmp_path: Path, log: Log) -> None:
    table = open_table(tmp_path / "table", "delta")
    made = DeltaTable(str(tmp_path / "table"))
    assert made.metadata().configuration.items() >= RETENTION.items()
    now = dict.fromkeys(RETENTION, "interval 0 seconds")
    made.alter.set_table_properties({**now, "delta.checkpointInterval": "5"})
    for seq in range(12):
        assert table.commit("c", [part_of(table, log, 0, seq, seq + 1)])
    versions = sorted(one.name for one in (tmp_path / "table" / "_delta_log").glob("*.json"))
    assert versions[0] > f"{5:020}.json"
    assert position(table) == [(0, seq) for seq in range(12)]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_commit_that_reports_an_error_after_it_was_done_keeps_its_files(
    tmp_path: Path, log: Log, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(tmp_path / "table", format)
    parts = [part_of(table, log, shard, 0, end) for shard, end in enumerate(log.ends())]
    failed = fail_after_commit(monkeypatch)
    assert table.commit("c", parts)
    assert failed
    assert position(table) == stored(log)
    assert not table.commit("c", parts), "brought again, the same files are those of the table"
    assert position(table) == stored(log)
    again = [part_of(table, log, shard, 0, end) for shard, end in enumerate(log.ends())]
    assert not table.commit("c", again)
    assert not [
        file for part in again for file in part.files if (tmp_path / "table" / file.path).exists()
    ]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_compaction_that_reports_an_error_after_it_was_done_keeps_its_files(
    tmp_path: Path, log: Log, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(tmp_path / "table", format)
    for shard, end in enumerate(log.ends()):
        for first in range(0, end, 10):
            table.commit("c", [part_of(table, log, shard, first, min(first + 10, end))])
    failed = fail_after_commit(monkeypatch)
    assert len(list(compact(table))) == 1
    assert failed
    assert position(table) == stored(log)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("what", ["commit", "compact", "vacuum"])
def test_a_commit_that_reported_an_error_lost_its_manifests_where_others_committed_since(
    tmp_path: Path, log: Log, format: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pointer named theirs by then: PyIceberg took away files that it needs."""
    table = open_table(tmp_path / "table", format)
    ends = log.ends()
    for first in range(0, ends[0], 10):
        table.commit("c", [part_of(table, log, 0, first, min(first + 10, ends[0]))])

    def others() -> None:
        theirs = open_table(tmp_path / "table")
        if what == "commit":
            theirs.commit("other", [part_of(theirs, log, 0, 0, 10)])
        elif what == "compact":
            assert len(list(compact(theirs))) == 1
        else:
            theirs.vacuum(3_600)

    failed = fail_after_commit(monkeypatch, others)
    rest = [part_of(table, log, shard, 0, end) for shard, end in enumerate(ends) if shard]
    table.commit("c", rest)
    assert failed
    more = [(0, seq) for seq in range(10)] if what == "commit" else []
    assert position(table) == sorted([*stored(log), *more])
    assert len(list(compact(table))) == (what != "compact")
    assert set(position(table)) == set(stored(log))


@pytest.mark.parametrize("format", FORMATS)
def test_a_directory_that_cannot_be_made_was_told_in_the_words_of_each_format(
    format: str, tmp_path: Path
) -> None:
    """Delta's took 53 lines on the command line."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="the table cannot be made: Not a directory"):
        open_table(tmp_path / "file" / "table", format)

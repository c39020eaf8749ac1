"""The stream over a log: every row once whatever crashes, limits, starts, losses."""

from __future__ import annotations

import base64
import contextlib
import itertools
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from tests.unit.spark.engine import CrashError, Query, pickled
from tests.unit.spark.logs import all_rows, fill, log_at, stream
from tests.unit.store.log.rows import EPOCH_S

from elea.errors import ConfigError, OffsetError, StoreError
from elea.spark.stream import Range
from elea.store.log.consumers import load
from elea.store.log.disk import RealDisk
from elea.store.log.log import pack_log
from elea.store.log.reader import LogReader


def no_crash(_: str) -> None:
    pass


def crashing(at: int, grow: Callable[[], None]) -> Callable[[str], None]:
    """Lets so many points pass, then crashes. Until then the log grows as batches are planned."""
    left = at

    def crash(point: str) -> None:
        nonlocal left
        left -= 1
        if point == "before planning":
            grow()
        if left < 0:
            raise CrashError(point)

    return crash


@settings(max_examples=30)
@given(
    crashes=st.lists(st.integers(0, 12), max_size=6),
    grows=st.lists(st.integers(0, 60), max_size=6),
    rows_max=st.sampled_from(["17", "40", "1000"]),
    start=st.sampled_from(["earliest", "latest", "committed"]),
    parts=st.sampled_from(["1", "5"]),
)
def test_every_row_is_read_once_whatever_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    crashes: list[int],
    grows: list[int],
    rows_max: str,
    start: str,
    parts: str,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    options = {"maxRowsPerTrigger": rows_max, "startingOffsets": start, "minPartitions": parts}
    query = Query(lambda: stream(directory, consumer="c", **options))
    with log_at(directory) as log:
        fill(log, 0, 60)
        written = itertools.count(60, 5)
        for number, at in enumerate(crashes):
            with contextlib.suppress(CrashError):
                grow = lambda: fill(log, next(written), 5)  # noqa: E731
                query.run(batches_count=5, crash=crashing(at, grow))
            for _ in range(grows[number % len(grows)] // 5 if grows else 0):
                fill(log, next(written), 5)
        query.run(batches_count=10_000, crash=no_crash)
        rows = query.rows()
        assert len(rows) == len(set(rows))
        everything = all_rows(log)
        if start != "latest":
            assert rows == everything
        elif rows:  # from where its first batch began, without a hole
            begins = {int(shard): seq for shard, seq in query.ends[0]["b"].items()}
            assert rows == [row for row in everything if row[1] >= begins[row[0]]]
        assert all(len(rows) <= int(rows_max) for rows in query.sink.values())


def test_available_now_reads_what_there_was(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        fill(log, 0, 100)
        before = all_rows(log)
        query = Query(lambda: stream(tmp_path, maxRowsPerTrigger="30"))

        def more(point: str) -> None:
            if point == "after the batch":
                fill(log, 1_000, 10)

        query.run(batches_count=100, crash=more, available_now=True)
        assert query.rows() == before
        assert len(query.done) == 4


def test_a_batch_has_about_so_many_octets(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        fill(log, 0, 2_000, 100)
        total = sum(LogReader(tmp_path).stat(shard).octets_count for shard in range(2))
        query = Query(lambda: stream(tmp_path, maxBytesPerTrigger=str(total // 5)))
        query.run(batches_count=100, crash=no_crash)
        assert query.rows() == all_rows(log)
        assert 5 <= len(query.done) <= 8


def test_one_row_is_read_however_few_octets_are_allowed(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 3)
        query = Query(lambda: stream(tmp_path, maxBytesPerTrigger="1"))
        query.run(batches_count=100, crash=no_crash)
        assert [len(rows) for rows in query.sink.values()] == [1, 1, 1]


def test_limits_are_told_to_spark(tmp_path: Path) -> None:
    assert stream(tmp_path).getDefaultReadLimit() == ReadAllAvailable()
    assert stream(tmp_path, maxRowsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(tmp_path, maxBytesPerTrigger="5").getDefaultReadLimit() == ReadMaxBytes(5)


def test_trigger_once_reads_everything_in_one_batch(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        fill(log, 0, 100)
        reader = stream(tmp_path, maxRowsPerTrigger="10")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert sum(end["s"].values()) == 100


def test_where_a_query_begins(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 100)
        log.commit_consumer("known", {0: 30})
        log_id = str(LogReader(tmp_path).log_id)

        def begins(**options: str) -> int:
            begin: int = stream(tmp_path, **options).initialOffset()["s"]["0"]
            return begin

        assert begins() == 0
        assert begins(startingOffsets="latest") == 100
        assert begins(startingOffsets="committed", consumer="known") == 30
        assert begins(startingOffsets="committed", consumer="new") == 0
        offset = f'{{"v": 1, "log": "{log_id}", "s": {{"0": 42}}}}'
        assert begins(startingOffsets=offset) == 42
        # Rows are a millisecond apart.
        assert begins(startingOffsets="2023-11-14T22:13:20.070Z") in (70, 71)
        assert begins(startingOffsets="now(-1h)") == 100
        assert EPOCH_S == 1_700_000_000


def test_a_place_that_is_not_in_the_log_is_refused(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 10)
        log_id = str(LogReader(tmp_path).log_id)
        past = f'{{"v": 1, "log": "{log_id}", "s": {{"0": 42}}}}'
        with pytest.raises(ConfigError, match="row 42 of shard 0"):
            stream(tmp_path, startingOffsets=past).initialOffset()
        other = past.replace(log_id, "00000000-0000-0000-0000-000000000000")
        with pytest.raises(ConfigError, match="is of log 00000000"):
            stream(tmp_path, startingOffsets=other).initialOffset()


def test_a_consumer_holds_rows_from_the_start_and_follows_the_commits(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 100)
        options = {"consumer": "c", "maxRowsPerTrigger": "40"}
        query = Query(lambda: stream(tmp_path, **options))
        stream(tmp_path, **options).initialOffset()

        def kept() -> object:
            [consumer] = load(log.disk, LogReader(tmp_path).log_id).consumers
            return dict(consumer.offsets)

        assert kept() == {0: 0}
        query.run(batches_count=3, crash=no_crash)
        assert kept() == {0: 80}  # one batch behind, as Spark is


def test_what_was_trimmed_is_an_error_unless_loss_is_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_at(tmp_path, 1, segment_len=4_000) as log:
        fill(log, 0, 100, 10)
    reader = stream(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    worker = stream(tmp_path, failOnDataLoss="false")
    strict = stream(tmp_path)
    [part] = reader.partitions(start, end)
    firsts = sorted(path for path in tmp_path.glob("shard-0000/*.arrows"))
    for path in firsts[:2]:
        path.unlink()
        path.with_suffix(".idx").unlink()
    first = LogReader(tmp_path).bounds(0).first
    assert first > 0
    with pytest.raises(OffsetError, match="was trimmed"):
        strict.latestOffset(start, ReadAllAvailable())
    with pytest.raises(OffsetError, match="was trimmed"):
        strict.partitions(start, end)
    with pytest.raises(OffsetError, match="was trimmed"):
        list(strict.read(part))
    with caplog.at_level(logging.ERROR):
        rows = [seq for batch in worker.read(part) for seq in batch["seq"].to_pylist()]
        [rest] = worker.partitions(start, end)
    assert rows == list(range(first, 100))
    assert isinstance(rest, Range)
    assert (rest.first, rest.end) == (first, 100)
    assert caplog.text.count("data loss") >= 2


def test_a_range_is_the_same_rows_when_it_is_packed(tmp_path: Path) -> None:
    with log_at(tmp_path, 1, segment_len=4_000) as log:
        fill(log, 0, 200, 10)
    reader = stream(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    [part] = reader.partitions(start, end)
    before = [row for batch in reader.read(part) for row in batch.to_pylist()]
    under_way = reader.read(part)
    found = next(under_way).to_pylist()
    assert pack_log(RealDisk(tmp_path, writable=True), "zstd").left == []
    found += [row for batch in under_way for row in batch.to_pylist()]
    after = [row for batch in reader.read(part) for row in batch.to_pylist()]
    fresh = [row for batch in stream(tmp_path).read(part) for row in batch.to_pylist()]
    assert before == found == after == fresh
    assert reader.latestOffset(start, ReadAllAvailable()) == end
    assert len(before) == 200


def test_another_log_is_an_error_unless_it_is_allowed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with log_at(tmp_path / name, 1) as log:
            fill(log, 0, 20)
    old = stream(tmp_path / "old")
    start = old.latestOffset(old.initialOffset(), ReadAllAvailable())
    with pytest.raises(StoreError, match="failOnLogChange"):
        stream(tmp_path / "new").latestOffset(start, ReadAllAvailable())
    lenient = stream(tmp_path / "new", failOnLogChange="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    [part] = lenient.partitions(start, end)
    assert isinstance(part, Range)
    assert (part.first, part.end) == (0, 20)
    assert lenient.partitions(start, start) == []  # a batch of the log that is gone


def test_a_log_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    for name in ("log", "new"):
        with log_at(tmp_path / name, 1) as log:
            fill(log, 0, 20)
    reader = stream(tmp_path / "log")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (tmp_path / "log").rename(tmp_path / "old")
    (tmp_path / "new").rename(tmp_path / "log")
    with pytest.raises(StoreError, match="failOnLogChange"):
        reader.latestOffset(start, ReadAllAvailable())
    assert stream(tmp_path / "log").initialOffset()["log"] != start["log"]


def test_a_log_that_went_back_is_an_error(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 20)
    reader = stream(tmp_path)
    ahead = reader.initialOffset() | {"s": {"0": 25}}
    with pytest.raises(StoreError, match="older state"):
        reader.latestOffset(ahead, ReadAllAvailable())
    with pytest.raises(OffsetError):
        reader.partitions(reader.initialOffset(), ahead)


def test_columns_and_keys(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 40)
    options = {"columns": "seq,payload", "keyexpr": "k/1,k/3"}
    reader = stream(tmp_path, **options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    [part] = reader.partitions(start, end)
    [batch] = reader.read(part)
    assert batch.schema.names == ["seq", "payload"]
    assert batch["seq"].to_pylist() == [seq for seq in range(40) if seq % 8 in (1, 3)]


def test_the_lag_is_told(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 40)
        told = stream(tmp_path).reportLatestOffset()
        assert told is not None
        assert told["s"] == {"0": 40}


_KEY = base64.b64encode(
    b"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n\n"
).decode()


def test_the_pickle_of_a_reader_holds_no_secret(tmp_path: Path) -> None:
    config = tmp_path / "node.json5"
    config.write_text('{"transport": {"auth": {"usrpwd": {"user": "u", "password": "canary"}}}}')
    config.chmod(0o600)
    with log_at(tmp_path / "log", 1) as log:
        fill(log, 0, 10)
    reader = stream(tmp_path / "log", config=str(config))
    reader.initialOffset()
    assert b"canary" not in pickled(reader)
    with pytest.raises(ConfigError, match="holds a secret"):
        stream(tmp_path, connect=f"tls/localhost:7447#connect_private_key_base64={_KEY}")

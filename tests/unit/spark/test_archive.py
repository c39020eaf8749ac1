"""The archive by a fake engine: each row of the log is in the table once, whatever crashes."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from tests.unit.spark.engine import CrashError, Query
from tests.unit.spark.logs import fill, log_at
from tests.unit.spark.test_stream import crashing, no_crash
from tests.unit.store.tables.made import position, stored

from elea.errors import ConfigError, ConflictError, InvalidValueError, StoreError
from elea.keyexpr.match import intersects
from elea.spark.archive_source import ArchiveReader, ArchiveSource
from elea.spark.archiving import Target, archive_local, prepared
from elea.spark.options import Options
from elea.spark.scan import moment, pattern
from elea.store.log.consumers import load
from elea.store.log.reader import LogReader
from elea.store.tables.compaction import compact
from elea.store.tables.files import parts_of
from elea.store.tables.table import FORMATS, open_table


@dataclass
class ArchiveQuery(Query):
    """A query whose sink commits files to a table, and may die there."""

    path: Path = Path()
    die: Callable[[str], None] = field(default=no_crash)

    def keep(self, number: int, batches: list[pa.RecordBatch]) -> None:
        parts = parts_of(row for batch in batches for row in batch.to_pylist())
        self.die("before the commit")
        open_table(self.path).commit("c", parts)
        self.die("after the commit")


class Twice(ArchiveReader):
    """Each task runs twice, as with speculation; the first or the second one counts."""

    def read(self, partition):  # type: ignore[no-untyped-def]
        attempts = [list(super(Twice, self).read(partition)) for _ in range(2)]
        yield from random.Random(partition.first).choice(attempts)


def query(log: Path, table: Path, rows_max: str = "40", **options: str) -> ArchiveQuery:
    given = {"log": str(log), "consumer": "c", "maxRowsPerTrigger": rows_max, **options}
    layout = open_table(table).layout
    return ArchiveQuery(lambda: Twice(Options(given).stream(), layout, "c"), path=table)


@settings(max_examples=10, deadline=None)
@given(
    crashes=st.lists(st.integers(0, 12), max_size=5),
    lost=st.lists(st.booleans(), min_size=5, max_size=5),
    rows_max=st.sampled_from(["17", "40", "1000"]),
    format=st.sampled_from(["delta", "delta", "parquet", "iceberg"]),
    parts=st.sampled_from(["1", "5"]),
)
def test_every_row_is_in_the_table_once_whatever_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    crashes: list[int],
    lost: list[bool],
    rows_max: str,
    format: str,
    parts: str,
) -> None:
    """Also if the checkpoint is lost, and while the table is compacted."""
    root = tmp_path_factory.mktemp("archive")
    table = open_table(root / "table", format)
    with log_at(root / "log") as log:
        fill(log, 0, 60)
        run = query(root / "log", root / "table", rows_max, minPartitions=parts)
        for number, at in enumerate(crashes):
            crash = crashing(at, lambda: None)
            run.die = crash
            with contextlib.suppress(CrashError):
                run.run(batches_count=5, crash=crash)
            if lost[number]:
                run = query(root / "log", root / "table", rows_max, minPartitions=parts)
            fill(log, 60 + number * 20, 20)
            if number == 2:
                list(compact(table))
        run.die = no_crash
        run.run(batches_count=10_000, crash=no_crash)
        assert position(table) == stored(log)
        assert table.ends("c", LogReader(log.disk).log_id) == dict(enumerate(log.ends()))


def test_an_older_driver_loses(tmp_path: Path) -> None:
    """Two drivers with their own checkpoints: the one that is behind stops, nothing is doubled."""
    table = open_table(tmp_path / "table", "delta")
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 100)
        old = query(tmp_path / "log", tmp_path / "table", "30")
        new = query(tmp_path / "log", tmp_path / "table", "45")
        old.run(batches_count=1, crash=no_crash)
        new.run(batches_count=1, crash=no_crash)
        with pytest.raises(ConflictError, match="another one writes as this consumer"):
            old.run(batches_count=3, crash=no_crash)
        new.run(batches_count=100, crash=no_crash)
        assert position(table) == stored(log)


def test_a_batch_of_a_checkpoint_that_was_put_back_adds_nothing(tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", "delta")
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 100)
        run = query(tmp_path / "log", tmp_path / "table")
        run.run(batches_count=100, crash=no_crash)
        run.done.clear()  # the last batch is not known to be done
        run.run(batches_count=1, crash=no_crash)
        assert position(table) == stored(log)
        files = {file.path for file in table.files()}
        on_disk = {str(one.relative_to(tmp_path / "table")) for one in _parquet(tmp_path / "table")}
        # What was written again was taken away; the attempts that did not count wait for vacuum.
        assert files < on_disk
        assert set(table.vacuum(0)) == on_disk - files


def _parquet(table: Path) -> list[Path]:
    return [file for file in table.rglob("*.parquet") if "_delta_log" not in file.parts]


def test_a_keyexpr_archives_those_keys(tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", "delta")
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 80)
        run = query(tmp_path / "log", tmp_path / "table", "20", keyexpr="k/3")
        run.run(batches_count=100, crash=no_crash)
        assert len(position(table)) == 10
        # Ranges without such keys count as done.
        assert table.ends("c", LogReader(log.disk).log_id) == dict(enumerate(log.ends()))


@pytest.mark.parametrize("format", FORMATS)
def test_without_spark(tmp_path: Path, format: str) -> None:
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 100)
        args = (str(tmp_path / "log"), tmp_path / "table", format, "far", None)
        target, options = prepared(*args, {"maxRowsPerTrigger": "40"})
        assert list(archive_local(target, options)) == [40, 40, 20]
        assert list(archive_local(target, options)) == []
        fill(log, 100, 30)
        assert list(archive_local(target, options)) == [30]
        assert position(open_table(tmp_path / "table")) == stored(log)
        [consumer] = load(log.disk, LogReader(log.disk).log_id).consumers
        assert (consumer.name, sum(consumer.offsets.values())) == ("far", 130)


@pytest.mark.parametrize("format", FORMATS)
def test_processes_that_are_killed(tmp_path: Path, format: str) -> None:
    """With signal 9, somewhere in a batch; the next one goes on."""
    command = [sys.executable, "-m", "elea.cli.main", "spark", "archive", "--engine", "local"]
    command += ["--json", "--option", "maxRowsPerTrigger=3", "--format", format]
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 2_000)  # many more batches than are waited for
        for lines_count in (1, 4, 7):
            with subprocess.Popen(
                [*command, str(tmp_path / "log"), str(tmp_path / "table")],
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            ) as process:
                assert process.stdout is not None
                for _ in range(lines_count):
                    assert b"rows" in process.stdout.readline()
                process.kill()
        table = open_table(tmp_path / "table")
        assert len(position(table)) >= 36
        assert position(table) == sorted(set(position(table)))
        target, options = prepared(
            str(tmp_path / "log"), tmp_path / "table", format, "archive", None, None
        )
        list(archive_local(target, options))
        assert position(table) == stored(log)
        table.vacuum(0)
        assert position(table) == stored(log)


def test_a_log_that_is_older_than_the_table_is_told(tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", "parquet")
    with log_at(tmp_path / "log", shards_count=1) as log:
        fill(log, 0, 10)
        target, options = prepared(
            str(tmp_path / "log"), tmp_path / "table", "parquet", "c", None, None
        )
        list(archive_local(target, options))
        part = parts_of(
            [{"log": str(LogReader(log.disk).log_id), "shard": 0, "lo": 10, "hi": 20, "file": None}]
        )
        table.commit("c", part)
        with pytest.raises(StoreError, match="it is older"):
            list(archive_local(target, options))


def test_options_are_checked_where_an_archive_is_made(tmp_path: Path) -> None:
    def make(**options: str) -> tuple[Target, dict[str, str]]:
        return prepared("log", tmp_path / "t", "delta", "c", None, options)

    with pytest.raises(ConfigError, match="option columns: is not for an archive"):
        make(columns="key")
    with pytest.raises(ConfigError, match="did you mean startingOffsets"):
        make(startingOffset="x")
    with pytest.raises(ConfigError, match="legal are delta, iceberg, parquet"):
        prepared("log", tmp_path / "t", "orc", "c", None, None)
    assert not (tmp_path / "t").exists()


def test_the_source_travels(tmp_path: Path) -> None:
    target, options = prepared("log", tmp_path / "t", "delta", "c", {"one": "k/1"}, None)
    source = ArchiveSource(options | {"Archive": target.to_json()})
    assert source.schema().startswith("log STRING")
    reader = source.streamReader(StructType())
    assert isinstance(reader, ArchiveReader)
    assert reader._layout == open_table(tmp_path / "t").layout


CHUNKS = ["a", "ab", "b", "*", "**", "a$*", "$*b", "a$*b", "@v", "x.y", "é"]
KEYS = ["a", "ab", "b", "aXb", "@v", "@", "x.y", "xzy", "é", "@ab"]


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=4),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=4),
)
def test_patterns_match_what_key_expressions_do(chunks: list[str], key_chunks: list[str]) -> None:
    canonical = "/".join(
        chunk for at, chunk in enumerate(chunks) if (chunk, chunks[at - 1 : at]) != ("**", ["**"])
    )
    while (
        "**/*" in canonical and "**/**" not in canonical and re.search(r"\*\*/\*(?!\*)", canonical)
    ):
        canonical = re.sub(r"\*\*/\*(?!\*)", "*/**", canonical)
    key = "/".join(key_chunks)
    assert bool(re.fullmatch(pattern(canonical), key)) == intersects(canonical, key)


def test_moments() -> None:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    assert moment(at) == moment("2026-11-15T00:00:00Z")
    with pytest.raises(InvalidValueError, match="no time zone"):
        moment(datetime(2026, 11, 15))
    with pytest.raises(InvalidValueError, match="saw 'yesterday'"):
        moment("yesterday")

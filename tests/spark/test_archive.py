"""The archive and its tables in a real Spark: files from tasks, restarts, native scans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.unit.spark.logs import fill, log_at
from tests.unit.store.tables.made import position, stored

import elea.spark
from elea.spark import archiving
from elea.store.log.log import Log
from elea.store.tables.compaction import compact
from elea.store.tables.table import FORMATS, open_table


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Log, str]]:
    with log_at(tmp_path / "log") as made:
        yield made, str(tmp_path / "log")


def run(archive: archiving.Archive, checkpoint: str | None = None) -> None:
    query = archive.start(trigger="once", checkpoint=checkpoint)
    try:
        query.awaitTermination()
    finally:
        query.stop()


def test_a_log_becomes_a_table(spark: SparkSession, log: tuple[Log, str], tmp_path: Path) -> None:
    fill(log[0], 0, 100)
    path = tmp_path / "table"
    options = {"maxRowsPerTrigger": "60"}
    archive = elea.spark.archive(spark, log=log[1], table=path, options=options)
    run(archive)
    table = open_table(path)
    assert position(table) == stored(log[0])
    list(compact(table))
    fill(log[0], 100, 50)
    run(archive, str(tmp_path / "new"))  # the checkpoint is lost: from where the table ends
    assert position(table) == stored(log[0])


@pytest.mark.parametrize("format", FORMATS)
def test_everybody_reads_a_table(
    spark: SparkSession, log: tuple[Log, str], tmp_path: Path, format: str
) -> None:
    path = tmp_path / "table"
    target, options = archiving.prepared(log[1], path, format, "c", None, None)
    table = open_table(path)
    for first, count in ((0, 150), (150, 10)):
        fill(log[0], first, count)
        list(archiving.archive_local(target, options))
        if not first:
            list(compact(table))
    frame = elea.spark.table(spark, path)
    assert frame.count() == 160
    assert dict(frame.dtypes)["date"] == "date"
    [row] = frame.where("sn = 7").collect()
    assert (row.key, bytes(row.payload)[:2], str(row.date)) == ("k/7", b"7:", "2023-11-14")
    since, until = "2023-11-14T22:13:20.050Z", "2023-11-14T22:13:20.150Z"
    found = elea.spark.table(spark, path, keyexpr="k/$*3", since=since, until=until)
    assert sorted(row.sn for row in found.select("sn").collect()) == list(range(51, 150, 8))
    assert elea.spark.table(spark, path, keyexpr="none/**").count() == 0
    # Others need the list of files only.
    files = [str(path / file.path) for file in table.files("k/3")]
    query = "SELECT count(*), count(DISTINCT (log, shard, seq)) FROM read_parquet(?) WHERE key = ?"
    assert duckdb.execute(query, [files, "k/3"]).fetchone() == (20, 20)


def test_an_older_version_is_read(
    spark: SparkSession, log: tuple[Log, str], tmp_path: Path
) -> None:
    """As docs/howto/time-travel.md says."""
    path = tmp_path / "table"
    target, options = archiving.prepared(log[1], path, "delta", "c", None, None)
    versions = []
    for first, count in ((0, 30), (30, 20)):
        fill(log[0], first, count)
        list(archiving.archive_local(target, options))
        versions.append(DeltaTable(path).version())
    for version, rows_count in zip(versions, (30, 50), strict=True):
        then = DeltaTable(path, version=version)
        frame = spark.read.option("basePath", str(path)).parquet(*then.file_uris())
        assert frame.count() == rows_count
        assert "date" in frame.columns


def test_a_commit_that_failed_is_done_again_once(
    spark: SparkSession,
    log: tuple[Log, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dies between the table and Spark's own note of it: the batch runs again, and adds nothing."""
    fill(log[0], 0, 100)
    archive = elea.spark.archive(spark, log=log[1], table=tmp_path / "table")
    taken = archiving._Committer.__call__

    def dies(self: archiving._Committer, *args: object) -> None:
        taken(self, *args)  # type: ignore[arg-type]
        raise RuntimeError("killed here")

    monkeypatch.setattr(archiving._Committer, "__call__", dies)
    with pytest.raises(StreamingQueryException, match="killed here"):
        run(archive)
    monkeypatch.undo()
    table = open_table(tmp_path / "table")
    assert position(table) == stored(log[0])
    fill(log[0], 100, 20)
    run(archive)
    assert position(table) == stored(log[0])
    files = duckdb.execute(
        "SELECT count(*) FROM read_parquet(?)", [str(tmp_path / "table" / "date=*" / "*.parquet")]
    )
    assert files.fetchone() == (120,)  # what was written again is gone

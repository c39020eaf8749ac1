"""Rebuild: make rows of a table of the log anew, of a span of time, from what was kept.

The rows that the table has of that time go, those that the archive gives take their place, in one
step. What lands meanwhile is not touched: only rows before the place that the table had reached at
the beginning are made anew. So a schema that is right now is applied to what was decoded before it,
and rows that were bad become good, and none is there twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from elea.errors import ConfigError, StoreError
from elea.spark.options import Options
from elea.spark.pipelines.definition import BAD, Archive, Decoded, Pipeline
from elea.spark.pipelines.landing import Place, drift_of, prepare
from elea.spark.pipelines.silver import BAD_COLUMNS, Silver
from elea.spark.rows import place_of
from elea.store.log.ranges import ALL_TIME, Span, in_time
from elea.store.log.ranges import COLUMNS as LOG_COLUMNS
from elea.store.tables.files import DataFile
from elea.store.tables.layout import (
    COLUMNS,
    RowWriter,
    partitioned,
    with_dictionaries,
)
from elea.store.tables.source import TableSource
from elea.store.tables.table import Table, format_of

_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a table: rows that went, and that came."""

    table: str
    removed_count: int
    added_count: int


def rebuild(pipeline: Pipeline, name: str, span: Span = ALL_TIME) -> list[Rebuilt]:
    """Make rows of a table anew; also those of its table of bad rows.

    Args:
        span: From a time on and before another, as the 64 bits of timestamps.

    Raises:
        ConfigError: it is no table of the log.
        StoreError: there is nothing to make it of, or it was compacted meanwhile: try again.
    """
    table = pipeline.table(name)
    if not isinstance(table, (Archive, Decoded)):
        raise ConfigError(name, "is not made of the log")
    if span[0] >= span[1]:
        raise ConfigError(name, "the range ends before it begins")
    place = Place.of(pipeline)
    prepare(place, [table])
    # First of all: what lands from now on is not of this.
    ends = _Ends(place.open(name), place.consumer)
    if isinstance(table, Archive):
        return [_Rebuild(place, name, COLUMNS, ends, span).done(_rows(pipeline, table, span))]
    silver = Silver(table, drift_of(place, name))
    good = _Rebuild(place, name, silver.columns, ends, span)
    bad = _Rebuild(place, name + BAD, BAD_COLUMNS, ends, span)
    try:
        for batch in _rows(pipeline, table, span):
            found = silver.split(silver.wanted(ends.before(batch)))
            good.add(found.good)
            if found.bad is not None:
                bad.add(found.bad)
    except BaseException:
        good.abandon()
        bad.abandon()
        raise
    return [bad.done(iter(())), good.done(iter(()))]


class _Ends:
    """How far a table had the logs at the beginning."""

    def __init__(self, table: Table, consumer: str) -> None:
        self._table, self._consumer = table, consumer
        self._known: dict[str, Mapping[int, int]] = {}

    def before(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the table had reached."""
        mask = self.mask(batch)
        return batch if pc.all(mask).as_py() else batch.filter(mask)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Which of the rows it had reached."""
        logs = batch.column("log").cast(pa.string())
        found = pa.repeat(pa.scalar(False), batch.num_rows)
        for log in pc.unique(logs).to_pylist():
            for shard, end in self._of(log).items():
                here = pc.and_(pc.equal(logs, log), pc.equal(batch.column("shard"), shard))
                found = pc.or_(found, pc.and_(here, pc.less(batch.column("seq"), end)))
        return found

    def _of(self, log: str) -> Mapping[int, int]:
        if log not in self._known:
            self._known[log] = self._table.ends(self._consumer, UUID(log))
        return self._known[log]


class _Rebuild:
    """The new files of one table."""

    def __init__(
        self, place: Place, name: str, columns: pa.Schema, ends: _Ends, span: Span
    ) -> None:
        self._name, self._ends, self._span = name, ends, span
        self._table = None if format_of(place.path(name)) is None else place.open(name, columns)
        self._place, self._columns = place, columns
        layout = place.layout(name)
        self._layout = layout
        file = f"rebuilt-{secrets.token_hex(4)}"
        schema = layout.schema_of(columns)
        self._writer = RowWriter(layout, file, schema)
        self._written = with_dictionaries(pa.schema([schema.field(name) for name in columns.names]))
        self._added_count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that come."""
        self._added_count += rows.num_rows
        for day, bucket, some in partitioned(rows, self._layout.buckets):
            self._writer.add(day, bucket, self._shaped(some))

    def _shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of files and rows of a log are written together."""
        columns = [rows.column(one.name).cast(one.type) for one in self._written]
        return pa.RecordBatch.from_arrays(columns, schema=self._written)

    def done(self, rows: Iterator[pa.RecordBatch]) -> Rebuilt:
        """Put them in place of those that there are."""
        try:
            for batch in rows:
                self.add(self._ends.before(batch))
            old, removed_count = self._kept()
            new = self._writer.finish()
        except BaseException:
            self.abandon()
            raise
        if old or new:
            table = self._table or self._place.open(self._name, self._columns)
            try:
                table.replace(old, new)
            except StoreError:
                table.discard_unlisted(new)
                raise
        return Rebuilt(self._name, removed_count, self._added_count)

    def abandon(self) -> None:
        """Take away what was written."""
        self._writer.abandon()

    def _kept(self) -> tuple[list[DataFile], int]:
        """Files that have rows of that time, whose other rows are written again; rows that go."""
        if self._table is None:
            return [], 0
        old, removed_count = [], 0
        for file in self._table.files("**", *self._span):
            path = str(Path(self._layout.root) / file.path)
            schema = self._layout.schema_of(self._columns)
            rows = ds.dataset([path], schema=schema, format="parquet")
            gone = 0
            kept: list[pa.RecordBatch] = []
            for batch in rows.to_batches(batch_size=_ROWS):
                mask = pc.and_(self._ends.mask(batch), in_time(batch, self._span))
                gone += pc.sum(mask).as_py() or 0
                kept.append(batch.filter(pc.invert(mask)))
            if not gone:
                continue
            old.append(file)
            removed_count += gone
            for batch in kept:
                if batch.num_rows:
                    self._writer.add(file.date, file.bucket, self._shaped(batch))
        return old, removed_count


def _rows(pipeline: Pipeline, table: Archive | Decoded, span: Span) -> Iterator[pa.RecordBatch]:
    """Rows of a span of time, with their log: of an archive that has all, else of the log."""
    if isinstance(table, Decoded):
        for one in pipeline.landed:
            path = pipeline.path(one.name)
            if isinstance(one, Archive) and not one.key_exprs and format_of(path) is not None:
                expr = table.key_exprs[0] if len(table.key_exprs) == 1 else "**"
                found = TableSource(path).select(expr, *span)
                yield from (batch for batch in found if batch.num_rows)
                return
    options = Options({"log": pipeline.log, **pipeline.reach()})
    place = place_of(options.stream().source)
    for shard, bounds in enumerate(place.bounds()):
        found = place.read(shard, bounds.first, bounds.end, LOG_COLUMNS, table.key_exprs, span)
        for _, _, batch in found:
            if batch.num_rows:
                log = pa.repeat(pa.scalar(str(place.log_id)), batch.num_rows)
                yield batch.append_column("log", log.dictionary_encode())

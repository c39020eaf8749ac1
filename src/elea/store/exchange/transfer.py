"""A log to a file, a file to a log: row by row in bounded memory, and nothing half.

A file is written under another name and gets its own when it is whole. A log that is made of a file
is made in another directory, likewise. A file that is appended to a log is read twice: first to see
that all of it can be kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from elea.atomic_file import PARTIAL, replacing, sync
from elea.errors import ExchangeError, InvalidValueError, MissingDependencyError, StoreError
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.exchange.rows import Progress, Tell
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Stored
from elea.store.replay.merge import Choice, Merge, chosen


class RowSink(Protocol):
    """Writes rows in some format to a stream."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> None: ...


Reading = Callable[[Path, Tell], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are exported, and what of them."""

    key_expr: str = "**"
    since_ns: int | None = None
    until_ns: int | None = None  # included
    columns: Sequence[str] = tuple(SCHEMA.names)
    by_reception: bool = False  # the order of MCAP; else by timestamps

    def __post_init__(self) -> None:
        KeyExpr(self.key_expr)
        unknown = [name for name in self.columns if name not in SCHEMA.names]
        if unknown or not self.columns:
            reason = f"saw {', '.join(unknown) or 'none'}; legal are {', '.join(SCHEMA.names)}"
            raise InvalidValueError("columns", reason)


def export_to(
    reader: LogReader,
    stream: BinaryIO,
    format: str,
    selection: Selection | None = None,
    progress: Progress | None = None,
    sink: RowSink | None = None,
) -> int:
    """Write rows of a log to a stream; how many.

    Args:
        sink: What writes them, in place of the one for the format.

    Raises:
        ExchangeError: the format cannot hold them.
        MissingDependencyError: it needs a package that is not there.
    """
    selection = selection or Selection()
    schema = SCHEMA
    if format == "parquet" and tuple(selection.columns) == tuple(SCHEMA.names):
        schema = reader.schema()  # with what a later release added
    if format == "mcap" and len(selection.columns) < len(SCHEMA.names):
        raise InvalidValueError("columns", "MCAP holds whole rows; choose columns in other formats")
    sink = sink or sink_of(format, stream, selection.columns, schema)
    count = 0
    for batch in _selected(reader, format, selection, schema):
        sink.write(batch)
        count += batch.num_rows
        if progress is not None:
            progress(count)
    sink.finish()
    return count


def export_file(
    reader: LogReader,
    path: Path,
    format: str,
    selection: Selection | None = None,
    progress: Progress | None = None,
    *,
    replace: bool = False,
    make_sink: Callable[[BinaryIO], RowSink] | None = None,
) -> int:
    """Write rows of a log to a file, which is there when it is whole; how many.

    Args:
        make_sink: Makes what writes them, in place of the one for the format.

    Raises:
        ExchangeError: there is a file of that name, and it may not be replaced; or as `export_to`.
    """
    if path.exists() and not replace:
        raise ExchangeError(str(path), "it exists; choose another name, or say to replace it")
    with replacing(path) as partial, partial.open("wb") as stream:
        sink = None if make_sink is None else make_sink(stream)
        return export_to(reader, stream, format, selection, progress, sink)


def import_file(
    path: Path,
    directory: Path,
    format: str,
    *,
    append: bool = False,
    settings: LogSettings | None = None,
    tell: Tell = lambda _: None,
    progress: Progress | None = None,
    reading: Reading | None = None,
) -> int:
    """Make a log of a file, or append the file to a log; how many rows.

    Raises:
        ExchangeError: the file cannot be read, with the place in it; nothing of it is kept.
        StoreError: there is something in the directory, or it cannot be written.
        MissingDependencyError: the format needs a package that is not there.
    """
    reading = reading or reading_of(format)
    if append:
        for _ in reading(path, tell):  # raises before anything is kept
            pass
        LogReader(directory)  # there has to be one
        with Log(directory) as log:
            return _append(log, reading(path, lambda _: None), progress)
    with _new_directory(directory) as partial, Log(partial, settings) as log:
        return _append(log, reading(path, tell), progress)


def _append(log: Log, batches: Iterator[pa.RecordBatch], progress: Progress | None) -> int:
    count = 0
    before: Future[Stored] | None = None
    for batch in batches:
        appended = log.append(batch)
        if before is not None:
            before.result()  # one is being written while the next one is read
        before = appended
        count += batch.num_rows
        if progress is not None:
            progress(count)
    if before is not None:
        before.result()
    return count


@contextmanager
def _new_directory(directory: Path) -> Iterator[Path]:
    """A directory that gets its name at the end, if all went well."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise StoreError(
            f"{directory} is not empty; append to it (--append), or name another directory"
        )
    partial = directory.with_name(directory.name + PARTIAL)
    if partial.exists():
        raise StoreError(f"{partial} is there: an import runs, or was interrupted; then remove it")
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync(directory.parent)


def _selected(
    reader: LogReader, format: str, selection: Selection, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    choice = Choice(
        (selection.key_expr,),
        since_ns=selection.since_ns,
        until_ns=selection.until_ns,
        by_reception=selection.by_reception,
    )
    if format == "mcap":  # its viewers look for a span of time in the file: keep each together
        for run in Merge([reader], choice):
            yield run.batch
        return
    for shard in range(reader.shards_count):
        yield from chosen(reader, shard, choice, schema.names if schema is not SCHEMA else None)


def sink_of(
    format: str,
    stream: BinaryIO,
    columns: Sequence[str] = SCHEMA.names,
    schema: pa.Schema = SCHEMA,
) -> RowSink:
    """What writes a format to a stream.

    Args:
        schema: Of the rows; Parquet holds what a later release added to `SCHEMA`, too.
    """
    if format == "parquet":
        from elea.store.exchange.parquet_file import ParquetRows

        added = [name for name in schema.names if name not in SCHEMA.names]
        return ParquetRows(stream, [*columns, *added], schema)
    if format == "csv":
        from elea.store.exchange.csv_file import CsvRows

        return CsvRows(stream, columns)
    if format == "jsonl":
        from elea.store.exchange.jsonl_file import JsonlRows

        return JsonlRows(stream, columns)
    try:
        from elea.store.exchange.mcap_file import McapRows
    except ModuleNotFoundError as error:
        raise MissingDependencyError("MCAP", "mcap") from error
    return McapRows(stream, columns)


def reading_of(format: str) -> Reading:
    """What reads a format from a file."""
    if format == "parquet":
        from elea.store.exchange.parquet_file import read_parquet

        return read_parquet
    if format == "jsonl":
        from elea.store.exchange.jsonl_file import read_jsonl

        return read_jsonl
    try:
        from elea.store.exchange.mcap_file import read_mcap
    except ModuleNotFoundError as error:
        raise MissingDependencyError("MCAP", "mcap") from error
    return read_mcap

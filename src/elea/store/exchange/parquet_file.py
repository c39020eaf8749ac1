"""Parquet: the columns of the log as they are; what is written is read back the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from elea.errors import ExchangeError
from elea.store.exchange.rows import (
    DEFAULTS,
    NEEDED,
    ROWS_COUNT,
    ROWS_LEN,
    Tell,
    checked_rows,
)
from elea.store.log.schema import POSITION, SCHEMA, TEXTS

_GROUP_ROWS_COUNT: Final = 131_072  # rows of a row group: what a reader decompresses at once
_GROUP_LEN: Final = 64 * 1024 * 1024  # and its octets, which stay in memory until it is written


class ParquetRows:
    """Writes rows as Parquet, compressed with zstd."""

    def __init__(
        self, stream: BinaryIO, columns: Sequence[str], schema: pa.Schema = SCHEMA
    ) -> None:
        fields = [schema.field(name) for name in columns]
        # Texts are dictionaries in the file anyway; plain ones are what every reader knows.
        self._schema = pa.schema(
            [
                pa.field(one.name, pa.string() if one.type == TEXTS else one.type, one.nullable)
                for one in fields
            ]
        )
        self._writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._held_count = self._held_len = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        arrays = [
            batch.column(field.name).cast(field.type)
            if batch.schema.field(field.name).type == TEXTS
            else batch.column(field.name)
            for field in self._schema
        ]
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._held_count += batch.num_rows
        self._held_len += self._held[-1].nbytes
        if self._held_count >= _GROUP_ROWS_COUNT or self._held_len >= _GROUP_LEN:
            self._flush()

    def finish(self) -> None:
        """Write what is left, and the end."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, self._schema)
            self._writer.write_table(table, row_group_size=self._held_count)
        self._held, self._held_count, self._held_len = [], 0, 0


def read_parquet(path: Path, tell: Tell) -> Iterator[pa.RecordBatch]:
    """The rows of a file, checked.

    Raises:
        ExchangeError: it is no Parquet, lacks a column, or a value cannot be kept.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            known = _known_columns(path, file.schema_arrow, tell)
            first = 0
            for batch in file.iter_batches(_rows_at_once(file), columns=known):
                yield checked_rows(_as_rows(path, batch, first), partial(_place, path, first))
                first += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = str(error).partition("\n")[0]
        raise ExchangeError(str(path), f"it cannot be read as Parquet: {reason}") from error


def _place(path: Path, first: int, row: int) -> str:
    return f"{path}: row {first + row}"


def _rows_at_once(file: pq.ParquetFile) -> int:
    """So many that they take about as much memory as other rows on their way."""
    metadata = file.metadata
    total_len: int = sum(
        metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
    )
    rows_count: int = metadata.num_rows
    row_len = max(total_len // max(rows_count, 1), 1)
    return max(min(ROWS_LEN // row_len, ROWS_COUNT), 1)


def _known_columns(path: Path, schema: pa.Schema, tell: Tell) -> list[str]:
    for name in NEEDED:
        if name not in schema.names:
            reason = f"saw no column {name}; needed are {', '.join(NEEDED)}"
            raise ExchangeError(str(path), reason)
    position = [field.name for field in POSITION]
    others = [name for name in schema.names if name not in SCHEMA.names and name not in position]
    if others:
        tell(f"{path}: columns that a log has not are left out: {', '.join(others)}")
    return [name for name in schema.names if name in SCHEMA.names]


def _as_rows(path: Path, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Columns in the types of the log; those that are missing, by their defaults."""
    found: dict[str, pa.Array] = {}
    count = batch.num_rows
    for field in SCHEMA:
        if field.name not in batch.schema.names:
            if field.name in DEFAULTS:
                column = pa.repeat(pa.scalar(DEFAULTS[field.name]), count)
            else:
                column = pa.nulls(count)
        else:
            column = batch.column(field.name)
        found[field.name] = column
    if "recv_ts" not in batch.schema.names:
        found["recv_ts"] = found["ts"]
    arrays = []
    for field in SCHEMA:
        column = found[field.name]
        try:
            if field.type == TEXTS:
                arrays.append(column.cast(pa.string()).dictionary_encode())
            else:
                arrays.append(column.cast(field.type))
        except pa.ArrowException as error:
            reason = f"column {field.name} is {column.type}, which is no {field.type}: {error}"
            raise ExchangeError(f"{path}: row {first} and after", reason) from error
        if column.null_count and not field.nullable:
            row = first + pc.index(column.is_null(), True).as_py()
            reason = f"saw no {field.name}; every row has one"
            if field.name == "recv_ts":
                reason += ": give a column recv_ts, or ts"
            raise ExchangeError(f"{path}: row {row}", reason)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

"""Ranges of a shard: rows of some columns and keys, where a time begins, what so many octets hold.

For those who hand ranges to others: the server of a log, and Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import InvalidValueError
from elea.keyexpr.match import intersects
from elea.store.log.index import NEEDED
from elea.store.log.reader import LogReader
from elea.store.log.schema import POSITION, SCHEMA, times

Span = tuple[int, int]  # of timestamps as 64 bits, without the last
ALL_TIME: Final[Span] = (0, 2**64)
COLUMNS: Final = (*SCHEMA.names, *(field.name for field in POSITION))


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that rows have.

    Raises:
        InvalidValueError: there is another, one is there twice, or there is none.
    """
    wrong = [name for name in columns if name not in COLUMNS]
    if wrong or not columns or len(set(columns)) != len(columns):
        seen = ", ".join(columns) or "none"
        legal = f"legal are {', '.join(COLUMNS)}, each once"
        raise InvalidValueError("columns of rows", f"saw {seen}; {legal}")
    return tuple(columns)


def needed_of(columns: Sequence[str], key_exprs: Sequence[str]) -> list[str]:
    """The columns of `SCHEMA` that have to be read to give these, of the keys of these."""
    needed = [name for name in columns if name in SCHEMA.names]
    if key_exprs and "key" not in needed:
        needed.append("key")
    return needed or ["kind"]  # Arrow reads all of them if none is named


def rows_of(
    reader: LogReader,
    shard: int,
    first: int,
    end: int,
    columns: Sequence[str],
    key_exprs: Sequence[str] = (),
    span: Span = ALL_TIME,
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Rows of a range with the numbers they are from and to, in order.

    Args:
        columns: Of `COLUMNS`, as they are wanted.
        key_exprs: Rows of keys that one of these matches, only; all rows if there is none.
        span: Rows of this time only; blocks that have none are not read.

    Raises:
        OffsetError: they were trimmed, or are not written yet.
        CorruptLogError: they are damaged, and the reader does not pass that.
    """
    needed = needed_of(columns, key_exprs)
    if span != ALL_TIME:
        needed = list(dict.fromkeys([*needed, *NEEDED]))
    for start, stop in _runs(reader, shard, first, end, span):
        for batch in reader.read(shard, start, stop, columns=needed, position=True):
            low: int = batch.column("seq")[0].as_py()
            high = low + batch.num_rows
            found = of_time(of_keys(batch, key_exprs), span)
            yield low, high, found.select(list(columns))


def _runs(
    reader: LogReader, shard: int, first: int, end: int, span: Span
) -> Iterator[tuple[int, int]]:
    """The parts of a range that may have rows of a time."""
    if span == ALL_TIME:
        yield first, end
        return
    start = stop = first
    for _, record in reader.blocks(shard, first, end):
        if record.time_max < span[0] or record.time_min >= span[1]:
            continue
        if record.first_seq > stop:
            if stop > start:
                yield start, stop
            start = record.first_seq
        stop = min(record.end_seq, end)
    if stop > start:
        yield start, stop


def of_time(batch: pa.RecordBatch, span: Span) -> pa.RecordBatch:
    """The rows of a span of time."""
    if span == ALL_TIME or not batch.num_rows:
        return batch
    return batch.filter(in_time(batch, span))


def in_time(batch: pa.RecordBatch, span: Span) -> pa.Array:
    """Which rows are of a span of time."""
    stamps = times(batch)
    low = pc.greater_equal(stamps, pa.scalar(span[0], pa.uint64()))
    high = pc.less_equal(stamps, pa.scalar(min(span[1], 2**64) - 1, pa.uint64()))
    return pc.and_(low, high)


def of_keys(batch: pa.RecordBatch, key_exprs: Sequence[str]) -> pa.RecordBatch:
    """The rows whose key one of these expressions matches; all of them if there is none."""
    if not key_exprs:
        return batch
    keys = batch.column("key")
    wanted = [
        any(intersects(expr, key) for expr in key_exprs) for key in keys.dictionary.to_pylist()
    ]
    if all(wanted):
        return batch
    if not any(wanted):
        return batch.slice(0, 0)
    return batch.filter(pa.array(wanted).take(keys.indices))


def block_start(reader: LogReader, shard: int, seq: int) -> int:
    """The first row from a number on that begins a block, or that is lost.

    Raises:
        OffsetError: it was trimmed, or is not written yet.
    """
    for _, record in reader.blocks(shard, seq, seq + 1):
        if record.first_seq < seq:
            return record.end_seq
    return seq


def seek(reader: LogReader, shard: int, time: int) -> int:
    """The first row of a shard that is not before a time, the 64 bits of a timestamp.

    Rows are in the order they were received, so rows after it may be older.
    """
    bounds = reader.bounds(shard)
    for segment, record in reader.blocks(shard, bounds.first, bounds.end):
        if record.time_max < time:
            continue
        stamps = times(segment.rows(record, NEEDED))
        late = pc.greater_equal(stamps, pa.scalar(time, pa.uint64()))
        place: int = pc.index(late, True).as_py()
        return record.first_seq + place
    return bounds.end


def cut(reader: LogReader, shard: int, first: int, end: int, octets_count: int) -> int:
    """Where a range from `first` on ends that has so many octets on disk; one row at least."""
    left = octets_count
    for _, record in reader.blocks(shard, first, end):
        inside = min(record.end_seq, end) - max(record.first_seq, first)
        length = record.length * inside // record.rows_count
        if length > left:
            start = max(record.first_seq, first)
            return max(start + left * record.rows_count // record.length, first + 1)
        left -= length
    return end

"""From a range to the batches that Spark gets: the same rows each time, or an error."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Final, Protocol
from uuid import UUID

import pyarrow as pa

from elea.errors import OffsetError, StoreError
from elea.spark.options import Source
from elea.spark.places import Place, Rows, open_place
from elea.spark.schema import arrow_schema, plain_rows
from elea.spark.tasks import settle
from elea.store.log.ranges import ALL_TIME, Span

_LOG: Final = logging.getLogger("elea.spark")
_GATHER_ROWS: Final = 4_096  # smaller batches are joined: each costs as much as some hundred rows
_PLACES_COUNT: Final = 8  # logs of one process that stay open
_PLACES: Final[dict[tuple[int, Source], Place]] = {}
_OPENING: Final = threading.Lock()


class Plan(Protocol):
    """What is to be decoded: made on the driver, travels to where rows are read."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a log's rows that it has to be given."""

    def sql_schema(self) -> str:
        """The columns of the rows that come out, for Spark."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with columns in place of payloads."""


def place_of(source: Source, log_id: UUID | None = None) -> Place:
    """The log of this process's tasks; opened anew if it is not the one that is meant."""
    settle()
    key = (os.getpid(), source)
    with _OPENING:
        place = _PLACES.pop(key, None)
        if place is None or not place.is_current() or log_id not in (None, place.log_id):
            place = open_place(source)
        _PLACES[key] = place
        while len(_PLACES) > _PLACES_COUNT:
            del _PLACES[next(iter(_PLACES))]
    if log_id is not None and place.log_id != log_id:
        raise StoreError(f"rows of log {log_id} are wanted; here is log {place.log_id}")
    return place


def raw_range(
    source: Source, log_id: UUID, shard: int, first: int, end: int
) -> Iterator[pa.RecordBatch]:
    """The rows `first` to before `end` of a shard, as the log has them; raises as `read_range`."""
    place = place_of(source, log_id)
    return _whole(place, source, shard, first, end, source.columns, ALL_TIME)


def read_range(
    source: Source,
    log_id: UUID,
    shard: int,
    first: int,
    end: int,
    *,
    span: Span = ALL_TIME,
    plan: Plan | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows `first` to before `end` of a shard, as Spark takes them.

    Raises:
        OffsetError: they were trimmed.
        StoreError: they are damaged, or it is another log.
    """
    place = place_of(source, log_id)
    columns = source.columns if plan is None else plan.columns
    schema = arrow_schema(columns)
    found = _whole(place, source, shard, first, end, columns, span)
    for batch in _gathered(found):
        rows = plain_rows(batch, schema)
        yield rows if plan is None else plan.rows(rows)


def _whole(
    place: Place,
    source: Source,
    shard: int,
    first: int,
    end: int,
    columns: tuple[str, ...],
    span: Span,
) -> Iterator[pa.RecordBatch]:
    """Each row of a range once, unless loss is allowed."""
    at = first
    while at < end:
        try:
            for low, high, batch in _checked(place, source, shard, at, end, columns, span):
                assert low >= at
                at = high
                if batch.num_rows:
                    yield batch
            return
        except OffsetError as error:
            if source.fail_on_data_loss or error.offset >= error.first:
                raise
            _LOG.error("data loss: rows %d to %d of shard %d", at, error.first - 1, shard)
            at = max(at, error.first)


def _checked(
    place: Place,
    source: Source,
    shard: int,
    first: int,
    end: int,
    columns: tuple[str, ...],
    span: Span,
) -> Rows:
    at = first
    is_strict = source.fail_on_data_loss and span == ALL_TIME
    for low, high, batch in place.read(shard, first, end, columns, source.key_exprs, span):
        if is_strict and low != at:
            raise StoreError(f"rows {at} to {low - 1} of shard {shard} are missing")
        yield low, high, batch
        at = high
    if is_strict and at != end:
        raise StoreError(f"rows {at} to {end - 1} of shard {shard} are missing")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, small batches joined."""
    small: list[pa.RecordBatch] = []
    rows_count = 0
    for batch in batches:
        if batch.num_rows >= _GATHER_ROWS and not small:
            yield batch
            continue
        small.append(batch)
        rows_count += batch.num_rows
        if rows_count >= _GATHER_ROWS:
            yield _joined(small)
            small, rows_count = [], 0
    if small:
        yield _joined(small)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    plain = [plain_rows(batch, arrow_schema(batch.schema.names)) for batch in batches]
    table = pa.Table.from_batches(plain).combine_chunks()
    [joined] = table.to_batches()
    return joined

"""`readStream`: micro-batches over a log.

Spark calls, for each batch, `latestOffset`, writes what it said, then `partitions` and `read` for
that range, and much later `commit`. After a crash it asks for the same range again, and a range of
a log is always the same rows. A reader exists more than once: one answers Spark on the driver,
copies of another read on executors. So it holds options, and finds its log when it is asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, NoReturn
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from elea import crash
from elea.errors import EleaError, OffsetError, StoreError
from elea.spark.offsets import Offset, cut, shared
from elea.spark.options import Stream
from elea.spark.places import Place, check_reached
from elea.spark.rows import Plan, place_of, read_range
from elea.spark.starts import initial
from elea.spark.tasks import end_quietly, rows_told_briefly, told_briefly
from elea.store.log.reader import Bounds

_LOG: Final = logging.getLogger("elea.spark")
_WAIT_S: Final = 0.05  # for rows, when there are none: Spark would ask again at once
_POLL_S: Final = 0.01


class Range(InputPartition):
    """Rows of one shard, for one task."""

    def __init__(self, log_id: UUID, shard: int, first: int, end: int) -> None:
        super().__init__((shard, first, end))
        self.log_id = log_id
        self.shard = shard
        self.first = first
        self.end = end


class RefusedReader(DataSourceStreamReader):
    """A stream whose options are wrong: the first question of Spark raises what is wrong."""

    def __init__(self, error: EleaError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._raise()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._raise()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        self._raise()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._raise()

    @told_briefly
    def _raise(self) -> NoReturn:
        raise self._error


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A log as a stream."""

    def __init__(self, options: Stream, plan: Plan | None = None) -> None:
        end_quietly()
        self._options = options
        self._plan = plan
        self._last: dict[int, int] | None = None  # with AvailableNow: where to stop
        self._first: dict[str, Any] | None = None  # where the query begins, if it is new

    @told_briefly
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without checkpoint begins; from now on rows are kept for its consumer."""
        check_reached(self._options.source)
        place = self._place()
        offset = Offset(place.log_id, self._initial(place))
        if self._options.consumer is not None:
            place.commit(self._options.consumer, offset.ends, self._options.lease_s)
        self._first = offset.to_json()
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.octets_max is not None:
            return ReadMaxBytes(self._options.octets_max)
        return ReadAllAvailable()

    @told_briefly
    def prepareForTriggerAvailableNow(self) -> None:
        """How far the query reads; Spark asks for that before `initialOffset`."""
        check_reached(self._options.source)
        self._last = {shard: one.end for shard, one in enumerate(self._place().bounds())}

    @told_briefly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` if there is nothing to read."""
        place = self._place()
        since = Offset.from_json(start)
        deadline_s = time.monotonic() + (0 if self._last is not None else _WAIT_S)
        while True:
            bounds = place.bounds()
            starts = self._starts(since, place.log_id, bounds)
            ends = self._ends(starts, bounds)
            if ends != starts:
                break
            if time.monotonic() >= deadline_s:
                return start
            threading.Event().wait(_POLL_S)
        ends = self._limited(place, starts, ends, limit)
        begins = dict(enumerate(starts)) if start == self._first else None
        crash.point("query.before_offsets")
        return Offset(place.log_id, dict(enumerate(ends)), begins).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the log ends, for the progress of the query: its lag."""
        place = self._place()
        ends = {shard: one.end for shard, one in enumerate(place.bounds())}
        return Offset(place.log_id, ends).to_json()

    @told_briefly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        crash.point("query.after_offsets")
        place = self._place()
        since, until = Offset.from_json(start), Offset.from_json(end)
        if until.log_id != place.log_id:
            self._changed(until.log_id, place.log_id)
            _LOG.error("data loss: rows of log %s, which is gone", until.log_id)
            return []
        if until.begins is not None:
            since = Offset(until.log_id, until.begins)
        bounds = place.bounds()
        starts = self._starts(since, place.log_id, bounds)
        ranges: dict[int, tuple[int, int]] = {}
        for shard, stop in sorted(until.ends.items()):
            if shard >= len(bounds) or stop > bounds[shard].end:
                held = bounds[shard].end if shard < len(bounds) else 0
                raise OffsetError(shard, stop, starts[shard] if shard < len(bounds) else 0, held)
            ranges[shard] = (min(starts[shard], stop), stop)
        parts = cut(ranges, self._options.source.min_partitions)
        return [Range(place.log_id, *part) for part in parts]

    @rows_told_briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        source = self._options.source
        span = (partition.shard, partition.first, partition.end)
        return read_range(source, partition.log_id, *span, plan=self._plan)

    def commit(self, end: dict[str, Any]) -> None:
        """Rows before this are done with. That it cannot be said now only keeps them longer."""
        if self._options.consumer is None:
            return
        offset = Offset.from_json(end)
        try:
            place = self._place()
            if offset.log_id == place.log_id:
                place.commit(self._options.consumer, offset.ends, self._options.lease_s)
        except (EleaError, OSError) as error:
            _LOG.warning("consumer %s was not committed: %s", self._options.consumer, error)

    def stop(self) -> None:
        """Spark ends the process; there is nothing to release."""

    def _place(self) -> Place:
        return place_of(self._options.source)

    def _initial(self, place: Place) -> dict[int, int]:
        return initial(self._options, place)

    def _starts(self, since: Offset, log_id: UUID, bounds: list[Bounds]) -> list[int]:
        """Where to go on in each shard; says what is lost."""
        if since.log_id != log_id:
            self._changed(since.log_id, log_id)
            return [one.first for one in bounds]
        starts = []
        for shard, one in enumerate(bounds):
            start = since.ends.get(shard, one.first)
            if start < one.first:
                if self._options.source.fail_on_data_loss:
                    raise OffsetError(shard, start, one.first, one.end)
                _LOG.error("data loss: rows %d to %d of shard %d", start, one.first - 1, shard)
                start = one.first
            starts.append(start)
        return starts

    def _changed(self, old: UUID, new: UUID) -> None:
        if self._options.fail_on_log_change:
            raise StoreError(
                f"the checkpoint is of log {old}, here is log {new}; begin with another checkpoint,"
                " or set failOnLogChange to false to read the new one from its beginning"
            )
        _LOG.error("log %s is now log %s, which is read from its beginning", old, new)

    def _ends(self, starts: list[int], bounds: list[Bounds]) -> list[int]:
        ends = []
        for shard, (start, one) in enumerate(zip(starts, bounds, strict=True)):
            if start > one.end:
                raise StoreError(
                    f"the checkpoint is at row {start} of shard {shard}, the log ends at {one.end}:"
                    " it was put back to an older state; begin with another checkpoint"
                )
            end = one.end if self._last is None else self._last.get(shard, one.end)
            ends.append(max(start, end))
        return ends

    def _limited(
        self, place: Place, starts: list[int], ends: list[int], limit: ReadLimit
    ) -> list[int]:
        if isinstance(limit, ReadAllAvailable):
            return ends
        rows_max, octets_max = self._options.rows_max, self._options.octets_max
        if isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        if isinstance(limit, ReadMaxBytes):
            octets_max = limit.max_bytes
        if rows_max is not None:
            ends = shared(starts, ends, rows_max)
        if octets_max is not None:
            busy_count = sum(end > start for start, end in zip(starts, ends, strict=True))
            each = octets_max // max(1, busy_count)
            ends = [
                place.cut(shard, start, end, each) if end > start else end
                for shard, (start, end) in enumerate(zip(starts, ends, strict=True))
            ]
        return ends

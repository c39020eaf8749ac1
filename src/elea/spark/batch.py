"""`read`: what a log has, or what the data space answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from elea.errors import OffsetError, StoreError
from elea.keyexpr.match_hot import intersects
from elea.provenance import SampleKind
from elea.qos import QoS
from elea.sample import Reply, Sample
from elea.spark.decoding import Plan
from elea.spark.offsets import split
from elea.spark.options import History, Live
from elea.spark.rows import place_of, read_range
from elea.spark.schema import LIVE_COLUMNS, arrow_schema
from elea.spark.sessions import opened
from elea.spark.stream import Range
from elea.store.log.schema import RowKind

_LOG: Final = logging.getLogger("elea.spark")
_BATCH_COUNT: Final = 1_000  # answers that become one batch


class HistoryReader(DataSourceReader):
    """Rows of a log: all of them, of a time, or between two offsets."""

    def __init__(self, options: History, plan: Plan | None = None) -> None:
        self._options = options
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        """Parts of each shard, as far as they are written now."""
        options = self._options
        place = place_of(options.source)
        bounds = place.bounds()
        ranges = {shard: (one.first, one.end) for shard, one in enumerate(bounds)}
        if options.offsets is not None:
            first, end = options.offsets
            if first.log_id != place.log_id:
                raise StoreError(f"offsets are of log {first.log_id}; here is {place.log_id}")
            for shard, one in enumerate(bounds):
                low = first.ends.get(shard, one.first)
                high = end.ends.get(shard, low)
                if low < one.first and options.source.fail_on_data_loss:
                    raise OffsetError(shard, low, one.first, one.end)
                if high > one.end:
                    raise OffsetError(shard, high, one.first, one.end)
                ranges[shard] = (max(low, one.first), max(low, high))
        parts_count = -(-options.source.min_partitions // len(ranges))
        parts: list[InputPartition] = [
            Range(place.log_id, shard, *part)
            for shard, (first_seq, end_seq) in ranges.items()
            for part in split(first_seq, end_seq, parts_count)
        ]
        return parts or [Range(place.log_id, 0, 0, 0)]  # Spark does not take none

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        options = self._options
        span = (partition.shard, partition.first, partition.end)
        return read_range(
            options.source, partition.log_id, *span, span=options.span, plan=self._plan
        )


class Question(InputPartition):
    """One selector, for one task."""

    def __init__(self, selector: str) -> None:
        super().__init__(selector)
        self.selector = selector


class LiveReader(DataSourceReader):
    """What the data space answers: one row per answer, each selector asked by one task."""

    def __init__(self, options: Live) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [Question(selector) for selector in self._options.selectors]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Question)
        options = self._options
        session = opened(options.reach)
        schema = arrow_schema(LIVE_COLUMNS)
        rows: list[tuple[object, ...]] = []
        replies = session.get(partition.selector, timeout=options.reach.timeout_s)
        for reply in replies:
            row = self._row(partition.selector, reply)
            if row is not None:
                rows.append(row)
            if len(rows) >= _BATCH_COUNT:
                yield _batch(rows, schema).select(list(options.columns))
                rows = []
        if rows:
            yield _batch(rows, schema).select(list(options.columns))

    def _row(self, selector: str, reply: Reply) -> tuple[object, ...] | None:
        options = self._options
        if reply.ok is None:
            assert reply.err is not None
            text = reply.err.payload.to_bytes()[:200].decode("utf-8", "replace")
            if options.fail_on_error:
                raise StoreError(f"{selector} was answered by an error: {text}")
            _LOG.error("%s was answered by an error: %s", selector, text)
            return None
        sample = reply.ok
        exprs = options.key_exprs
        if exprs and not any(intersects(one, sample.key_text) for one in exprs):
            return None
        return _row_of(sample)


def _row_of(sample: Sample) -> tuple[object, ...]:
    """A sample in the order of a log's columns."""
    stamp, source = sample.timestamp, sample.source_info
    kind = RowKind.DELETE if sample.kind is SampleKind.DELETE else RowKind.PUT
    hlc = None if stamp is None else stamp.time.value
    return (
        sample.key_text,
        int(kind),
        sample.payload.to_bytes(),
        None if sample.attachment is None else sample.attachment.to_bytes(),
        str(sample.encoding),
        None if stamp is None else stamp.time.as_nanos() // 1_000,
        hlc if hlc is None or hlc < 2**63 else hlc - 2**64,
        None if stamp is None else str(stamp.get_id()),
        None if source is None else str(source.source_id.zid),
        None if source is None else int(source.source_id.eid),
        None if source is None else source.source_sn,
        QoS(sample.priority, sample.congestion_control, sample.express).to_octet(),
        time.time_ns() // 1_000,
    )


def _batch(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

"""`read` with a selector: what the data space answers, one row per answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from elea.errors import StoreError
from elea.keyexpr.match import intersects
from elea.provenance import SampleKind
from elea.qos import QoS
from elea.sample import Reply, Sample
from elea.spark.options import Live
from elea.spark.schema import LIVE_COLUMNS, arrow_schema
from elea.spark.sessions import check_reached, opened
from elea.spark.tasks import rows_told_briefly, told_briefly
from elea.store.log.schema import RowKind

_LOG: Final = logging.getLogger("elea.spark")
_BATCH_COUNT: Final = 1_000  # answers that become one batch


class Question(InputPartition):
    """One selector, for one task."""

    def __init__(self, selector: str) -> None:
        super().__init__(selector)
        self.selector = selector


class LiveReader(DataSourceReader):
    """What the data space answers: one row per answer, each selector asked by one task."""

    def __init__(self, options: Live) -> None:
        self._options = options

    @told_briefly
    def partitions(self) -> list[InputPartition]:
        check_reached(self._options.reach)
        return [Question(selector) for selector in self._options.selectors]

    @rows_told_briefly
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

"""Filters: the rows of a batch whose keys match, or that are of a span of time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from elea.keyexpr.match import intersects
from elea.store.log.record import Record
from elea.store.log.schema import times


def in_span(
    batch: pa.RecordBatch, records: Sequence[Record], span: tuple[int, int]
) -> pa.RecordBatch:
    """The rows of blocks that are of a span of time, of the 64 bits of timestamps."""
    since, until = span
    if all(since <= one.time_min and one.time_max < until for one in records):
        return batch
    stamps = times(batch)
    low = pc.greater_equal(stamps, pa.scalar(since, pa.uint64()))
    high = pc.less_equal(stamps, pa.scalar(min(until, 2**64) - 1, pa.uint64()))
    return batch.filter(pc.and_(low, high))


def matching(batch: pa.RecordBatch, wanted: str) -> pa.Array:
    """Of each key of a block, whether it is wanted."""
    keys = batch.column("key").dictionary
    if "*" not in wanted:
        found = pc.equal(keys, pa.scalar(wanted, pa.string()))
        # A row may be of many keys.
        odd = pc.match_substring(keys, "*")
        if not pc.any(odd).as_py():
            return found
    return pa.array([intersects(wanted, key) for key in keys.to_pylist()], pa.bool_())


def filtered(batch: pa.RecordBatch, wanted: pa.Array) -> pa.RecordBatch:
    """The rows of the keys that are wanted, as `matching` tells."""
    count = wanted.true_count
    if count == len(wanted):
        return batch
    if not count:
        return batch.slice(0, 0)
    return batch.filter(wanted.take(batch.column("key").indices))

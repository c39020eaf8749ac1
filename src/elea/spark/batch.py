"""`read` of a log: its history."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from elea.errors import OffsetError, StoreError
from elea.spark.offsets import cut
from elea.spark.options import History, Source
from elea.spark.places import Place, check_reached
from elea.spark.rows import Plan, place_of, read_range
from elea.spark.stream import Range
from elea.spark.tasks import rows_told_briefly, told_briefly
from elea.store.log.reader import Bounds


def _now(source: Source) -> tuple[Place, list[Bounds]]:
    """A log as it is now: another one may have the name of one that was read in this process."""
    place = place_of(source)
    try:
        return place, place.bounds()
    except StoreError:
        if place.is_current():
            raise
        place = place_of(source)
        return place, place.bounds()


class HistoryReader(DataSourceReader):
    """Rows of a log: all of them, of a time, or between two offsets."""

    def __init__(self, options: History, plan: Plan | None = None) -> None:
        self._options = options
        self._plan = plan

    @told_briefly
    def partitions(self) -> list[InputPartition]:
        """Parts of each shard, as far as they are written now."""
        options = self._options
        check_reached(options.source)
        place, bounds = _now(options.source)
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
        parts: list[InputPartition] = [
            Range(place.log_id, *part) for part in cut(ranges, options.source.min_partitions)
        ]
        return parts or [Range(place.log_id, 0, 0, 0)]  # Spark does not take none

    @rows_told_briefly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        options = self._options
        span = (partition.shard, partition.first, partition.end)
        return read_range(
            options.source, partition.log_id, *span, span=options.span, plan=self._plan
        )

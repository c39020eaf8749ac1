"""Latest: which row is the last put or deletion of each of many keys, with few blocks read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import OffsetError
from elea.store.log.index import NEEDED, KeyEntry
from elea.store.log.record import Record
from elea.store.log.schema import RowKind, times
from elea.store.log.segment import Segment

_COLUMNS: Final = (*NEEDED, "kind")


class _Place(NamedTuple):
    """The best row so far. Of equal times the one that was appended last wins."""

    time: int
    seq: int
    segment: Segment
    record: Record
    row: int
    whole: pa.RecordBatch | None  # the row itself, if it was read


class Latest:
    """The last row of each key, of the segments that were looked at; the newest go first.

    Args:
        read: Gives columns of a block, or None if it is lost.
        until: Rows from this time on do not count.
    """

    __slots__ = ("_best", "_read", "_until")

    def __init__(
        self,
        read: Callable[[Segment, Record, tuple[str, ...] | None], pa.RecordBatch | None],
        until: int,
    ) -> None:
        self._read = read
        self._until = until
        self._best: dict[str, _Place] = {}

    def look(self, segment: Segment, entries: Iterable[KeyEntry]) -> None:
        """At the keys of a segment."""
        is_whole = segment.time_max < self._until
        by_block: dict[int, list[KeyEntry]] = {}
        for entry in entries:
            # The list of keys knows the block of the latest row, if that may count.
            for number in [entry.latest] if is_whole else entry.blocks:
                if self._may_hold(segment.records[number], entry.key):
                    by_block.setdefault(number, []).append(entry)
        rest: dict[int, set[str]] = {}
        for number in _newest_first(segment, by_block):
            keys = {entry.key for entry in by_block[number]}
            passed = self._take(segment, segment.records[number], keys)
            for entry in by_block[number] if is_whole else ():
                if entry.key in passed:  # something else than a put or deletion is its latest
                    for other in entry.blocks:
                        rest.setdefault(other, set()).add(entry.key)
        for number in _newest_first(segment, rest):
            self._take(segment, segment.records[number], rest[number])

    def rows(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """The rows, block by block, and their numbers in their shard."""
        by_block: dict[tuple[int, int], list[_Place]] = {}
        for place in self._best.values():
            by_block.setdefault((place.segment.first_seq, place.record.first_seq), []).append(place)
        for _, found in sorted(by_block.items()):
            found.sort(key=lambda place: place.row)
            batch = found[0].whole
            if batch is None:
                block = self._read(found[0].segment, found[0].record, None)
                if block is None:
                    continue
                batch = block.take(pa.array([place.row for place in found], pa.int64()))
            yield batch, [place.seq for place in found]

    def _may_hold(self, record: Record, key: str) -> bool:
        best = self._best.get(key)
        is_better = best is None or (record.time_max, record.end_seq) > (best.time, best.seq)
        return is_better and record.time_min < self._until

    def _take(self, segment: Segment, record: Record, keys: set[str]) -> set[str]:
        """The best rows of some keys in a block; returns the keys whose last row is no sample."""
        keys = {key for key in keys if self._may_hold(record, key)}
        if not keys:
            return set()
        try:
            # What is left of one key is a row: to read the others' columns costs less than to read
            # the block again.
            batch = self._read(segment, record, None if len(keys) == 1 else _COLUMNS)
        except OffsetError:  # trimmed meanwhile
            return set()
        if batch is None:
            return set()
        texts = batch.column("key").dictionary
        wanted = pc.is_in(texts, value_set=pa.array(sorted(keys), pa.string()))
        numbers = pc.indices_nonzero(wanted.take(batch.column("key").indices))
        batch = batch.take(numbers)
        rows = pa.table(
            {
                "id": batch.column("key").indices,
                "time": times(batch),
                "kind": batch.column("kind"),
                "row": numbers,
                "place": pa.array(range(len(numbers)), pa.int64()),
            }
        )
        rows = rows.filter(pc.less_equal(rows["time"], pa.scalar(self._until - 1, pa.uint64())))
        rows = rows.sort_by([("time", "ascending"), ("row", "ascending")])
        last = _last(rows)
        samples = _last(rows.filter(pc.less_equal(rows["kind"], int(RowKind.DELETE))))
        for number, (time, row, at) in samples.items():
            key = texts[number].as_py()
            whole = batch.slice(at, 1) if len(keys) == 1 else None
            place = _Place(time, record.first_seq + row, segment, record, row, whole)
            best = self._best.get(key)
            if best is None or place[:2] > best[:2]:
                self._best[key] = place
        passed = [number for number, place in last.items() if samples.get(number) != place]
        return {texts[number].as_py() for number in passed}


def _newest_first(segment: Segment, numbers: Iterable[int]) -> list[int]:
    records = segment.records
    return sorted(numbers, key=lambda one: (records[one].time_max, one), reverse=True)


def _last(rows: pa.Table) -> dict[int, tuple[int, int, int]]:
    """Time, row and place of the last of each key, of rows in order."""
    grouped = rows.group_by("id", use_threads=False)
    found = grouped.aggregate([("time", "last"), ("row", "last"), ("place", "last")])
    names = ("id", "time_last", "row_last", "place_last")
    return {
        number: (time, row, place)
        for number, time, row, place in zip(*(found[one].to_pylist() for one in names), strict=True)
    }

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
_DELETE: Final = pa.scalar(int(RowKind.DELETE), pa.int8())


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

    def look(self, segment: Segment, entries: Iterable[KeyEntry]) -> Iterator[None]:
        """At the keys of a segment: for each at its blocks, while they may have a later row.

        It pauses after each block: a caller that is not wanted any more stops there.
        """
        records = segment.records
        counting = (one for one in range(len(records)) if records.span(one)[0] < self._until)
        order = _newest_first(segment, counting)
        left = {entry.key: _among(order, set(entry.blocks)) for entry in entries}
        while left:
            by_block: dict[int, set[str]] = {}
            for key, numbers in list(left.items()):
                number = next(numbers, None)
                if number is None or not self._may_hold(records[number], key):
                    del left[key]
                else:
                    by_block.setdefault(number, set()).add(key)
            for number in _newest_first(segment, by_block):
                self._take(segment, records[number], by_block[number])
                yield

    def rows(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """The rows, block by block, and their numbers in their shard."""
        by_block: dict[tuple[int, int], list[_Place]] = {}
        for place in self._best.values():
            by_block.setdefault((place.segment.first_seq, place.record.first_seq), []).append(place)
        for _, found in sorted(by_block.items()):
            found.sort(key=lambda place: place.row)
            batch = found[0].whole if len(found) == 1 else None
            if batch is None:
                block = self._read(found[0].segment, found[0].record, None)
                if block is None:
                    continue
                batch = block.take(pa.array([place.row for place in found], pa.int64()))
            yield batch, [place.seq for place in found]

    def _may_hold(self, record: Record, key: str) -> bool:
        best = self._best.get(key)
        return best is None or (record.time_max, record.end_seq) > (best.time, best.seq)

    def _take(self, segment: Segment, record: Record, keys: set[str]) -> None:
        """The best rows of some keys in a block."""
        try:
            # What is left of one key is a row: to read the others' columns costs less than to read
            # the block again.
            batch = self._read(segment, record, None if len(keys) == 1 else _COLUMNS)
        except OffsetError:  # trimmed meanwhile
            return
        if batch is None:
            return
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
        rows = rows.filter(pc.less_equal(rows["kind"], _DELETE))
        rows = rows.sort_by([("time", "ascending"), ("row", "ascending")])
        for number, (time, row, at) in _last(rows).items():
            key = texts[number].as_py()
            whole = batch.slice(at, 1) if len(keys) == 1 else None
            place = _Place(time, record.first_seq + row, segment, record, row, whole)
            best = self._best.get(key)
            if best is None or place[:2] > best[:2]:
                self._best[key] = place


def _among(order: list[int], wanted: set[int]) -> Iterator[int]:
    return (one for one in order if one in wanted)


def _newest_first(segment: Segment, numbers: Iterable[int]) -> list[int]:
    records = segment.records
    return sorted(numbers, key=lambda one: (records.span(one)[1], one), reverse=True)


def _last(rows: pa.Table) -> dict[int, tuple[int, int, int]]:
    """Time, row and place of the last of each key, of rows in order."""
    grouped = rows.group_by("id", use_threads=False)
    found = grouped.aggregate([("time", "last"), ("row", "last"), ("place", "last")])
    names = ("id", "time_last", "row_last", "place_last")
    return {
        number: (time, row, place)
        for number, time, row, place in zip(*(found[one].to_pylist() for one in names), strict=True)
    }

"""Recall: the windows of a log that is opened, from its last rows.

What was missing when a recorder died, and what it knew of that, is in the log: numbers that are not
there, and no row that says so. They are gaps again, and looked for as any other.

Rows come in the order of their numbers, but for those that were found later in a cache. So where
the log is longer than what is read, a number that is missing in the first half may be in a row
before; only numbers above those of the first half are judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.limits import Limits
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.recorder.rows import Row
from elea.store.recorder.tail import Tail
from elea.store.recorder.windows import WindowId, Windows

_REMEMBERED: Final = ("key", "kind", "zid", "eid", "sn", "hlc", "recv_ts")
_TOLD: Final = ("key", "kind", "zid", "eid", "sn", "payload")
_MICROSECONDS: Final = 1_000_000


def recalled(
    log: Log,
    limits: Limits,
    now_ns: int,
    *,
    tails: Sequence[Tail] = (),
    notes: Iterable[Row] = (),
    before: Windows | None = None,
) -> Windows:
    """The windows of a log.

    Args:
        now_ns: Since when gaps are known.
        tails: Of its shards, to be filled.
        notes: Rows that will be written.
        before: The windows until now, if it was open before.
    """
    reader = LogReader(log.disk, lambda _: None)
    windows = Windows(limits, _floor(reader, limits))
    for shard in range(reader.shards_count):
        bounds = reader.bounds(shard)
        first = max(bounds.first, bounds.end - limits.record_tail_rows_count)
        if tails and first > bounds.first:
            tails[shard].begin_at(first, _received_us(reader, shard, first))
        middle = first + (bounds.end - first) // 2 if first else 0
        for start, end in ((first, middle), (middle, bounds.end)):
            for batch in reader.read(shard, start, end, columns=_REMEMBERED, position=True):
                if tails:
                    tails[shard].add(batch, batch.column("seq"))
                windows.remember(batch, is_cut=end > middle > 0, is_early=end == middle)
                for gap in _gaps(reader, shard, batch):
                    windows.tell(*gap)
    for note in notes:
        if note.kind is RowKind.GAP and note.identity is not None:
            id = (*note.identity.source, note.key)
            windows.tell(id, note.identity.sn, int(note.payload))
    windows.recall(now_ns, before)
    return windows


def _floor(reader: LogReader, limits: Limits) -> int:
    """The time of rows that are not read, as the 64 bits of a timestamp; 0: all are."""
    floor = 0
    for shard in range(reader.shards_count):
        bounds = reader.bounds(shard)
        first = max(bounds.first, bounds.end - limits.record_tail_rows_count)
        if bounds.first < first < bounds.end:
            floor = max(floor, (_received_us(reader, shard, first) << 32) // _MICROSECONDS)
    return floor


def _received_us(reader: LogReader, shard: int, seq: int) -> int:
    """When a row was received; 0: it is lost."""
    for batch in reader.read(shard, seq, seq + 1, columns=["recv_ts"]):
        return int(batch.column("recv_ts")[0].value)
    return 0


def _gaps(
    reader: LogReader, shard: int, batch: pa.RecordBatch
) -> Iterator[tuple[WindowId, int, int]]:
    """The rows of a batch that tell of gaps: window, first number, how many."""
    gaps = batch.filter(_is_gap(batch))
    if not gaps.num_rows:
        return
    bounds = pc.min_max(gaps.column("seq")).as_py()  # payloads are read where they are needed
    for again in reader.read(shard, bounds["min"], bounds["max"] + 1, columns=_TOLD):
        for row in again.filter(_is_gap(again)).to_pylist():
            if row["sn"] is not None and row["payload"].isdigit():
                yield (row["zid"], row["eid"], row["key"]), row["sn"], int(row["payload"])


def _is_gap(batch: pa.RecordBatch) -> pa.Array:
    return pc.equal(batch.column("kind"), pa.scalar(int(RowKind.GAP), pa.int8()))

"""LogReader: rows by number, by key and by time, as Arrow batches; any number of them, anywhere.

A reader needs the directory and nothing else: no lock, no writer, no process that serves it. It
sees what is durable. What is trimmed while it is read stays readable until the batch is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import CorruptLogError, InvalidValueError, OffsetError, StoreError
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.log import block
from elea.store.log.disk import Disk, RealDisk
from elea.store.log.filters import filtered, in_span, matching
from elea.store.log.index import NEEDED, KeyEntry
from elea.store.log.latest import Latest
from elea.store.log.manifest import no_log, read_manifest
from elea.store.log.record import FLAG_LOST, Record, follows, seed_of
from elea.store.log.schema import POSITION, SCHEMA, joined, numbered, placed, times
from elea.store.log.segment import DATA, Damage, Segment
from elea.store.log.shelf import Shelf
from elea.store.log.writer import shard_of

_POLL_S: Final = 0.02  # how often a reader of another process's log looks for more
_ALL_TIME: Final = (0, 2**64)
_RUN_ROWS_COUNT: Final = 8_192  # of blocks that are read as one,
_RUN_LEN: Final = 1024 * 1024  # and their octets: what is longer is not copied
_NO_TIME: Final = pa.scalar(None, pa.uint64())
_NO_ROWS: Final = pa.RecordBatch.from_pylist([], schema=pa.schema([*SCHEMA, *POSITION]))
_POSITION_NAMES: Final = [field.name for field in POSITION]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rows of a shard: from the first one retained to the one after the last."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class ShardStat:
    """What a shard has; times as the 64 bits of a timestamp."""

    first: int
    end: int
    segments_count: int
    blocks_count: int
    octets_count: int
    time_min: int | None
    time_max: int | None


class LogReader:
    """Reads a log.

    Args:
        disk: Where it is, or the path of its directory.
        on_damage: Told of rows that are lost, which are passed then. Without it they are an error.

    Raises:
        StoreError: there is no log.

    Example:
        >>> import tempfile
        >>> from elea.store.log.log import Log
        >>> directory = tempfile.mkdtemp()
        >>> with Log(directory) as log:
        ...     LogReader(directory).bounds(0)
        Bounds(first=0, end=0)
    """

    __slots__ = (
        *("_disk", "_on_damage", "_others", "_shards"),
        *("log_id", "lost_count", "shards_count"),
    )

    def __init__(
        self, disk: Disk | Path | str, on_damage: Callable[[Damage], None] | None = None
    ) -> None:
        try:
            if isinstance(disk, Path | str):
                disk = RealDisk(Path(disk), writable=False)
            self._disk: Disk = disk
            manifest = read_manifest(self._disk)
        except FileNotFoundError as error:
            raise no_log(error) from error
        self._on_damage = on_damage
        self.log_id: uuid.UUID = manifest.log_id
        self.shards_count = manifest.shards_count
        self.lost_count = 0  # rows that were passed because they are lost
        self._others: dict[str, pa.Field] = {}  # columns that this release does not know
        self._shards = [
            Shelf(self._disk, number, seed_of(self.log_id, number))
            for number in range(self.shards_count)
        ]

    def bounds(self, shard: int) -> Bounds:
        """Which rows of a shard there are now."""
        return Bounds(*self._shards[shard].refresh())

    def read(
        self,
        shard: int,
        first: int,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        position: bool = False,
        key_expr: KeyExpr | str = "**",
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a shard from a number on, to before `end` or to what is there now.

        The same numbers give the same rows, whenever and wherever they are read.

        Args:
            columns: Of `schema()`; all of them if not given. Others are not even decompressed.
            position: Add the columns `shard` and `seq`.
            key_expr: Rows of keys that this matches, only.

        Raises:
            OffsetError: they were trimmed, or are not written yet.
            CorruptLogError: they are damaged, and nobody is told of damage.
        """
        bounds = self.bounds(shard)
        end = bounds.end if end is None else end
        if first < bounds.first or end > bounds.end:
            wrong = first if first < bounds.first else end
            raise OffsetError(shard, wrong, bounds.first, bounds.end)
        columns = self._checked(columns, [self._shards[shard]])
        batches = self._rows(shard, first, end, columns, position=position)
        wanted = str(KeyExpr.of(key_expr))
        if wanted == "**":
            return batches
        if columns is not None and "key" not in columns:
            raise InvalidValueError("columns", "saw a key_expr and no column `key`; ask for both")
        return (filtered(batch, matching(batch, wanted)) for batch in batches)

    def schema(self) -> pa.Schema:
        """The columns that rows have: those of `SCHEMA`, and those that a later release added.

        Where rows were written without one of them, it is null.
        """
        for shard in self._shards:
            shard.refresh()
        self._checked(None, self._shards)
        return pa.schema([*SCHEMA, *self._others.values()])

    def stat(self, shard: int) -> ShardStat:
        """What a shard has, by its indexes."""
        bounds = self.bounds(shard)
        segments = self._shards[shard].segments()
        records = [record for segment in segments for record in segment.records]
        return ShardStat(
            first=bounds.first,
            end=bounds.end,
            segments_count=len(segments),
            blocks_count=len(records),
            octets_count=sum(record.length for record in records),
            time_min=min((record.time_min for record in records), default=None),
            time_max=max((record.time_max for record in records), default=None),
        )

    @property
    def disk(self) -> Disk:
        """Where the log is."""
        return self._disk

    def blocks(self, shard: int, first: int, end: int) -> Iterator[tuple[Segment, Record]]:
        """The blocks that have rows of a range, as the indexes tell; not of what is lost.

        Raises:
            OffsetError: they were trimmed, or are not written yet.
        """
        bounds = self.bounds(shard)
        if first < bounds.first or end > bounds.end:
            wrong = first if first < bounds.first else end
            raise OffsetError(shard, wrong, bounds.first, bounds.end)
        while first < end:
            try:
                segment, limit = self._shards[shard].segment_of(first, end)
            except FileNotFoundError as error:
                raise self._trimmed(shard, first) from error
            for record in segment.records.since(segment.find_row(first)):
                if record.first_seq >= limit:
                    break
                if not record.flags & FLAG_LOST:
                    yield segment, record
            first = limit

    def follow(
        self,
        shard: int,
        first: int,
        *,
        columns: Sequence[str] | None = None,
        position: bool = False,
        wait: Callable[[int], bool] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a shard from a number on, and those that are still to come.

        Args:
            wait: Called with a number when there is no row of it yet; returns when there may be
                one, False to stop. `Log.wait` is one for the process that writes. Without it the
                directory is looked at many times a second.

        Raises:
            OffsetError: the reader is so slow that rows were trimmed before it came to them.
        """
        while True:
            end = self.bounds(shard).end
            if end > first:
                yield from self.read(shard, first, end, columns=columns, position=position)
                first = end
            elif wait is None:
                time.sleep(_POLL_S)
            elif not wait(first):
                return

    def select(
        self,
        key_expr: KeyExpr | str = "**",
        *,
        since: int = _ALL_TIME[0],
        until: int = _ALL_TIME[1],
        columns: Sequence[str] | None = None,
        shard: int | None = None,
        position: bool = False,
        end: int | None = None,
        may_read: Callable[[], bool] | None = None,
        in_runs: bool = False,
        pauses: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose key matches an expression, of a span of time; shard by shard, in order.

        Blocks that cannot have one are not read.

        Args:
            since: The 64 bits of a timestamp, from which on rows are wanted,
            until: and from which on no more are.
            columns: Of `schema()`; those of `SCHEMA` if not given.
            shard: Of this shard only.
            position: Add the columns `shard` and `seq`.
            end: Only blocks that begin before this offset.
            may_read: Asked before each block, or run of blocks, is read; False ends it.
            in_runs: Read small blocks together, some thousand rows at once: each for itself costs
                as much as these. Who holds back a few blocks reads them one by one.
            pauses: As for `latest_of`; needs `position`.
        """
        wanted = str(KeyExpr.of(key_expr))
        for one in self._shards_of(wanted):
            if shard is not None and one.number != shard:
                continue
            one.refresh()
            if columns is not None:
                columns = self._checked(columns, [one])
            for segment in one.segments():
                if end is not None and segment.first_seq >= end:
                    break
                records = self._blocks_of(one, segment, wanted, since, until)
                if end is not None:
                    records = [record for record in records if record.first_seq < end]
                for run in _runs(records) if in_runs else ([record] for record in records):
                    if may_read is not None and not may_read():
                        return
                    if pauses:
                        yield _NO_ROWS
                    yield from self._selected(
                        run, segment, wanted, (since, until), columns, position=position
                    )

    def keys(self, key_expr: KeyExpr | str = "**") -> dict[str, int]:
        """The keys that an expression matches, and how many rows each has."""
        wanted = str(KeyExpr.of(key_expr))
        found: dict[str, int] = {}
        for shard in self._shards:
            shard.refresh()
            for segment in shard.segments():
                for entry in shard.entries(segment, wanted):
                    found[entry.key] = found.get(entry.key, 0) + entry.rows_count
        return found

    def latest(self, key: str, columns: Sequence[str] | None = None) -> pa.RecordBatch | None:
        """The row of a key with the highest timestamp, the last one of those; None: no such key.

        Args:
            columns: Of `schema()`; those of `SCHEMA` if not given.
        """
        shard = self._shards[shard_of(key, self.shards_count)]
        shard.refresh()
        if columns is not None:
            columns = self._checked(columns, [shard])
        best: tuple[Segment, Record, int] | None = None
        best_time = -1
        for segment in reversed(shard.segments()):
            if segment.time_max <= best_time:
                continue
            entry = shard.entry(segment, key)
            if entry is None or segment.records[entry.latest].time_max <= best_time:
                continue
            record = segment.records[entry.latest]
            batch = self._block(segment, record, NEEDED)
            if batch is None:
                continue
            keys = batch.column("key")
            of_key = pc.equal(keys.indices, keys.dictionary.index(key))
            stamps = pc.if_else(of_key, times(batch), _NO_TIME)
            high = pc.max(stamps).as_py()
            if high is not None and high > best_time:
                best_time = high
                best = (segment, record, len(stamps) - 1 - stamps[::-1].index(high).as_py())
        if best is None:
            return None
        segment, record, row = best
        batch = self._block(segment, record, columns)
        return None if batch is None else batch.slice(row, 1)

    def latest_of(
        self, key_expr: KeyExpr | str, *, until: int = _ALL_TIME[1], pauses: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The last put or deletion of each key that matches, before a time; with their numbers.

        Keys come in no order. Of a segment that ends before the time, one block per key is read.

        Args:
            until: The 64 bits of a timestamp, from which on rows do not count.
            pauses: Whether batches without rows come while blocks are searched, so that a caller
                may stop.
        """
        wanted = str(KeyExpr.of(key_expr))
        for shard in self._shards_of(wanted):
            shard.refresh()
            found = Latest(self._block, until)
            for segment in reversed(shard.segments()):
                entries: Iterable[KeyEntry]
                if "*" in wanted:
                    entries = shard.entries(segment, wanted)
                else:
                    entry = shard.entry(segment, wanted)
                    entries = [] if entry is None else [entry]
                for _ in found.look(segment, entries):
                    if pauses:
                        yield _NO_ROWS
                if pauses:
                    yield _NO_ROWS
            for batch, seqs in found.rows():
                yield placed(batch, shard.number, pa.array(seqs, pa.int64()))

    def _rows(
        self, number: int, seq: int, end: int, columns: Sequence[str] | None, *, position: bool
    ) -> Iterator[pa.RecordBatch]:
        shard = self._shards[number]
        while seq < end:
            try:
                segment, limit = shard.segment_of(seq, end)
            except FileNotFoundError as error:
                raise self._trimmed(number, seq) from error
            try:
                for first, stop, offset, batch in self._decoded(segment, seq, end, columns):
                    if first > seq:
                        self._lost(segment, offset, seq, min(first, end))
                        seq = first
                    if batch is not None:
                        batch = batch.slice(seq - first, min(stop, end) - seq)
                        yield placed(batch, number, seq) if position else batch
                    seq = stop
            except _MovedError:
                continue  # there is another file of these rows
            if seq < limit:
                tail = segment.records[-1].end if segment.records else 0
                self._lost(segment, tail, seq, limit)
                seq = limit

    def _decoded(
        self, segment: Segment, seq: int, end: int, columns: Sequence[str] | None
    ) -> Iterator[tuple[int, int, int, pa.RecordBatch | None]]:
        """From a row to a row, where on disk, and what is there; None if it is lost, which is told.

        Small blocks are joined: each would cost as much as thousands of rows.
        """
        for run in segment.runs(segment.find_row(seq), _RUN_ROWS_COUNT, _RUN_LEN):
            records = [record for record in run if record.first_seq < end]
            batch = self._joined(segment, records, columns) if _is_gapless(records) else None
            if batch is not None:
                yield records[0].first_seq, records[-1].end_seq, records[0].offset, batch
                continue
            for record in records:
                found = self._block(segment, record, columns)
                yield record.first_seq, record.end_seq, record.offset, found
            if len(records) < len(run):
                return

    def _joined(
        self, segment: Segment, records: Sequence[Record], columns: Sequence[str] | None
    ) -> pa.RecordBatch | None:
        """The rows of several blocks; None: there is but one, or something is wrong with one."""
        if len(records) < 2 or any(record.flags & FLAG_LOST for record in records):
            return None
        try:
            blocks = [segment.octets(record) for record in records]
            head = segment.head
        except (CorruptLogError, FileNotFoundError):
            return None
        return joined(block.decode_all(blocks, head, columns, self._others))

    def _block(
        self, segment: Segment, record: Record, columns: Sequence[str] | None
    ) -> pa.RecordBatch | None:
        """The rows of a block; None if they are lost, which is told."""
        if record.flags & FLAG_LOST:
            self.lost_count += record.rows_count
            if self._on_damage is not None:
                self._on_damage(_damage(segment, record, "in quarantine since a repair"))
            return None
        try:
            return segment.rows(record, columns, self._others)
        except FileNotFoundError as error:
            raise self._trimmed(segment.shard, record.first_seq) from error
        except CorruptLogError as error:
            if self._on_damage is None:
                raise
            self.lost_count += record.rows_count
            reason = "the checksum of a block does not hold"
            if error.offset == 0:
                reason = "the schema of its segment is damaged"
            self._on_damage(_damage(segment, record, reason))
            return None

    def _checked(
        self, columns: Sequence[str] | None, shards: Sequence[Shelf]
    ) -> Sequence[str] | None:
        """Columns that rows of some shards have; None: exactly those of `SCHEMA`.

        Raises:
            InvalidValueError: there is another.
        """
        if columns is not None and all(name in SCHEMA.names for name in columns):
            return columns
        for shard in shards:
            for field in shard.others():
                self._others.setdefault(field.name, field)
        legal = [*SCHEMA.names, *self._others]
        if columns is None:
            return legal if self._others else None
        unknown = [name for name in columns if name not in legal]
        if unknown:
            reason = f"saw {', '.join(unknown)}; legal are {', '.join(legal)}"
            raise InvalidValueError("columns of a log", reason)
        return columns

    def _trimmed(self, shard: int, seq: int) -> OffsetError | _MovedError:
        """Rows that went while they were read."""
        bounds = self.bounds(shard)
        if bounds.first <= seq < bounds.end:
            return _MovedError(f"row {seq} of shard {shard} was packed meanwhile; read it again")
        return OffsetError(shard, seq, bounds.first, bounds.end)

    def _lost(self, segment: Segment, offset: int, first: int, end: int) -> None:
        """Rows of which not even a record is left."""
        if self._on_damage is None:
            raise CorruptLogError(segment.stem + DATA, offset)
        self.lost_count += end - first
        reason = "blocks are damaged, and so is their index"
        self._on_damage(Damage(segment.stem + DATA, offset, 0, first, end, reason))

    def _shards_of(self, wanted: str) -> list[Shelf]:
        """Those that may have keys which an expression matches."""
        if "*" in wanted:
            return self._shards
        return [self._shards[shard_of(wanted, self.shards_count)]]

    def _blocks_of(
        self, shard: Shelf, segment: Segment, wanted: str, since: int, until: int
    ) -> list[Record]:
        """The blocks of a segment that may have such rows."""
        if segment.time_max < since:
            return []
        numbers: Sequence[int] = range(len(segment.records))
        if "*" not in wanted:
            entry = shard.entry(segment, wanted)
            numbers = [] if entry is None else entry.blocks
        elif wanted != "**" and shard.index(segment) is not None:
            listed = {one for entry in shard.entries(segment, wanted) for one in entry.blocks}
            numbers = sorted(listed)
        records, found = segment.records, []
        for one in numbers:
            low, high = records.span(one)
            if high >= since and low < until:
                found.append(records[one])
        return found

    def _selected(
        self,
        run: Sequence[Record],
        segment: Segment,
        wanted: str,
        span: tuple[int, int],
        columns: Sequence[str] | None,
        *,
        position: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of blocks that are wanted: in one batch, or block by block if one is damaged."""
        needed = None if columns is None else list(dict.fromkeys([*columns, *NEEDED]))
        whole = self._joined(segment, run, needed)
        for records in [run] if whole is not None else [[record] for record in run]:
            batch = whole
            if batch is None:
                with contextlib.suppress(OffsetError):  # trimmed meanwhile
                    batch = self._block(segment, records[0], needed)
            if batch is None:
                continue
            if position:
                batch = placed(batch, segment.shard, _offsets(records))
            if wanted != "**":
                batch = filtered(batch, matching(batch, wanted))
            batch = in_span(batch, records, span)
            if batch.num_rows and columns is not None:
                yield batch.select([*columns, *(_POSITION_NAMES if position else ())])
            elif batch.num_rows:
                yield batch


class _MovedError(StoreError):
    """A file that was packed so long ago that the one before is gone: the rows are in another."""


def _damage(segment: Segment, record: Record, reason: str) -> Damage:
    span = (record.offset, record.length, record.first_seq, record.end_seq)
    return Damage(segment.stem + DATA, *span, reason)


def _runs(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Blocks in groups that are read at once; others may lie between them."""
    run: list[Record] = []
    rows_count = length = 0
    for record in records:
        rows_count += record.rows_count
        length += record.length
        if run and (rows_count > _RUN_ROWS_COUNT or length > _RUN_LEN):
            yield run
            run, rows_count, length = [], record.rows_count, record.length
        run.append(record)
    if run:
        yield run


def _is_gapless(records: Sequence[Record]) -> bool:
    return all(itertools.starmap(follows, itertools.pairwise(records)))


def _offsets(records: Sequence[Record]) -> pa.Array | int:
    """The offsets of the rows of blocks; the first one says it all if they have no gap."""
    if _is_gapless(records):
        return records[0].first_seq
    return pa.concat_arrays([numbered(one.first_seq, one.rows_count) for one in records])


assert set(NEEDED) <= set(SCHEMA.names)

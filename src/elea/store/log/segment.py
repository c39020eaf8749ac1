"""Segment: a file of blocks and the file of their records, as anybody may read them.

Reading never changes a segment. An index that is damaged is made again in memory, from the blocks;
blocks that are damaged are told, and those around them stay readable.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from elea.errors import CorruptLogError
from elea.store.log import block
from elea.store.log.disk import Disk
from elea.store.log.head import HEAD, KNOWN, Head, named, read_head
from elea.store.log.record import FLAG_LOST, RECORD_LEN, Record, Records, follows, parse_index

DATA: Final = ".arrows"
INDEX: Final = ".idx"
KEYS: Final = ".keys"
PACKED: Final = ".packed"  # in the names of a segment that was written once more: `pack`
_DIGITS: Final = 20


def directory_of(shard: int) -> str:
    """Where the segments of a shard are."""
    return f"shard-{shard:04}"


def stem_of(shard: int, first_seq: int, *, packed: bool = False) -> str:
    """The name of a segment, without what says which of its files is meant."""
    return f"{directory_of(shard)}/{first_seq:0{_DIGITS}}{PACKED if packed else ''}"


def stems(disk: Disk, shard: int) -> dict[int, str]:
    """The segments of a shard, by the number of their first row; sorted.

    What was packed takes the place of what it was made of, which may still be there.
    """
    found: dict[int, bool] = {}
    for name in disk.names(directory_of(shard)):
        stem = name.removesuffix(DATA)
        number = stem.removesuffix(PACKED)
        if stem != name and len(number) == _DIGITS and number.isdecimal():
            found[int(number)] = found.get(int(number), False) or number != stem
    return {one: stem_of(shard, one, packed=found[one]) for one in sorted(found)}


def first_seqs(disk: Disk, shard: int) -> list[int]:
    """The segments of a shard, by the number of their first row; sorted."""
    return list(stems(disk, shard))


def stem_on(disk: Disk, shard: int, first_seq: int) -> str:
    """The name that a segment has now."""
    packed = stem_of(shard, first_seq, packed=True)
    try:
        disk.size(packed + DATA)
    except FileNotFoundError:
        return stem_of(shard, first_seq)
    return packed


@dataclass(frozen=True, slots=True)
class Damage:
    """Octets of a segment that are not what was written, and the rows that are lost by it."""

    segment: str
    offset: int
    length: int
    first_seq: int
    end_seq: int
    reason: str

    def __str__(self) -> str:
        rows = f"rows {self.first_seq} to {self.end_seq - 1} lost"
        if not self.lost_count:
            rows = "no row is known to be lost"
        return f"{self.segment} at byte {self.offset}: {self.reason}; {rows}"

    @property
    def lost_count(self) -> int:
        """How many rows."""
        return self.end_seq - self.first_seq


class Segment:
    """One segment of a shard, read by block.

    Args:
        stem: The name of its files; looked for if it is not given.
    """

    __slots__ = (
        *("_data", "_disk", "_head", "_index_len", "_seed"),
        *("appended_s", "first_seq", "records", "shard", "stem", "time_max"),
    )

    def __init__(
        self, disk: Disk, shard: int, first_seq: int, seed: int, stem: str | None = None
    ) -> None:
        self._disk = disk
        self._seed = seed
        self.shard = shard
        self.first_seq = first_seq
        self.stem = stem_on(disk, shard, first_seq) if stem is None else stem
        self.records = Records()
        self.time_max = 0  # the highest time of a row
        self.appended_s = 0  # when the last row was appended; 0: nobody wrote it down
        self._index_len = 0
        self._head: Head | None = None
        self._data: pa.Buffer = pa.py_buffer(b"")
        self.refresh()

    @property
    def end_seq(self) -> int:
        """The number after that of the last row."""
        return self.records[-1].end_seq if self.records else self.first_seq

    @property
    def head(self) -> Head:
        """How it begins.

        Raises:
            CorruptLogError: that is damaged, and this release does not know what was there.
        """
        if self._head is None:
            data = self._data if self._data.size else self._disk.map(self.stem + DATA)
            self._head = read_head(data) or lost_head(data, self.records, self._seed)
            if self._head is None:
                raise CorruptLogError(self.stem + DATA, 0)
        return self._head

    @property
    def written_ns(self) -> int:
        """When its file was written last."""
        return self._disk.modified_ns(self.stem + DATA)

    def refresh(self) -> bool:
        """Take in what was written since; whether there is more."""
        try:
            more = self._disk.read(self.stem + INDEX, self._index_len)
        except FileNotFoundError:
            more = b""
        before = len(self.records)
        records, length = parse_index(more, self._seed)
        if not records or (self.records and not follows(self.records[-1], records[0])):
            records, length = [], 0
        self.records.extend(more[:length])
        self.time_max = max([self.time_max, *(record.time_max for record in records)])
        if records:  # the clock may have been set back: the highest is not that of the last row
            self.appended_s = self.records[-1].appended_s
        self._index_len += length
        if len(more) - length >= RECORD_LEN:
            self.rebuild(indexed_only=True)
        return len(self.records) > before

    def rebuild(self, *, indexed_only: bool) -> None:
        """Make the index again in memory, of what is left of it and of the blocks themselves.

        Args:
            indexed_only: Whether somebody may be writing: what is in no index is not safe yet.
        """
        try:
            index = self._disk.read(self.stem + INDEX, 0)
        except FileNotFoundError:
            index = b""
        self._data = self._disk.map(self.stem + DATA)
        known, indexed_count = known_blocks(self._data, index, self._seed)
        found = known[:indexed_count] if indexed_only else known
        self.records = Records(b"".join(record.to_bytes(self._seed) for record in found))
        self.time_max = max((record.time_max for record in found), default=0)
        self.appended_s = found[-1].appended_s if found else 0

    def hold(self) -> None:
        """Map all blocks that are known: they stay readable, whatever becomes of the file."""
        if not self.records or self._data.size < self.records[-1].end:
            self._data = self._disk.map(self.stem + DATA)

    def find_row(self, seq: int) -> int:
        """The place of the block that holds a row, or of the first one after it."""
        return bisect.bisect_right(self.records, seq, key=_last_seq)

    def octets(self, record: Record) -> pa.Buffer:
        """A block as it is on disk.

        Raises:
            CorruptLogError: its checksum does not hold.
        """
        found = self._data[record.offset : record.end]
        if not block.holds(found, record, self._seed):  # it may be newer than what was mapped
            self._data = self._disk.map(self.stem + DATA)
            found = self._data[record.offset : record.end]
            if not block.holds(found, record, self._seed):
                raise CorruptLogError(self.stem + DATA, record.offset)
        return found

    def runs(self, start: int, rows_count: int, length: int) -> Iterator[list[Record]]:
        """Blocks from a place on, in groups of so many rows and octets at most, or of one block."""
        run: list[Record] = []
        for record in self.records.since(start):
            if run and (
                record.end_seq - run[0].first_seq > rows_count
                or record.end - run[0].offset > length
            ):
                yield run
                run = []
            run.append(record)
        if run:
            yield run

    def rows(
        self,
        record: Record,
        columns: Sequence[str] | None = None,
        others: Mapping[str, pa.Field] | None = None,
    ) -> pa.RecordBatch:
        """The rows of a block, as `block.decode` gives them.

        Raises:
            CorruptLogError: its checksum does not hold.
        """
        return block.decode(self.octets(record), self.head, columns, others or {})


def _last_seq(record: Record) -> int:
    return record.end_seq


class Examination:
    """All that can be told of a segment by looking at each of its octets."""

    __slots__ = (
        "_file_len",
        "_has_index",
        "_slots_count",
        "begin",
        "damage",
        "data_len",
        "has_schema",
        "head",
        "index_whole",
        "records",
        "stem",
        "tail",
        "unindexed",
    )

    def __init__(self, disk: Disk, shard: int, first_seq: int, seed: int) -> None:
        self.stem = stem = stem_on(disk, shard, first_seq)
        data = disk.map(stem + DATA)
        self._has_index = True
        try:
            index = disk.read(stem + INDEX, 0)
        except FileNotFoundError:
            index = b""
            self._has_index = False
        self._file_len: int = data.size
        self.damage: list[Damage] = []
        # Blocks in order, damaged ones too; those from `unindexed` on are in no index.
        self.records, self.unindexed = known_blocks(data, index, seed)
        self.head = read_head(data)
        self.has_schema = self.head is not None
        if self.head is None:
            self.head = lost_head(data, self.records, seed)
        # Where the first block is, or would be.
        self.begin = len(HEAD if self.head is None else self.head)
        if self.records and self.records[0].first_seq == first_seq and not self.has_schema:
            self.begin = self.records[0].offset
        self.tail = self.records[-1].end if self.records else self.begin
        # Without the zeros that a writer leaves where the next blocks go.
        rest = data[min(self.tail, data.size) :].to_pybytes().rstrip(b"\0")
        self.data_len: int = min(self.tail, data.size) + len(rest)
        self._slots_count = -(-len(index) // RECORD_LEN)
        self._examine(data, index, stem, first_seq, seed)

    def _examine(self, data: pa.Buffer, index: bytes, stem: str, first_seq: int, seed: int) -> None:
        name = stem + DATA
        seq, offset = first_seq, self.begin
        has_rows = False
        for record in self.records:
            if record.first_seq != seq or record.offset != offset:
                reason = "blocks are damaged, and so is their index"
                self._tell(name, offset, record.offset - offset, seq, record.first_seq, reason)
            seq, offset = record.end_seq, record.end
            if record.flags & FLAG_LOST:
                continue
            found = data[record.offset : record.end]
            if not block.holds(found, record, seed):
                reason = "the checksum of a block does not hold"
                if found.size < record.length:
                    reason = f"the file ends after {data.size} octets"
                span = (record.first_seq, record.end_seq)
                self._tell(name, record.offset, record.length, *span, reason)
                continue
            has_rows = True
            if not block.marked(found, record, seed):
                reason = "the record in a block is damaged"
                self._tell(name, record.offset + record.marker, 0, seq, seq, reason)
        if not has_rows:
            self.has_schema = True  # nothing is read by it
        elif not self.has_schema:
            self._tell(name, 0, self.begin, first_seq, first_seq, "the schema is damaged")
        whole = b"".join(record.to_bytes(seed) for record in self.records[: self.unindexed])
        self.index_whole = whole == index and self.unindexed == len(self.records)
        if whole != index[: len(whole)] or len(index) - len(whole) >= RECORD_LEN:
            self._tell(stem + INDEX, 0, len(index), seq, seq, "the index is damaged")

    def lost_end(self, name: str, first_seq: int) -> Damage | None:
        """Of the last segment: the block at its end that was durable, and of which nothing is left.

        There is room for its record in the index, and that was made after the block was safe. How
        many rows it had nobody knows; not more than octets.
        """
        if self._slots_count <= len(self.records):
            return None
        seq = self.records[-1].end_seq if self.records else first_seq
        length = max(self._file_len - self.tail, 0)
        reason = "a block is damaged, and so is its record; it had so many rows at most"
        return Damage(name, self.tail, length, seq, seq + max(length, 1), reason)

    def lost_index(self) -> Damage | None:
        """Of the last segment: a writer makes its index with it, and never removes it.

        Without it nobody knows whether rows are missing at the end.
        """
        if self._has_index or self.data_len <= self.begin:
            return None
        seq = self.records[-1].end_seq if self.records else 0
        rest = self.data_len - self.tail
        reason = "the index was deleted, so that acknowledged rows after these may be gone, too"
        if rest:
            reason += f"; {rest} bytes at the end are no whole block"
        return Damage(self.stem + INDEX, 0, 0, seq, seq, reason)

    def _tell(self, name: str, offset: int, length: int, first: int, end: int, reason: str) -> None:
        self.damage.append(Damage(name, offset, length, first, end, reason))


def lost_head(
    data: pa.Buffer, records: Sequence[Record], seed: int, heads: Sequence[Head] = KNOWN
) -> Head | None:
    """The head of a segment where it is damaged: the one of these that its blocks name."""
    for record in records:
        found = data[record.offset : record.end]
        if not record.flags & FLAG_LOST and block.holds(found, record, seed):
            return named(block.head_name(found, record), records[0].offset, heads)
    return None


def known_blocks(data: pa.Buffer, index: bytes, seed: int) -> tuple[list[Record], int]:
    """Every block that index or data tell of, and how many of them are in the index."""
    known: dict[int, Record] = {}
    for at in range(0, len(index) - RECORD_LEN + 1, RECORD_LEN):
        record = Record.from_bytes(index[at : at + RECORD_LEN], seed)
        if record is not None:
            known[record.offset] = record
    indexed_end = max((record.end for record in known.values()), default=0)
    whole = len(known) * RECORD_LEN == len(index) - len(index) % RECORD_LEN
    indexed = set(known)
    start = indexed_end if whole else 0
    for record in block.find(data, start, seed):
        known.setdefault(record.offset, record)
    records = [known[offset] for offset in sorted(known)]
    places = [place for place, record in enumerate(records) if record.offset in indexed]
    unindexed = places[-1] + 1 if places else 0
    return records, unindexed

"""Record: what the index of a segment says of one block. 64 octets, little endian.

     0        8        16        24        32     36      40      44
    +--------+--------+---------+---------+------+-------+-------+--------+
    |first_seq offset | time_min| time_max| rows | epoch | length| marker |
    +--------+--------+---------+---------+------+-------+-------+--------+
    | flags  |appended| data_crc| crc     |
    +--------+--------+---------+---------+
     48       52       56        60

`offset` and `length` are octets of the segment; `marker` is where, in the block, the same record is
once more, as text. `data_crc` is over the block, with that text as zeros; `crc` over the record.
Both begin with the seed of their log and shard, so that no other log's blocks pass for ours.
`appended` is when the writer appended the last row, in seconds since 1970 by its own clock; 0 in
logs of older versions.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Self, overload

from elea.store.log.checksum import crc32

_LAYOUT: Final = struct.Struct("<QQQQIIIIIIII")
RECORD_LEN: Final = _LAYOUT.size
_CRC: Final = struct.Struct("<I")
_SPAN: Final = struct.Struct("<QQ")  # the times
_SPAN_AT: Final = 16
_BEFORE_CRC: Final = RECORD_LEN - _CRC.size
TEXT_LEN: Final = 2 * RECORD_LEN

FLAG_LOST: Final = 1  # damaged, moved to quarantine by repair: readers pass it


class Record(NamedTuple):
    """One block: its rows, its place, its times, its checksum."""

    first_seq: int
    rows_count: int
    epoch: int
    offset: int
    length: int
    marker: int
    time_min: int
    time_max: int
    data_crc: int
    flags: int = 0
    appended_s: int = 0

    @property
    def end_seq(self) -> int:
        """The number after that of the last row."""
        return self.first_seq + self.rows_count

    @property
    def end(self) -> int:
        """The octet after the block."""
        return self.offset + self.length

    def to_bytes(self, seed: int) -> bytes:
        """As it is in an index."""
        head = _LAYOUT.pack(
            *(self.first_seq, self.offset, self.time_min, self.time_max, self.rows_count),
            *(self.epoch, self.length, self.marker, self.flags, self.appended_s),
            *(self.data_crc, 0),
        )[:_BEFORE_CRC]
        return head + _CRC.pack(crc32(head, seed))

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> Self | None:
        """The record, or None: its checksum does not hold."""
        if len(data) != RECORD_LEN:
            return None
        [crc] = _CRC.unpack_from(data, _BEFORE_CRC)
        return cls.read(data, 0) if crc32(data[:_BEFORE_CRC], seed) == crc else None

    @classmethod
    def read(cls, data: bytes | bytearray, at: int) -> Self:
        """A record whose checksum holds."""
        first, offset, low, high, rows, epoch, length, marker, flags, appended, data_crc, _ = (
            _LAYOUT.unpack_from(data, at)
        )
        return cls(first, rows, epoch, offset, length, marker, low, high, data_crc, flags, appended)


class Records(Sequence[Record]):
    """Records whose checksums hold, as the octets that they are in an index.

    A log has one for each block, twenty in a second, and whoever reads it at its end looks at few:
    as objects they would take six times as much.

    Args:
        octets: Of some of them.
    """

    __slots__ = ("_octets",)

    def __init__(self, octets: bytes = b"") -> None:
        self._octets = bytearray(octets)

    def __len__(self) -> int:
        return len(self._octets) // RECORD_LEN

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        return Record.read(self._octets, at * RECORD_LEN)

    def extend(self, octets: bytes) -> None:
        """More of them."""
        self._octets += octets

    def since(self, place: int) -> Iterator[Record]:
        """Those from a place on, one by one."""
        return (self[one] for one in range(place, len(self)))

    def span(self, place: int) -> tuple[int, int]:
        """The lowest and the highest time of one."""
        low, high = _SPAN.unpack_from(self._octets, place * RECORD_LEN + _SPAN_AT)
        return low, high


def seed_of(log_id: uuid.UUID, shard: int) -> int:
    """Where the checksums of a shard begin."""
    return crc32(log_id.bytes + shard.to_bytes(4, "little"))


def parse_index(data: bytes, seed: int) -> tuple[list[Record], int]:
    """The records that hold, up to the first that does not or is not whole, and how many octets."""
    records: list[Record] = []
    at = 0
    while at + RECORD_LEN <= len(data):
        record = Record.from_bytes(data[at : at + RECORD_LEN], seed)
        if record is None or (records and not follows(records[-1], record)):
            break
        records.append(record)
        at += RECORD_LEN
    return records, at


def follows(before: Record, after: Record) -> bool:
    """Whether a block is where, and what, the block before it says."""
    return after.first_seq == before.end_seq and after.offset == before.end

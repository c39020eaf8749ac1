"""Single: one row as plain values, and how its block is made without Arrow.

Samples that are to be acknowledged mostly come one by one, and to make arrays of one row, and a
block of those, costs more than to write it. Blocks of one row with the same texts, and octets of
the same length, differ in few places only. Arrow makes two of them, which are compared; from then
on values are put in these places of a copy. It is the block that Arrow would make.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from elea.store.log.schema import check_received, checked, from_columns, length_of

LEN_MAX: Final = 1_024  # octets of payload and attachment of a row that is put in a copy
_STENCILS_COUNT: Final = 256  # that are remembered
_NUMBER: Final = struct.Struct("<q")
_MICROSECONDS: Final = 1_000_000
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_OTHER_LEN: Final = 256  # octets of a row besides its texts, payload and attachment, about


class Single(NamedTuple):
    """One row of `SCHEMA`, in the order of the columns; `hlc` with a sign, as there."""

    key: str
    kind: int
    payload: bytes
    attachment: bytes | None
    encoding: str
    time_us: int | None  # of `hlc`
    hlc: int | None
    hlc_id: str | None
    zid: str | None
    eid: int | None
    sn: int | None
    qos: int
    received_us: int

    @property
    def num_rows(self) -> int:
        """As of a batch."""
        return 1

    @property
    def length(self) -> int:
        """Its octets, about."""
        return len(self.key) + len(self.payload) + len(self.attachment or b"") + _OTHER_LEN

    @property
    def bits(self) -> int:
        """When it happened, as the 64 bits of a timestamp."""
        if self.hlc is not None:
            return self.hlc & _MASK
        seconds, below = divmod(self.received_us, _MICROSECONDS)
        return (seconds << 32) + (below << 32) // _MICROSECONDS

    @property
    def batch(self) -> pa.RecordBatch:
        """The same as Arrow has it."""
        return from_columns([value] for value in self)


Rows: TypeAlias = pa.RecordBatch | Single


def batch_of(rows: Rows) -> pa.RecordBatch:
    """Rows as Arrow has them."""
    return rows.batch if isinstance(rows, Single) else rows


def checked_length(rows: Rows) -> int:
    """The octets of rows that are about to be kept, about.

    Raises:
        InvalidValueError: they cannot be kept.
    """
    if not isinstance(rows, Single):
        return length_of(checked(rows))
    if rows.hlc is None:
        check_received(rows.received_us)
    return rows.length


class Stencil(NamedTuple):
    """A block, and where the values of its row go. -1: it has none."""

    octets: bytes
    marker: int  # where the record of the block goes
    kind_at: int
    payload_at: int
    attachment_at: int
    time_us_at: int
    hlc_at: int
    eid_at: int
    sn_at: int
    qos_at: int
    received_us_at: int

    def filled(self, row: Single) -> bytearray:
        """The block of a row."""
        block = bytearray(self.octets)
        block[self.kind_at] = row.kind
        block[self.qos_at] = row.qos & 0xFF
        if row.payload:
            block[self.payload_at : self.payload_at + len(row.payload)] = row.payload
        if row.attachment:
            end = self.attachment_at + len(row.attachment)
            block[self.attachment_at : end] = row.attachment
        pack = _NUMBER.pack_into
        pack(block, self.received_us_at, row.received_us)
        if row.hlc is not None:
            pack(block, self.hlc_at, row.hlc)
        if row.time_us is not None:
            pack(block, self.time_us_at, row.time_us)
        if row.eid is not None:
            pack(block, self.eid_at, row.eid)
        if row.sn is not None:
            pack(block, self.sn_at, row.sn)
        return block


Encode: TypeAlias = Callable[[pa.RecordBatch], tuple[bytes, int]]
_Shape: TypeAlias = tuple[object, ...]


class Stencils:
    """Stencils of rows that came lately.

    Args:
        encode: Makes the block of a batch, without its record; and says where that goes.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[_Shape, Stencil | None] = {}  # None: it came once

    def of(self, row: Single) -> Stencil | None:
        """How the block of a row is made; None: it is long, or the first of its shape."""
        attachment = row.attachment
        length = -1 if attachment is None else len(attachment)
        if len(row.payload) + max(length, 0) > LEN_MAX:
            return None
        shape = (
            *(row.key, row.encoding, row.hlc_id, row.zid, len(row.payload), length),
            *(row.hlc is None, row.time_us is None, row.eid is None, row.sn is None),
        )
        found = self._known.get(shape)
        if found is None:
            is_second = shape in self._known
            if len(self._known) >= _STENCILS_COUNT and not is_second:
                self._known.clear()
            found = self._known[shape] = self._made(row) if is_second else None
        return found

    def _made(self, row: Single) -> Stencil | None:
        zeros, marker = self._encode(_probe(row, [0] * 9))
        other, _ = self._encode(_probe(row, range(1, 10)))
        if len(zeros) != len(other):
            return None
        places: list[list[int]] = [[] for _ in range(10)]
        for at, (before, after) in enumerate(zip(zeros, other, strict=True)):
            if before != after:
                places[after if after < 10 else 0].append(at)
        starts = []
        for found, length in zip(places, (0, *_lengths(row)), strict=True):
            if len(found) != length or (length and found[-1] - found[0] != length - 1):
                return None  # not as expected: Arrow goes on to make these blocks
            starts.append(found[0] if found else -1)
        return Stencil(zeros, marker, *starts[1:])


def _lengths(row: Single) -> list[int]:
    """How many octets each value has that a stencil leaves open."""
    numbers = [0 if one is None else 8 for one in (row.time_us, row.hlc, row.eid, row.sn)]
    return [1, len(row.payload), len(row.attachment or b""), *numbers, 1, 8]


def _probe(row: Single, octets: Sequence[int]) -> pa.RecordBatch:
    """A row of the same shape, in which each value consists of one octet."""
    kind, payload, attachment, time, hlc, eid, sn, qos, received = octets

    def number(old: int | None, octet: int) -> int | None:
        return None if old is None else int.from_bytes(bytes([octet]) * 8, "little")

    return row._replace(
        kind=kind,
        payload=bytes([payload]) * len(row.payload),
        attachment=None if row.attachment is None else bytes([attachment]) * len(row.attachment),
        time_us=number(row.time_us, time),
        hlc=number(row.hlc, hlc),
        eid=number(row.eid, eid),
        sn=number(row.sn, sn),
        qos=qos,
        received_us=int.from_bytes(bytes([received]) * 8, "little"),
    ).batch

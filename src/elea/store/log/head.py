"""Head: how a segment begins. It is the schema by which its blocks are read, and no other one.

It is the schema message of an Arrow stream. From format 3 on its metadata have one entry `elea`,
whose value is `elea.head:` and the CRC-32 of the head, with these eight digits as `0`; the blocks
name their head by the same digits. In formats 1 and 2 all segments begin with the same octets.
"""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from elea.errors import StoreError
from elea.store.log.checksum import crc32
from elea.store.log.schema import SCHEMA

_KEY: Final = "elea"
_MARK: Final = b"elea.head:"
_ZEROS: Final = b"00000000"
NAME_LEN: Final = len(_ZEROS)
_BEGIN: Final = b"\xff\xff\xff\xff"
_PREFIX_LEN: Final = 8
_LEN_MAX: Final = 1024 * 1024  # no schema is as long

# How every segment of formats 1 and 2 begins, octet for octet, whatever Arrow makes of it today.
_FIRST: Final = zlib.decompress(
    base64.b64decode(
        "eNp1UztOw0AUHIdNYqEguXBBkYKCA3AAikg0KSihQ4os2yJWghOIhRIqSgoOQcEBUnAECkpKDkBJwQEgy7xdx7ZMst"
        "J41955v3nPWmv9sAP4WK9ddNBCEy5PXI6C4vb6o7Xse0SH/LcG8EhcEN8OsCTuiSPinZwnYkr0CLGb/2otzj0+9vNv"
        "strETRzeDrIZspVwGuaOIXB+doKltWuInV+xk/vryQyn9t5xJZaxd/5xmSJmaZGDIzmNt3DFb5xEeK5wX7ThNoV3TH"
        "Rr/DvyXXiEguTRyb/L+sr9HPDxybPH6l3q2ybLY2TPsErfVW1axHAcDugefS22tpb16q9K31J7T2+viX4wX1Xqt1zT"
        "j25NK7aCOcoUuKaeek+UsYXJuU8cVuyFH6fhJErSS/vuF7pILKeSv6vL/GHq8wtthJ1ro+o5ylwGWRaEw6s4zagbbT"
        "+sL7VpvqbBYjwJIkRFDNRi2Pmq2sk+StJIzktdzpjtH2r9s1r0NszGKF7kKpazIdq69GC1tfUr2P/sD4H8hDk="
    )
)


class Head:
    """The octets at the beginning of a segment, and what they say.

    Args:
        octets: As they are in the segment.
        prefix: As they are before blocks that are decoded; the octets if not given.
    """

    __slots__ = ("_arrow_len", "is_known", "name", "octets", "others", "prefix", "schema")

    def __init__(self, octets: bytes, prefix: bytes | None = None) -> None:
        self.octets = octets
        self.prefix = octets if prefix is None else prefix
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(octets)).remove_metadata()
        at = octets.find(_MARK) + len(_MARK)
        self.name = octets[at : at + NAME_LEN] if at >= len(_MARK) else b""
        # Whether rows are as they are to be when blocks are decoded.
        self.is_known: bool = self.schema.equals(SCHEMA, check_metadata=True) and (
            self.prefix is not self.octets or not self.name
        )
        self.others = tuple(one for one in self.schema if one.name not in SCHEMA.names)
        self._arrow_len = 0

    def __len__(self) -> int:
        return len(self.octets)

    @property
    def arrow_len(self) -> int:
        """How long Arrow makes the beginning of a stream of these rows."""
        if not self._arrow_len:
            self._arrow_len = self.schema.serialize().size
        return self._arrow_len

    def writable(self) -> Head:
        """The head of a segment with the same columns that is written here, by this Arrow."""
        return self if self in (HEAD, FIRST) else made(self.schema)

    def included(self, columns: Sequence[str] | None) -> list[int] | None:
        """Which of its columns have to be read to give these; None: all."""
        if columns is None:
            return None
        names = self.schema.names
        # Arrow reads all of them if none is named.
        return [names.index(name) for name in columns if name in names] or [0]

    def shaped(
        self, batch: pa.RecordBatch, columns: Sequence[str] | None, others: Mapping[str, pa.Field]
    ) -> pa.RecordBatch:
        """Decoded rows with these columns; null where the segment has none of a name.

        Args:
            columns: None: those of `SCHEMA`.
            others: Columns that are not of `SCHEMA`, and may be among these.

        Raises:
            StoreError: a column has values of which this release can make nothing.
        """
        if self.is_known and not (columns and others):
            return batch if columns is None else batch.select(columns)
        fields, arrays = [], []
        for name in SCHEMA.names if columns is None else columns:
            field = SCHEMA.field(name) if name in SCHEMA.names else others[name]
            fields.append(field)
            if name in batch.schema.names:
                arrays.append(_cast(batch.column(name), field))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise StoreError(
            f"column {field.name} of a log is {column.type}, expected {field.type}: read it with"
            " the release that wrote it"
        ) from error


def made(schema: pa.Schema) -> Head:
    """The head of segments with these columns, as this release writes them."""
    mark = (_MARK + _ZEROS).decode()
    octets = schema.with_metadata({_KEY: mark}).serialize().to_pybytes()
    name = b"%08x" % crc32(octets)
    return Head(
        octets.replace(mark.encode(), _MARK + name),
        schema.remove_metadata().serialize().to_pybytes(),
    )


def read_head(data: pa.Buffer) -> Head | None:
    """What a segment begins with; None: it is damaged, or not all there."""
    octets = _message(data)
    return _whole(octets) if octets else None


def stream_head(data: pa.Buffer) -> Head:
    """What a stream of blocks begins with that another process sent.

    Raises:
        StoreError: nothing that is a schema.
    """
    octets = _message(data)
    try:
        return _as_sent(octets)
    except pa.ArrowException as error:
        raise StoreError(
            f"expected rows as an Arrow stream, got {data[:16].to_pybytes()!a}"
        ) from error


def _message(data: pa.Buffer) -> bytes:
    """The first message of a stream; empty: it is damaged, or not all there."""
    start = data[:_PREFIX_LEN].to_pybytes()
    length = _PREFIX_LEN + int.from_bytes(start[4:], "little")
    if start[:4] != _BEGIN or not _PREFIX_LEN < length <= min(data.size, _LEN_MAX):
        return b""
    octets: bytes = data[:length].to_pybytes()
    return octets


@functools.lru_cache(maxsize=64)
def _as_sent(octets: bytes) -> Head:
    return next((one for one in KNOWN if octets in (one.octets, one.prefix)), None) or Head(octets)


@functools.lru_cache(maxsize=64)
def _whole(octets: bytes) -> Head | None:
    for one in KNOWN:
        if octets == one.octets:
            return one
    at = octets.find(_MARK) + len(_MARK)
    if at < len(_MARK):
        return None
    crc = crc32(octets[:at])
    crc = crc32(octets[at + NAME_LEN :], crc32(_ZEROS, crc))
    if octets[at : at + NAME_LEN] != b"%08x" % crc:
        return None
    return Head(octets)


def named(name: bytes, length_max: int, heads: Iterable[Head]) -> Head | None:
    """The head of this name, if it is among these and has room before the first block."""
    for one in heads:
        if one.name == name and len(one) <= length_max:
            return one
    return None


FIRST: Final = Head(_FIRST)
HEAD: Final = made(SCHEMA)
KNOWN: Final = (HEAD, FIRST)

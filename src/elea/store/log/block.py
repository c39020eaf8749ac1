"""Blocks: one commit's rows in a segment, as messages of an Arrow IPC stream.

    ~ dictionary batches ~ record batch, with the metadata `elea.block` ~

A segment is `schema message` + blocks, which is a legal Arrow stream: `pyarrow.ipc.open_stream`
reads it. Each block brings its dictionaries, so that it is readable alone but for the schema. The
metadata is the block's own index record as text, so that an index can be made again from the
segment alone, and from format 3 on the name of its head.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import StoreError
from elea.store.log.checksum import crc32
from elea.store.log.head import HEAD, KNOWN, NAME_LEN, Head
from elea.store.log.record import TEXT_LEN, Record
from elea.store.log.schema import length_of, times
from elea.store.log.single import Rows, Single, Stencils, batch_of

_MARK: Final = b"elea.block:"
_ZEROS: Final = b"0" * TEXT_LEN
_NAME_MARK: Final = b":"  # between the record and the name of the head
_NO_OTHERS: Final[Mapping[str, pa.Field]] = MappingProxyType({})

BLOCK_LEN_MAX: Final = 1 << 30  # the format has four octets for it; Arrow offsets are signed
_EXTRA_LEN: Final = 32 * 1024  # metadata, and what compressing may add to rows
_SPARE_LEN: Final = 16 * 1024 * 1024
_PLAIN_LEN: Final = 2_048  # less is not worth compressing
# A block becomes this long only where rows come fast, and to compress rows of this length takes as
# long as all else together. Then zstd gives way, so that the rows that follow are not lost.
_HASTY_LEN: Final = 4 * 1024 * 1024
_HASTY_ROW_LEN: Final = 512
_OPTIONS: Final = {
    "none": pa.ipc.IpcWriteOptions(),
    "zstd": pa.ipc.IpcWriteOptions(compression="zstd"),
    "lz4": pa.ipc.IpcWriteOptions(compression="lz4"),
}


# Memory of blocks that were written, used again: to clear new pages costs a sixth of a large block.
_SPARE: Final[deque[bytearray]] = deque(maxlen=4)


def encode(
    rows: Rows,
    first_seq: int,
    epoch: int,
    offset: int,
    seed: int,
    compression: str,
    head: Head = HEAD,
    *,
    hasty: bool = True,
    appended_s: int = 0,
) -> tuple[memoryview, Record, bytes]:
    """The octets of a block that is to be at `offset` of its segment, its record, also as octets.

    When they are written, `recycle` takes their memory.

    Args:
        head: Of the segment; it has the columns of the rows.
        hasty: Whether more rows are coming that must not wait until these are compressed.
        appended_s: When the rows were appended, by the writer's clock.
    """
    data, marker, (time_min, time_max) = _block(rows, compression, head, hasty=hasty)
    record = Record(
        *(first_seq, rows.num_rows, epoch, offset, len(data), marker, time_min, time_max),
        data_crc=crc32(data, seed),
        appended_s=appended_s,
    )
    octets = record.to_bytes(seed)
    data[marker : marker + TEXT_LEN] = octets.hex().encode()
    return data, record, octets


def _block(
    rows: Rows, compression: str, head: Head, *, hasty: bool
) -> tuple[memoryview, int, tuple[int, int]]:
    """The octets of a block, where its record goes, and the times of its rows."""
    if isinstance(rows, Single):
        stencil = _STENCILS[head.name].of(rows)
        if stencil is not None:
            bits = rows.bits
            return memoryview(stencil.filled(rows)), stencil.marker, (bits, bits)
    batch = batch_of(rows)
    length = length_of(batch)
    if length > BLOCK_LEN_MAX:
        raise StoreError(
            f"a block of {length} octets; legal are {BLOCK_LEN_MAX}: append less at once"
        )
    if (
        hasty
        and compression == "zstd"
        and length >= max(_HASTY_LEN, rows.num_rows * _HASTY_ROW_LEN)
    ):
        compression = "none"
    data = _stream(batch, length, _OPTIONS[compression if length >= _PLAIN_LEN else "none"], head)
    return data, _marker_of(data), _span(batch)


def recycle(data: memoryview) -> None:
    """The octets of a block are no longer needed."""
    memory = data.obj
    if isinstance(memory, bytearray) and len(memory) <= _SPARE_LEN:
        _SPARE.append(memory)


def _stream(
    batch: pa.RecordBatch, length: int, options: pa.ipc.IpcWriteOptions, head: Head
) -> memoryview:
    """Rows as messages of a stream, without its beginning and its end."""
    try:
        memory = _SPARE.pop()
    except IndexError:  # all are in use
        memory = bytearray()
    room = length + length // 8 + _EXTRA_LEN
    metadata = _metadata(head.name)
    while True:
        if len(memory) < room:
            memory = bytearray(room)
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(memory))
        try:
            with pa.ipc.new_stream(sink, head.schema, options=options) as stream:
                stream.write_batch(batch, custom_metadata=metadata)
                end = sink.tell()
        except (pa.ArrowInvalid, OSError):  # it is longer than rows usually are
            room *= 2
            if room > 2 * BLOCK_LEN_MAX:
                raise
            continue
        return memoryview(memory)[head.arrow_len : end]


@functools.cache
def _metadata(name: bytes) -> pa.KeyValueMetadata:
    """Of the record batch of a block, before its record is known."""
    return pa.KeyValueMetadata({"elea": (_MARK + _ZEROS + _name_text(name)).decode()})


def _name_text(name: bytes) -> bytes:
    return _NAME_MARK + name if name else b""


def _plain(head: Head, batch: pa.RecordBatch) -> tuple[bytes, int]:
    """A block that is not compressed, and where its record goes."""
    data = _stream(batch, length_of(batch), _OPTIONS["none"], head)
    return bytes(data), _marker_of(data)


_STENCILS: Final = {head.name: Stencils(partial(_plain, head)) for head in KNOWN}


def _span(batch: pa.RecordBatch) -> tuple[int, int]:
    """The lowest and the highest time of rows."""
    stamps = times(batch)
    if len(stamps) == 1:  # a call of a kernel costs more than a row
        only: int = stamps[0].as_py()
        return only, only
    span = pc.min_max(stamps)
    return span["min"].as_py(), span["max"].as_py()


def _marker_of(data: memoryview) -> int:
    """Where the record goes: looked for where no key and no payload can be."""
    source = pa.BufferReader(pa.py_buffer(data))
    while True:
        at: int = source.tell()
        message = pa.ipc.read_message(source)
        if message.type == "record batch":
            break
    head: bytes = data[at : at + len(message.metadata) + 16].tobytes()
    return at + head.index(_MARK + _ZEROS) + len(_MARK)


def holds(block: pa.Buffer, record: Record, seed: int) -> bool:
    """Whether the octets of a block are those that were written."""
    if block.size != record.length or record.marker + TEXT_LEN > record.length:
        return False
    crc = crc32(block[: record.marker], seed)
    crc = crc32(_ZEROS, crc)
    return crc32(block[record.marker + TEXT_LEN :], crc) == record.data_crc


def marked(block: pa.Buffer, record: Record, seed: int) -> bool:
    """Whether the record inside a block is the one of the index."""
    text = block[record.marker : record.marker + TEXT_LEN].to_pybytes()
    return bool(text == record._replace(flags=0).to_bytes(seed).hex().encode())


def head_name(block: pa.Buffer, record: Record) -> bytes:
    """The name of the head that a whole block was written for; of formats 1 and 2 empty."""
    at = record.marker + TEXT_LEN
    text: bytes = block[at : at + len(_NAME_MARK) + NAME_LEN].to_pybytes()
    return text[len(_NAME_MARK) :] if text.startswith(_NAME_MARK) else b""


def find(data: pa.Buffer, start: int, seed: int) -> Iterator[Record]:
    """Every whole block of a segment from an octet on, whatever is between them."""
    view = bytes(data[start:])
    at = view.find(_MARK)
    while at >= 0:
        at += len(_MARK)
        record = _read_text(view[at : at + TEXT_LEN], seed)
        if record is not None and record.offset + record.marker == start + at:
            block = data[record.offset : record.end]
            if record.offset >= start and holds(block, record, seed):
                yield record
                at = record.end - start
        at = view.find(_MARK, at)


def _read_text(text: bytes, seed: int) -> Record | None:
    try:
        return Record.from_bytes(bytes.fromhex(text.decode("ascii")), seed)
    except ValueError:
        return None


def decode(
    block: pa.Buffer,
    head: Head,
    columns: Sequence[str] | None = None,
    others: Mapping[str, pa.Field] = _NO_OTHERS,
) -> pa.RecordBatch:
    """The rows of a block whose checksum holds; not copied, unless they are compressed.

    Args:
        head: Of the segment.
        columns: None: those of `SCHEMA`; null where the segment has none of a name.
        others: Columns that are not of `SCHEMA`, and may be among these.
    """
    source = pa.PythonFile(_Pieces([pa.py_buffer(head.prefix), block]), mode="r")
    batch = pa.ipc.open_stream(source, options=_options(head, columns)).read_next_batch()
    return head.shaped(batch, columns, others)


def decode_all(
    blocks: Sequence[pa.Buffer],
    head: Head,
    columns: Sequence[str] | None = None,
    others: Mapping[str, pa.Field] = _NO_OTHERS,
) -> list[pa.RecordBatch]:
    """The rows of each of some blocks whose checksums hold; copied, which is soon done if small."""
    source = pa.py_buffer(b"".join([head.prefix, *blocks]))
    batches = pa.ipc.open_stream(source, options=_options(head, columns))
    return [head.shaped(batch, columns, others) for batch in batches]


def decode_as_they_are(blocks: Sequence[pa.Buffer], head: Head) -> list[pa.RecordBatch]:
    """The rows of each of some blocks of a segment, with the columns that the segment has."""
    source = pa.py_buffer(b"".join([head.prefix, *blocks]))
    return list(pa.ipc.open_stream(source, options=_options(head, None)))


def _options(head: Head, columns: Sequence[str] | None) -> pa.ipc.IpcReadOptions:
    return pa.ipc.IpcReadOptions(included_fields=head.included(columns), use_threads=False)


class _Pieces:
    """Several buffers, read by Arrow one after the other without copying."""

    closed = False

    def __init__(self, pieces: list[pa.Buffer]) -> None:
        self._pieces = pieces
        self._at = 0
        self._told = 0

    def read_buffer(self, length: int) -> pa.Buffer:
        piece = self._pieces[0]
        taken = piece.slice(self._at, min(length, piece.size - self._at))
        self._at += taken.size
        self._told += taken.size
        if self._at == piece.size and len(self._pieces) > 1:
            del self._pieces[0]
            self._at = 0
        return taken

    def read(self, length: int) -> bytes:
        octets: bytes = self.read_buffer(length).to_pybytes()
        return octets

    def tell(self) -> int:
        return self._told

    def close(self) -> None: ...

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

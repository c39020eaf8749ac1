"""Arrow IPC streams: one payload is a table, of which each row becomes one.

What a stream says of itself is a stranger's word: rows are counted, compressed buffers are measured
before they are opened, and every buffer is validated, before a value is looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from elea.decode.columns.base import Decoder, Outcome, joined
from elea.decode.layout import Structure
from elea.limits import DEFAULT_LIMITS

_CONTINUATION: Final = 0xFFFF_FFFF
_DICTIONARY, _BATCH = 2, 3  # kinds of message
_UNFIT: Final = (pa.ArrowException, ValueError, OSError, struct.error, MemoryError, OverflowError)


class IpcDecoder(Decoder):
    """Tables in payloads; columns by name, null where a table has none of it."""

    def __init__(self, layout: Structure) -> None:
        super().__init__(layout)

    def decode(self, payloads: pa.Array) -> Outcome:
        parts: list[tuple[pa.Array, pa.Array]] = []
        failed: dict[int, str] = {}
        for row in range(len(payloads)):
            try:
                values = self._table(payloads[row].as_buffer())
            except _UNFIT as error:
                failed[row] = (str(error) or type(error).__name__).partition("\n")[0][:200]
                continue
            parts.append((pa.array([row] * len(values), pa.int64()), values))
        return Outcome(*joined(parts, self.type), failed)

    def _table(self, payload: pa.Buffer) -> pa.Array:
        length = sum(_message_lens(memoryview(payload)))
        if length > DEFAULT_LIMITS.decode_rows_len:
            raise ValueError(f"{length} octets unpacked, {DEFAULT_LIMITS.decode_rows_len} at most")
        rows_count = 0
        arrays: list[pa.Array] = []
        with pa.ipc.open_stream(payload) as reader:
            for batch in reader:
                rows_count += batch.num_rows
                if rows_count > DEFAULT_LIMITS.decode_rows_count:
                    reason = f"more than {DEFAULT_LIMITS.decode_rows_count} rows"
                    raise ValueError(reason)
                batch.validate(full=True)
                arrays.append(self._rows(batch))
        return pa.concat_arrays(arrays) if arrays else pa.array([], self.type)

    def _rows(self, batch: pa.RecordBatch) -> pa.Array:
        columns = []
        for field in self.type:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(place)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            columns.append(column.cast(field.type))
        return pa.StructArray.from_arrays(columns, fields=list(self.type))


def _message_lens(data: memoryview) -> Iterator[int]:
    """The octets that each message of a stream will take once it is read.

    Raises:
        ValueError, struct.error: the stream is cut off or contradicts itself.
    """
    at = 0
    while at + 8 <= len(data):
        mark, length = struct.unpack_from("<Ii", data, at)
        if mark != _CONTINUATION or length < 0:
            raise ValueError("no Arrow IPC stream")
        if length == 0:
            return
        metadata = data[at + 8 : at + 8 + length]
        message = _Table.root(metadata)
        body_len = message.number(3, "<q", 0)
        body = data[at + 8 + length : at + 8 + length + body_len]
        if body_len < 0 or len(body) < body_len:
            raise ValueError(f"a body of {body_len} octets is told of, {len(body)} are there")
        yield _unpacked_len(message, body)
        at += 8 + length + body_len


def _unpacked_len(message: _Table, body: memoryview) -> int:
    kind = message.number(1, "<B", 0)
    if kind not in (_DICTIONARY, _BATCH):
        return len(body)
    batch = message.table(2)
    if kind == _DICTIONARY:
        batch = batch.table(1)
    if batch.number(0, "<q", 0) > DEFAULT_LIMITS.decode_rows_count:
        raise ValueError(f"more than {DEFAULT_LIMITS.decode_rows_count} rows")
    if not batch.place(3):  # not compressed
        return len(body)
    total = 0
    for offset, length in batch.pairs(2):
        if length >= 8:
            (unpacked,) = struct.unpack_from("<q", body, offset)
            total += max(unpacked, length)
    return total


class _Table:
    """As much of a flatbuffer as it takes to find lengths."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        (back,) = struct.unpack_from("<i", data, at)
        self._fields = at - back
        if self._fields < 0:
            raise ValueError("a table points outside of its message")
        (self._fields_len,) = struct.unpack_from("<H", data, self._fields)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        (at,) = struct.unpack_from("<I", data, 0)
        return cls(data, at)

    def place(self, number: int) -> int:
        """Where a field is; 0: it is not there."""
        entry = 4 + 2 * number
        if entry + 2 > self._fields_len:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._fields + entry)
        return self._at + offset if offset else 0

    def number(self, field: int, code: str, default: int) -> int:
        place = self.place(field)
        return int(struct.unpack_from(code, self._data, place)[0]) if place else default

    def table(self, field: int) -> _Table:
        place = self.place(field)
        if not place:
            raise ValueError("a message without its header")
        (offset,) = struct.unpack_from("<I", self._data, place)
        return _Table(self._data, place + offset)

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Offsets and lengths of buffers."""
        place = self.place(field)
        if not place:
            return []
        (offset,) = struct.unpack_from("<I", self._data, place)
        (count,) = struct.unpack_from("<I", self._data, place + offset)
        start = place + offset + 4
        octets = self._data[start : start + 16 * count]
        return [(first, second) for first, second in struct.iter_unpack("<qq", octets)]

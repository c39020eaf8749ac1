"""JSON: many payloads at a time by Arrow's parser, where it is sure to read them one by one.

Arrow reads a text of many objects and does not know where one payload ends. A payload that begins
with `{` and ends with `}`, with no NUL in it, can neither take in a part of the next one nor leave
one to it without an error: after `}` no `{` may follow inside an object, and no text in quotes may
hold the line end between them. So if there are as many objects as payloads, each is one. Whatever
else there is, and each half in which Arrow finds an error, is read payload by payload.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from elea.decode.columns.base import Decoder
from elea.decode.columns.types import TEXT, table_type
from elea.decode.json_text import check_depth, read
from elea.decode.layout import Layout, ListOf, Primitive, Structure
from elea.limits import DEFAULT_LIMITS

_FEW: Final = 64  # so many are read one by one rather than halved again
_DIRECT: Final = {"bool", "i8", "i16", "i32", "i64", "f32", "f64", "string"}
_UNSIGNED: Final = {"u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64()}


class JsonDecoder(Decoder):
    """JSON with a declared layout; members that are not in it are left out."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._parsed = _parsed_type(layout) if isinstance(layout, Structure) else None

    def fast(self, payloads: pa.Array) -> tuple[list[tuple[pa.Array, pa.Array]], Iterable[int]]:
        if self._parsed is None or len(payloads) < _FEW:
            return [], range(len(payloads))
        sure = _is_sure(payloads)
        parts: list[tuple[pa.Array, pa.Array]] = []
        rest = pc.indices_nonzero(pc.invert(sure)).to_pylist()
        todo = [pc.indices_nonzero(sure).cast(pa.int64())]
        while todo:
            rows = todo.pop()
            if len(rows) < _FEW:
                rest.extend(rows.to_pylist())
                continue
            values = self._parse(payloads.take(rows) if len(rows) < len(payloads) else payloads)
            if values is None:
                half = len(rows) // 2
                todo += [rows[half:], rows[:half]]
            else:
                parts.append((rows, values))
        return parts, rest

    def _parse(self, payloads: pa.Array) -> pa.Array | None:
        """All of them at once; None if one is not as declared: halves are tried, then each."""
        assert self._parsed is not None
        lines = pa.Array.from_buffers(
            pa.binary(), len(payloads), payloads.buffers(), offset=payloads.offset
        )
        text = pc.binary_join(
            pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), b"\n"
        )[0].as_buffer()
        try:
            table = pyarrow.json.read_json(
                io.BytesIO(text),
                read_options=pyarrow.json.ReadOptions(
                    use_threads=False, block_size=max(1 << 20, len(text) + 1)
                ),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(list(self._parsed)),
                    unexpected_field_behavior="ignore",
                ),
            )
            if len(table) != len(payloads):
                return None
            return table.to_struct_array().combine_chunks().cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def value(self, payload: bytes) -> object:
        return parse_json(payload)

    def unknown(self, payload: bytes) -> object:
        return parse_json(payload)


class JsonTextDecoder(Decoder):
    """JSON without a layout: its text, if it is JSON; Spark's `parse_json` makes a VARIANT."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def value(self, payload: bytes) -> object:
        parse_json(payload)
        return payload.decode()


def parse_json(payload: bytes) -> object:
    """The value of a payload.

    Raises:
        ValueError, RecursionError: it is no JSON, or nested too deeply.
    """
    return check_depth(read(payload))


def _is_sure(payloads: pa.Array) -> pa.Array:
    """Which payloads are objects to Arrow if they are anything."""
    open_count = pc.add(
        pc.count_substring(payloads, pattern="{"), pc.count_substring(payloads, pattern="[")
    )
    ends = pc.and_(pc.starts_with(payloads, pattern="{"), pc.ends_with(payloads, pattern="}"))
    # Half a character in an escape passes Arrow, and no table can hold it.
    plain = pc.invert(pc.match_substring_regex(payloads, r"(?s)\x00|\\u[dD][89a-fA-F]"))
    shallow = pc.less_equal(open_count, DEFAULT_LIMITS.decode_depth)
    return pc.and_(pc.and_(pc.and_(ends, plain), shallow), _is_utf8(payloads))


def _is_utf8(payloads: pa.Array) -> pa.Array:
    """Which payloads are UTF-8: Arrow's parser does not look."""
    found: list[pa.Array] = []
    todo = [payloads]
    while todo:
        some = todo.pop()
        half = len(some) // 2
        try:
            some.cast(pa.string())
            found.append(pa.repeat(True, len(some)))
        except pa.ArrowInvalid:
            if half == 0:
                found.append(pa.array([False]))
            else:
                todo += [some[half:], some[:half]]
    return pa.concat_arrays(found)


def _parsed_type(layout: Layout) -> pa.DataType | None:
    """What Arrow's parser is to make of it; None if it cannot."""
    match layout:
        case Primitive(name=name) if name in _DIRECT:
            return table_type(layout)
        case Primitive(name=name):
            return _UNSIGNED.get(name)
        case ListOf(count=None):
            item = _parsed_type(layout.item)
            return None if item is None else pa.list_(pa.field("element", item))
        case Structure():
            fields = [(name, _parsed_type(member)) for name, member in layout.members]
            if any(type is None for _, type in fields):
                return None
            return pa.struct(fields)
        case _:
            return None

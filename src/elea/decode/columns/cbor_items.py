"""CBOR, many payloads at a time where they are alike, as those of one program are.

Like other formats of fixed places (`slices`): two payloads with the same names in the same order,
and numbers of the same widths, have their values at the same places.
"""

from __future__ import annotations

from array import array
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea import cbor
from elea.decode.cbor_text import plain_value
from elea.decode.columns.slices import SlicingDecoder, text_slices
from elea.decode.columns.types import TEXT, as_text, table_type
from elea.decode.columns.walk import NUMBERS, Gather, NoSlicesError, Walk
from elea.decode.json_text import check_depth
from elea.decode.layout import Layout, ListOf, Primitive, Structure

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _OTHER = range(8)
_DEPTH_MAX: Final = 8  # deeper ones are read
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS: Final = {4: ("f", pa.float32()), 8: ("d", pa.float64())}
_FALSE, _TRUE, _NULL = 20, 21, 22


class CborDecoder(SlicingDecoder):
    """One CBOR item; without a layout it is given as JSON, octets in base64."""

    def __init__(self, layout: Layout | None = None) -> None:
        super().__init__(layout or TEXT)
        self._as_text = layout is None

    def value(self, payload: bytes) -> object:
        value = check_depth(_value(payload))
        return as_text(value) if self._as_text else value

    def plan(self, walk: Walk) -> Gather:
        if self._as_text:
            raise NoSlicesError
        gather = _planned(self.layout, walk)
        if walk.at != len(walk.payload):
            raise NoSlicesError
        return gather

    def unknown(self, payload: bytes) -> object:
        return None if self._as_text else _value(payload)


def _value(payload: bytes) -> object:
    return plain_value(cbor.loads(payload), by_text=True)


def _head(walk: Walk) -> tuple[int, int, int, int]:
    """Major type, additional information, and where the argument is; the first octet is agreed."""
    start = walk.take(1, 1)
    walk.agreed.append((start, start + 1))
    major, info = walk.payload[start] >> 5, walk.payload[start] & 0x1F
    if info < 24:
        return major, info, walk.at, 0
    if info > 27:
        raise NoSlicesError
    width = 1 << info - 24
    return major, info, walk.take(width, 1), width


def _count(walk: Walk, info: int, start: int, width: int) -> int:
    """A length, in which all agree."""
    if not width:
        return info
    walk.agreed.append((start, start + width))
    return int.from_bytes(walk.payload[start : start + width], "big")


def _planned(layout: Layout | None, walk: Walk, depth: int = 0) -> Gather:
    """How the values of an item are cut out; None: it is only passed by."""
    if depth > _DEPTH_MAX:
        raise NoSlicesError
    major, info, start, width = _head(walk)
    if major == _OTHER:
        return _planned_other(layout, info, start, width)
    if major in (_UNSIGNED, _NEGATIVE):
        return _planned_integer(layout, major, info, start, width)
    if major == _TAG:
        raise NoSlicesError
    count = _count(walk, info, start, width)
    if major in (_BYTES, _TEXT):
        at = walk.take(count, 1)
        legal = "string" if major == _TEXT else "bytes"
        if layout is not None and not (isinstance(layout, Primitive) and layout.name == legal):
            raise NoSlicesError
        if major == _TEXT:  # a text that is no UTF-8 has to be found, wanted or not
            return lambda cut: text_slices(cut, at, at + count).cast(pa.string())
        return lambda cut: text_slices(cut, at, at + count)
    if major == _ARRAY:
        return _planned_list(layout, walk, count, depth)
    return _planned_map(layout, walk, count, depth)


def _planned_other(layout: Layout | None, info: int, start: int, width: int) -> Gather:
    if width in _FLOATS:
        code, type = _FLOATS[width]
        if layout is not None and not _is(layout, "f32", "f64"):
            raise NoSlicesError
        return lambda cut: _swapped(cut, start, width, code, type)
    if info == _NULL:
        wanted = pa.null() if layout is None else table_type(layout)
        return lambda cut: pa.nulls(len(cut), wanted)
    if info not in (_FALSE, _TRUE) or (layout is not None and not _is(layout, "bool")):
        raise NoSlicesError
    return lambda cut: pa.repeat(info == _TRUE, len(cut))


def _planned_integer(
    layout: Layout | None, major: int, info: int, start: int, width: int
) -> Gather:
    if layout is not None and not (isinstance(layout, Primitive) and layout.name in NUMBERS):
        raise NoSlicesError
    wanted = NUMBERS[layout.name] if isinstance(layout, Primitive) else None

    def gather(cut: pa.Array) -> pa.Array:
        if width:
            numbers = _swapped(cut, start, width, _CODES[width], NUMBERS[f"u{8 * width}"])
        else:
            numbers = pa.repeat(pa.scalar(info, pa.uint8()), len(cut))
        if major == _NEGATIVE:
            numbers = pc.subtract(pa.scalar(-1, pa.int64()), numbers.cast(pa.int64()))
        if wanted is None:
            return numbers
        # A large integer in a column of floats is the nearest float, as in Python.
        return numbers.cast(wanted, safe=not pa.types.is_floating(wanted))

    return gather


def _planned_list(layout: Layout | None, walk: Walk, count: int, depth: int) -> Gather:
    if layout is not None and not (isinstance(layout, ListOf) and layout.count in (None, count)):
        raise NoSlicesError
    item = layout.item if isinstance(layout, ListOf) else None
    plans = [_planned(item, walk, depth + 1) for _ in range(count)]
    listed = None if layout is None else table_type(layout)

    def gather(cut: pa.Array) -> pa.Array:
        arrays = [plan(cut) for plan in plans]
        if listed is None:
            return pa.nulls(len(cut))
        if not arrays:
            return pa.array([[]] * len(cut), listed)
        rows = len(cut)
        values = pa.concat_arrays([array.cast(listed.value_type) for array in arrays])
        order = [row + place * rows for row in range(rows) for place in range(count)]
        offsets = pa.array(range(0, rows * count + 1, count), pa.int32())
        return pa.ListArray.from_arrays(offsets, values.take(pa.array(order))).cast(listed)

    return gather


def _planned_map(layout: Layout | None, walk: Walk, count: int, depth: int) -> Gather:
    if layout is not None and not isinstance(layout, Structure):
        raise NoSlicesError
    members = dict(layout.members) if isinstance(layout, Structure) else {}
    plans: dict[str, Gather] = {}
    for _ in range(count):
        start = walk.at
        major, info, at, width = _head(walk)
        if major != _TEXT:
            raise NoSlicesError
        length = _count(walk, info, at, width)
        at = walk.take(length, 1)
        walk.agreed.append((start, walk.at))
        try:
            name = walk.payload[at : walk.at].decode()
        except UnicodeDecodeError:
            raise NoSlicesError from None
        if name in plans:
            raise NoSlicesError
        plans[name] = _planned(members.get(name), walk, depth + 1)
    type = None if layout is None else table_type(layout)

    def gather(cut: pa.Array) -> pa.Array:
        found = {name: plan(cut) for name, plan in plans.items()}
        if type is None:
            return pa.nulls(len(cut))
        columns = [
            found[field.name].cast(field.type)
            if field.name in found
            else pa.nulls(len(cut), field.type)
            for field in type
        ]
        return pa.StructArray.from_arrays(columns, fields=list(type))

    return gather


def _swapped(cut: pa.Array, start: int, width: int, code: str, type: pa.DataType) -> pa.Array:
    """Numbers in network order."""
    octets = pc.binary_slice(cut, start, start + width)
    first = octets.offset * width
    numbers = array(code)
    assert numbers.itemsize == width
    numbers.frombytes(memoryview(octets.buffers()[1])[first : first + len(octets) * width])
    numbers.byteswap()
    return pa.Array.from_buffers(type, len(octets), [None, pa.py_buffer(numbers)])


def _is(layout: Layout, *names: str) -> bool:
    return isinstance(layout, Primitive) and layout.name in names

"""CDR and Zenoh's serialization format, many payloads at a time; CBOR does the same.

Payloads of one layout that agree in their lengths and counts have each value at the same place. One
payload is walked to find the places; all payloads as long, with the same octets where lengths and
counts are, are cut there in one step each, and the octets are the values. Of a list each item is
cut by itself, and the items are put in order. What is left is walked again, a few times; then CDR
is walked together, whatever its lengths (`lockstep.py`), and the rest one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.columns import lockstep
from elea.decode.columns.base import Decoder
from elea.decode.columns.composites import (
    absent,
    go_to,
    planned_by_ids,
    planned_enumeration,
    planned_optional,
    planned_union,
)
from elea.decode.columns.types import SPAN, STAMP, members, table_type
from elea.decode.columns.walk import (
    CDR1,
    CDR2,
    CDR_HEADER_LEN,
    CDR_LITTLE,
    NUMBERS,
    PARAMETER_LISTS,
    Gather,
    NoSlicesError,
    Walk,
)
from elea.decode.layout import (
    Enumeration,
    Layout,
    ListOf,
    OptionalOf,
    Primitive,
    Structure,
    TupleOf,
    UnionOf,
)
from elea.decode.layout_reader import read_cdr, read_serialized
from elea.ros.formats.layouts import Bytes, Span, Stamp

_ROUNDS_COUNT: Final = 32  # kinds of payloads of one batch that are cut; the rest is read
_FEW: Final = 16
_ITEMS_COUNT_MAX: Final = 256  # of a list whose items are cut one by one
_SHARE: Final = 16  # a kind of payloads that is less than this part of the rest is not worth it
_BYTES_MAX: Final = 0x7FFF_FFFF  # of one array: its offsets have 32 bits


class SlicingDecoder(Decoder):
    """Payloads in which values stand at the same places as in others like them."""

    def plan(self, walk: Walk) -> Gather:
        """How payloads like that of the walk are cut.

        Raises:
            NoSlicesError: it has to be read.
        """
        raise AssertionError("each format has its own")

    def fast(self, payloads: pa.Array) -> tuple[list[tuple[pa.Array, pa.Array]], Iterable[int]]:
        parts: list[tuple[pa.Array, pa.Array]] = []
        left = pa.array(range(len(payloads)), pa.int64())
        read: list[int] = []
        for _ in range(_ROUNDS_COUNT):
            if len(left) < _FEW:
                break
            walk = Walk(payloads[left[0].as_py()].as_py())
            try:
                gather = self.plan(walk)
            except NoSlicesError:
                read.append(left[0].as_py())
                left = left[1:]
                continue
            rows, cut = _alike(payloads, left, walk)
            is_all = len(rows) == len(left)
            few = len(rows) * _SHARE < len(left)
            left = left[:0] if is_all else left.filter(pc.invert(pc.is_in(left, rows)))
            read += self._gather(gather, rows, cut, parts)
            if few:
                break
        if len(left) >= _FEW:
            left = self.together(payloads, left, parts)
        return parts, [*read, *left.to_pylist()]

    def together(
        self, payloads: pa.Array, left: pa.Array, parts: list[tuple[pa.Array, pa.Array]]
    ) -> pa.Array:
        """Add what can be read together to the parts; returns the rows that cannot."""
        return left

    def _gather(
        self, gather: Gather, rows: pa.Array, cut: pa.Array, parts: list[tuple[pa.Array, pa.Array]]
    ) -> list[int]:
        """Add what was cut to the parts; returns the rows that have to be read.

        A text that is no UTF-8, or a truth value of 2, is found by halves.
        """
        read: list[int] = []
        todo = [(0, len(rows))]
        while todo:
            start, end = todo.pop()
            try:
                values = gather(cut[start:end]).cast(self.type)
            except pa.ArrowException:
                if end - start < _FEW:
                    read += rows[start:end].to_pylist()
                else:
                    half = (start + end) // 2
                    todo += [(half, end), (start, half)]
                continue
            parts.append((rows[start:end], values))
        return read


class LayoutDecoder(SlicingDecoder):
    """Payloads in CDR, or in Zenoh's serialization format."""

    def __init__(self, layout: Layout, *, cdr: bool) -> None:
        super().__init__(layout)
        self._cdr = cdr
        self._read: Callable[[Layout, bytes], object] = read_cdr if cdr else read_serialized

    def value(self, payload: bytes) -> object:
        return self._read(self.layout, payload)

    def together(
        self, payloads: pa.Array, left: pa.Array, parts: list[tuple[pa.Array, pa.Array]]
    ) -> pa.Array:
        if not self._cdr or lockstep.numpy is None:
            return left
        rest: list[pa.Array] = []
        todo = [left]
        while todo:
            rows = todo.pop()
            try:
                found, ok = lockstep.Together(payloads.take(rows)).values(self.layout)
                good = pa.array(ok)
                parts.append((rows.filter(good), found.filter(good).cast(self.type)))
                rest.append(rows.filter(pc.invert(good)))
            except lockstep.NotTogetherError:
                rest.append(rows)
            except pa.ArrowException:  # a text is no UTF-8: found by halves
                half = len(rows) // 2
                if half < _FEW:
                    rest.append(rows)
                else:
                    todo += [rows[:half], rows[half:]]
        return pa.concat_arrays(rest)

    def plan(self, walk: Walk) -> Gather:
        if self._cdr:
            walk.at, walk.align_max = CDR_HEADER_LEN, CDR_LITTLE.get(walk.payload[:2], 0)
            walk.agreed.append((0, 2))
            is_list = walk.payload[:2] in PARAMETER_LISTS
            has_ids = isinstance(self.layout, Structure) and bool(self.layout.ids)
            if not walk.align_max or is_list != has_ids:
                raise NoSlicesError
        return _planned(self.layout, walk)


def _alike(payloads: pa.Array, left: pa.Array, walk: Walk) -> tuple[pa.Array, pa.Array]:
    """The rows whose payloads are like that of the walk, and these as octets of one length."""
    length = len(walk.payload)
    some = payloads if len(left) == len(payloads) else payloads.take(left)
    same = pc.equal(pc.binary_length(some), length)
    if pc.all(same).as_py():
        rows, cut = left, _of_one_length(some, length)
    else:
        rows, cut = left.filter(same), some.filter(same).cast(pa.binary(length))
    if lockstep.numpy is not None and len(cut):
        same = _agree(cut, walk)
        if pc.all(same).as_py():
            return rows, cut
        return rows.filter(same), cut.filter(same)
    same = None
    for start, end in walk.agreed:
        octets = pc.binary_slice(cut, start, end).cast(pa.binary())
        agrees = pc.equal(octets, walk.payload[start:end])
        same = agrees if same is None else pc.and_(same, agrees)
    if same is None or pc.all(same).as_py():
        return rows, cut
    return rows.filter(same), cut.filter(same)


def _agree(cut: pa.Array, walk: Walk) -> pa.Array:
    """Which payloads have the same octets where all must agree: all places in one look."""
    numpy = lockstep.numpy
    places = numpy.concatenate([numpy.arange(*pair) for pair in walk.agreed or [(0, 0)]])
    expected = numpy.frombuffer(walk.payload, "u1")[places]
    return pa.array((octets_of(cut)[:, places] == expected).all(axis=1))


def octets_of(cut: pa.Array) -> Any:
    """Payloads of one length as rows of octets."""
    length = cut.type.byte_width
    data = lockstep.numpy.frombuffer(cut.buffers()[1], "u1")
    start = cut.offset * length
    return data[start : start + len(cut) * length].reshape(len(cut), length)


def _of_one_length(some: pa.Array, length: int) -> pa.Array:
    """Payloads of one length follow each other: they are not copied."""
    if some.type != pa.binary() or some.null_count or not len(some):
        return some.cast(pa.binary(length))
    _, offsets, data = some.buffers()
    (first,) = struct.unpack_from("<i", offsets, 4 * some.offset)
    return pa.Array.from_buffers(
        pa.binary(length), len(some), [None, data.slice(first, length * len(some))]
    )


def _planned(layout: Layout, walk: Walk) -> Gather:
    """How to cut the values of a layout out of payloads that are like the one of the walk."""
    match layout:
        case Primitive():
            return _planned_primitive(layout, walk)
        case Stamp() | Span():
            start = walk.take(8, 4)
            return _planned_time(layout, start)
        case Bytes(count=int(count)):
            start = walk.take(count, 1)
            return lambda cut: text_slices(cut, start, start + count)
        case Structure(ids=(_, *_)) if walk.align_max:
            return planned_by_ids(layout, walk, _planned)
        case Structure(ids=()) if not layout.appendable or walk.align_max == CDR1:
            return _planned_members(layout, walk)
        case Structure(appendable=True) if walk.align_max == CDR2:
            return _planned_members(layout, walk, walk.end())
        case TupleOf():
            return _planned_members(layout, walk)
        case Enumeration() if walk.align_max:
            return planned_enumeration(layout, walk)
        case OptionalOf() if walk.align_max:
            return planned_optional(layout, walk, _planned)
        case UnionOf() if walk.align_max:
            return planned_union(layout, walk, _planned)
        case ListOf(item=Primitive(name=name)) if name in NUMBERS:
            count = walk.count() if layout.count is None else layout.count
            return _planned_numbers(NUMBERS[name], count, layout, walk)
        case ListOf(item=Primitive(name="string")) if walk.align_max == 8 and lockstep.numpy:
            return _planned_texts(layout, walk)
        case ListOf():
            if walk.align_max == CDR2 and lockstep.is_composite(layout.item):
                walk.end()  # CDR 2 puts a length before such lists
            return _planned_items(layout, walk)
        case _:
            raise NoSlicesError


def _planned_members(layout: Structure | TupleOf, walk: Walk, end: int | None = None) -> Gather:
    """Members one behind the other; those of an older type end early, and the rest is null."""
    plans: list[Gather] = []
    for _, member in members(layout):
        is_absent = end is not None and walk.at >= end
        plans.append(absent(member) if is_absent else _planned(member, walk))
    if end is not None:
        go_to(walk, end)
    names = [name for name, _ in members(layout)]
    return lambda cut: pa.StructArray.from_arrays([plan(cut) for plan in plans], names)


def _planned_time(layout: Stamp | Span, start: int) -> Gather:
    micros = isinstance(layout, Stamp)
    times, part = (1_000_000, 1_000) if micros else (1_000_000_000, 1)

    def gather(cut: pa.Array) -> pa.Array:
        seconds = pc.binary_slice(cut, start, start + 4).view(pa.int32()).cast(pa.int64())
        ns = pc.binary_slice(cut, start + 4, start + 8).view(pa.uint32()).cast(pa.int64())
        whole = pc.add(pc.multiply(seconds, times), pc.divide(ns, part))
        return whole.view(STAMP) if micros else whole.cast(SPAN)

    return gather


def _planned_texts(layout: ListOf, walk: Walk) -> Gather:
    """The texts of a list, cut out of all payloads in one step."""
    numpy = lockstep.numpy
    count = walk.count() if layout.count is None else layout.count
    if count > _ITEMS_COUNT_MAX:
        raise NoSlicesError
    pieces, lengths = [], []
    for _ in range(count):
        length = walk.count()
        start = walk.take(length, 1)
        if length == 0 or walk.payload[start + length - 1] != 0:
            raise NoSlicesError
        walk.agreed.append((start + length - 1, start + length))
        pieces.append(numpy.arange(start, start + length - 1))
        lengths.append(length - 1)
    listed = table_type(layout)
    if count == 0:
        return lambda cut: pa.array([[]] * len(cut), listed)
    places, total = numpy.concatenate(pieces), sum(lengths)

    def gather(cut: pa.Array) -> pa.Array:
        rows = len(cut)
        if rows * total > _BYTES_MAX:
            raise pa.ArrowInvalid("more bytes than one array may have")
        offsets = numpy.zeros(rows * count + 1, numpy.int32)
        numpy.cumsum(numpy.tile(lengths, rows), out=offsets[1:])
        data = pa.py_buffer(numpy.ascontiguousarray(octets_of(cut)[:, places]))
        texts = pa.Array.from_buffers(
            pa.binary(), rows * count, [None, pa.py_buffer(offsets), data]
        ).cast(pa.string())
        ends = pc.multiply(arange(rows + 1), count).cast(pa.int32())
        return pa.ListArray.from_arrays(ends, texts).cast(listed)

    return gather


def _planned_items(layout: ListOf, walk: Walk) -> Gather:
    """Each item is cut as a member would be; then those of one payload are put together."""
    count = walk.count() if layout.count is None else layout.count
    if count > _ITEMS_COUNT_MAX:
        raise NoSlicesError
    listed = table_type(layout)
    if count == 0:
        return lambda cut: pa.array([[]] * len(cut), listed)
    plans = [_planned(layout.item, walk) for _ in range(count)]

    def gather(cut: pa.Array) -> pa.Array:
        rows = len(cut)
        items = pa.concat_arrays([plan(cut) for plan in plans])
        if count > 1:
            place = arange(rows * count)
            row = pc.divide(place, count)
            item = pc.subtract(place, pc.multiply(row, count))
            items = items.take(pc.add(pc.multiply(item, rows), row))
        offsets = pc.multiply(arange(rows + 1), count).cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, items).cast(listed)

    return gather


def arange(count: int) -> pa.Array:
    """0, 1, 2, ..."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def _planned_primitive(primitive: Primitive, walk: Walk) -> Gather:
    match primitive.name:
        case "string" | "bytes":
            length = walk.count()
            start = walk.take(length, 1)
            return _planned_text(primitive, start, length, walk)
        case "bool":
            start = walk.take(1, 1)
            return lambda cut: _truths(pc.binary_slice(cut, start, start + 1))
        case "char" if walk.align_max:  # beyond ASCII it is no UTF-8, and read
            start = walk.take(1, 1)
            return lambda cut: text_slices(cut, start, start + 1).cast(pa.string())
        case name if name in NUMBERS:
            start = walk.take(primitive.width, primitive.width)
            type, end = NUMBERS[name], start + primitive.width
            return lambda cut: pc.binary_slice(cut, start, end).view(type)
        case _:
            raise NoSlicesError


def _planned_text(primitive: Primitive, start: int, length: int, walk: Walk) -> Gather:
    end = start + length
    if primitive.name == "bytes":
        return lambda cut: text_slices(cut, start, end)
    if walk.align_max:  # a text of CDR ends with a NUL, which is not part of it
        if length == 0 or walk.payload[end - 1] != 0:
            raise NoSlicesError
        walk.agreed.append((end - 1, end))
        end -= 1
    return lambda cut: text_slices(cut, start, end).cast(pa.string())


def text_slices(cut: pa.Array, start: int, end: int) -> pa.Array:
    if start == end or not len(cut):
        return pa.array([b""] * len(cut), pa.binary())
    length = end - start
    if length * len(cut) > _BYTES_MAX:
        raise pa.ArrowInvalid("more bytes than one array may have")
    octets = pc.binary_slice(cut, start, end)
    # The bytes follow each other already: they only need their offsets.
    offsets = pc.multiply(arange(len(cut) + 1), length).cast(pa.int32())
    data = octets.buffers()[1].slice(octets.offset * length)
    return pa.Array.from_buffers(pa.binary(), len(cut), [None, offsets.buffers()[1], data])


def _planned_numbers(type: pa.DataType, count: int, layout: ListOf, walk: Walk) -> Gather:
    width = type.bit_width // 8
    start = walk.take(count * width, width) if count else walk.at
    end = start + count * width
    listed = table_type(layout)

    def gather(cut: pa.Array) -> pa.Array:
        if count == 0:
            return pa.array([[]] * len(cut), listed)
        offsets = pc.multiply(arange(len(cut) + 1), count).cast(pa.int32())
        octets = pc.binary_slice(cut, start, end)
        flat = pa.Array.from_buffers(
            type, len(cut) * count, [None, octets.buffers()[1]], offset=octets.offset * count
        )
        return pa.ListArray.from_arrays(offsets, flat.cast(listed.value_type)).cast(listed)

    return gather


def _truths(octets: pa.Array) -> pa.Array:
    numbers = octets.view(pa.uint8())
    if pc.any(pc.greater(numbers, 1)).as_py():
        raise pa.ArrowInvalid("a truth value is 0 or 1")
    return pc.equal(numbers, 1)

"""CDR and Zenoh's serialization format, many payloads at a time; CBOR does the same.

Payloads of one layout that agree in their lengths and counts have each value at the same place. One
payload is walked to find the places; all payloads as long, with the same octets where lengths and
counts are, are cut there in one step each, and the octets are the values. What is left is walked
again, a few times, and at last one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.predicate.layout import Layout, ListOf, Primitive, Structure, TupleOf
from elea.predicate.layout_reader import read_cdr, read_serialized
from elea.spark.decode.base import Decoder
from elea.spark.decode.types import members, table_type

_ROUNDS_COUNT: Final = 32  # kinds of payloads of one batch that are cut; the rest is read
_FEW: Final = 16
_SLICES_COUNT_MAX: Final = 512  # of one payload
_CDR_HEADER_LEN: Final = 4
# Encapsulations in little endian, to the largest alignment; the others are read one by one.
_CDR_LITTLE: Final = {b"\0\1": 8, b"\0\7": 4, b"\0\x09": 4, b"\0\x11": 4, b"\0\x15": 4}
NUMBERS: Final = {
    **{f"i{8 * width}": getattr(pa, f"int{8 * width}")() for width in (1, 2, 4, 8)},
    **{f"u{8 * width}": getattr(pa, f"uint{8 * width}")() for width in (1, 2, 4, 8)},
    "f32": pa.float32(),
    "f64": pa.float64(),
}


Gather: TypeAlias = Callable[[pa.Array], pa.Array]


class NoSlicesError(Exception):
    """This payload, or what it holds, has to be read."""


@dataclass(slots=True)
class Walk:
    """One payload of a layout: where it is read, and what others must agree in."""

    payload: bytes
    at: int = 0
    align_max: int = 0  # 0: numbers stand where they come, as in the serialization format
    agreed: list[tuple[int, int]] = field(default_factory=list)
    slices_count: int = 0

    def take(self, length: int, align: int) -> int:
        if self.align_max:
            self.at += -(self.at - _CDR_HEADER_LEN) % min(align, self.align_max)
        start = self.at
        self.at += length
        self.slices_count += 1
        if self.at > len(self.payload) or self.slices_count > _SLICES_COUNT_MAX:
            raise NoSlicesError
        return start

    def count(self) -> int:
        """A length or count, in which all must agree."""
        if self.align_max:
            start = self.take(4, 4)
            self.agreed.append((start, start + 4))
            (count,) = struct.unpack_from("<I", self.payload, start)
            return int(count)
        start, count, shift = self.at, 0, 0
        while True:
            octet = self.payload[self.take(1, 1)]
            count |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                self.agreed.append((start, self.at))
                return count
            if shift > 28:
                raise NoSlicesError


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
            left = left.filter(pc.invert(pc.is_in(left, rows)))
            read += self._gather(gather, rows, cut, parts)
        return parts, [*read, *left.to_pylist()]

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

    def plan(self, walk: Walk) -> Gather:
        if self._cdr:
            walk.at, walk.align_max = _CDR_HEADER_LEN, _CDR_LITTLE.get(walk.payload[:2], 0)
            walk.agreed.append((0, 2))
            if not walk.align_max:
                raise NoSlicesError
        return _planned(self.layout, walk)


def _alike(payloads: pa.Array, left: pa.Array, walk: Walk) -> tuple[pa.Array, pa.Array]:
    """The rows whose payloads are like that of the walk, and these as octets of one length."""
    length = len(walk.payload)
    some = payloads if len(left) == len(payloads) else payloads.take(left)
    same = pc.equal(pc.binary_length(some), length)
    rows, cut = left.filter(same), some.filter(same).cast(pa.binary(length))
    same = None
    for start, end in walk.agreed:
        octets = pc.binary_slice(cut, start, end).cast(pa.binary())
        agrees = pc.equal(octets, walk.payload[start:end])
        same = agrees if same is None else pc.and_(same, agrees)
    if same is None:
        return rows, cut
    return rows.filter(same), cut.filter(same)


def _planned(layout: Layout, walk: Walk) -> Gather:
    """How to cut the values of a layout out of payloads that are like the one of the walk."""
    match layout:
        case Primitive():
            return _planned_primitive(layout, walk)
        case Structure(appendable=False) | TupleOf():
            names = [name for name, _ in members(layout)]
            plans = [_planned(member, walk) for _, member in members(layout)]
            return lambda cut: pa.StructArray.from_arrays([plan(cut) for plan in plans], names)
        case ListOf(item=Primitive(name=name)) if name in NUMBERS:
            count = walk.count() if layout.count is None else layout.count
            return _planned_numbers(NUMBERS[name], count, layout, walk)
        case _:
            raise NoSlicesError


def _planned_primitive(primitive: Primitive, walk: Walk) -> Gather:
    match primitive.name:
        case "string" | "bytes":
            length = walk.count()
            start = walk.take(length, 1)
            return _planned_text(primitive, start, length, walk)
        case "bool":
            start = walk.take(1, 1)
            return lambda cut: _truths(pc.binary_slice(cut, start, start + 1))
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
    if start == end:
        return pa.array([b""] * len(cut), pa.binary())
    return pc.binary_slice(cut, start, end).cast(pa.binary())


def _planned_numbers(type: pa.DataType, count: int, layout: ListOf, walk: Walk) -> Gather:
    width = type.bit_width // 8
    start = walk.take(count * width, width) if count else walk.at
    end = start + count * width
    listed = table_type(layout)

    def gather(cut: pa.Array) -> pa.Array:
        offsets = pa.array(range(0, len(cut) * count + 1, count or 1), pa.int32())
        if count == 0:
            return pa.array([[]] * len(cut), listed)
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

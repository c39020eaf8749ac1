"""CDR of any lengths, many payloads at a time: all of them are walked together.

Where slices need payloads that agree in their lengths, this keeps a position for each payload and
reads one member of all of them in one step, with numpy. Items of lists are read item by item: the
first of all payloads, then the second of those that have one. What does not fit is marked, and read
one by one to say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from elea.decode.columns.types import SPAN, STAMP, table_type
from elea.decode.layout import (
    Enumeration,
    Layout,
    ListOf,
    OptionalOf,
    Primitive,
    Structure,
    UnionOf,
)
from elea.ros.formats.layouts import Bytes, Span, Stamp

numpy: Any
try:
    import numpy
except ModuleNotFoundError:  # it is optional: payloads are read one by one without it
    numpy = None

HEADER_LEN: Final = 4
ITEMS_COUNT_MAX: Final = 4_096  # of a list whose items are read one after the other
_PADDING_MAX: Final = 3
_WIDTHS: Final = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}
NUMBERS: Final = {
    **{f"i{8 * width}": (f"<i{width}", width) for width in (1, 2, 4, 8)},
    **{f"u{8 * width}": (f"<u{width}", width) for width in (1, 2, 4, 8)},
    "f32": ("<f4", 4),
    "f64": ("<f8", 8),
}


_CDR1: Final = 8  # told apart by their largest alignment
_CDR2: Final = 4
# Encapsulations in little endian, as a number of the first two bytes.
_LITTLE: Final = {0x0100: _CDR1, 0x0700: _CDR2, 0x0900: _CDR2, 0x1100: _CDR2, 0x1500: _CDR2}
_PIDS_SPECIAL: Final = (1, 0x3F01, 0x3F02)  # read one by one: they are rare
_UNION_CASES_MAX: Final = 64  # discriminators of one batch that are told apart


def is_composite(layout: Layout) -> bool:
    """Whether lists of such items have a length in front in CDR 2."""
    return not isinstance(layout, Primitive) or layout.name in ("string", "wstring", "bytes")


def enumerators(layout: Enumeration) -> dict[int, str]:
    """Names by their numbers; of several names of a number the first."""
    found: dict[int, str] = {}
    for name, number in layout.members.items():
        found.setdefault(number, name)
    return found


class NotTogetherError(Exception):
    """These payloads, or this layout, have to be read one by one."""


class Together:
    """Payloads that are walked together.

    Args:
        payloads: A BinaryArray without nulls.
    """

    def __init__(self, payloads: pa.Array) -> None:
        _, offsets, data = payloads.buffers()
        count = len(payloads)
        width = numpy.int64 if pa.types.is_large_binary(payloads.type) else numpy.int32
        places = numpy.frombuffer(offsets, width, count + 1, payloads.offset * width().itemsize)
        raw = numpy.frombuffer(data, numpy.uint8) if data is not None else numpy.zeros(0, "u1")
        self._data = raw
        self._last = max(len(raw) - 1, 0)
        starts, ends = places[:-1].astype(numpy.int64), places[1:].astype(numpy.int64)
        self.ok = ends - starts >= HEADER_LEN
        self._align_max = _CDR1
        if len(raw):
            heads = self._octets(starts, 2).view("<u2").ravel()
            good = numpy.flatnonzero(self.ok)
            head = int(heads[good[0]]) if len(good) else 0
            if head not in _LITTLE:
                raise NotTogetherError
            self._align_max = _LITTLE[head]
            self.ok &= heads == head
        self._starts, self._ends = starts + HEADER_LEN, ends
        self.at = self._starts.copy()
        self._rows: Any = slice(None)

    def values(self, layout: Layout) -> tuple[pa.Array, Any]:
        """Values of all payloads, and a mask of those that are right.

        Raises:
            NotTogetherError: the layout cannot be read so.
            ArrowException: a text is no UTF-8.
        """
        found = self._read(layout)
        left = self._ends - self.at
        self.ok &= (left >= 0) & (left <= _PADDING_MAX)
        return found, self.ok

    def _read(self, layout: Layout) -> pa.Array:
        match layout:
            case Stamp() | Span():
                seconds, ns = self._numbers("<i4", 4), self._numbers("<u4", 4)
                return _stamps(seconds, ns) if isinstance(layout, Stamp) else _spans(seconds, ns)
            case Structure(ids=()):
                return self._structure(layout)
            case Enumeration():
                return self._enumeration(layout)
            case OptionalOf():
                return self._optional(layout)
            case UnionOf():
                return self._union(layout)
            case Primitive(name="string" | "bytes"):
                return self._text(layout.name == "string")
            case Primitive(name="bool"):
                return self._truths()
            case Primitive(name=name) if name in NUMBERS:
                return pa.array(self._numbers(*NUMBERS[name]))
            case Bytes():
                return self._fixed_bytes(layout.count or 0)
            case ListOf(item=Primitive(name=name)) if name in NUMBERS:
                return self._number_lists(name, layout.count)
            case ListOf():
                return self._lists(layout)
            case _:
                raise NotTogetherError

    def _structure(self, layout: Structure) -> pa.Array:
        end = self._end() if layout.appendable and self._align_max == _CDR2 else None
        names = [name for name, _ in layout.members]
        arrays = list(self._members(layout))
        self._go_to(end)
        return pa.StructArray.from_arrays(arrays, names)

    def _end(self) -> Any:
        """Where something ends whose length comes first."""
        lengths = self._counts(1)
        return self.at + lengths

    def _go_to(self, end: Any) -> None:
        """What has members more is passed over; what has less is read one by one."""
        if end is not None:
            self.ok &= self.at <= end
            self.at = end

    def _enumeration(self, layout: Enumeration) -> pa.Array:
        numbers = self._numbers(f"<i{layout.width}", layout.width)
        names = enumerators(layout)
        known = numpy.array(list(names), numpy.int64)
        order = numpy.argsort(known)
        places = numpy.searchsorted(known, numbers, sorter=order)
        places = order[numpy.minimum(places, len(known) - 1)]
        self.ok &= known[places] == numbers
        return pa.array(list(names.values()), pa.string()).take(pa.array(places))

    def _optional(self, layout: OptionalOf) -> pa.Array:
        if self._align_max == _CDR2:
            told = self._take(1, 1).ravel()
            self.ok &= told <= 1
            return self._of_some(numpy.flatnonzero(told == 1), layout.item)
        heads = self._take(4, 4).view("<u2")
        self.ok &= ~numpy.isin(heads[:, 0] & 0x3FFF, _PIDS_SPECIAL)
        lengths = numpy.where(self.ok, heads[:, 1], 0).astype(numpy.int64)
        self.ok &= lengths <= self._ends - self.at
        return self._of_some(numpy.flatnonzero(lengths * self.ok), layout.item, lengths)

    def _of_some(self, rows: Any, layout: Layout, lengths: Any = None) -> pa.Array:
        """Values of some payloads; the others have none.

        With lengths, each is a parameter of CDR 1: alignment counts from its begin.
        """
        if not len(rows):
            return pa.nulls(len(self.at), table_type(layout))
        inner = self._some(rows)
        if lengths is not None:
            inner._starts = inner.at.copy()
        end = None if lengths is None else inner.at + lengths[rows]
        found = inner._read(layout).cast(table_type(layout))
        inner._go_to(end)
        self.at[rows], self.ok[rows] = inner.at, inner.ok
        places = numpy.full(len(self.at), -1, numpy.int64)
        places[rows] = numpy.arange(len(rows))
        return found.take(pa.array(places, mask=places < 0))

    def _union(self, layout: UnionOf) -> pa.Array:
        end = self._end() if layout.appendable and self._align_max == _CDR2 else None
        told = layout.discriminator
        if isinstance(told, Enumeration):
            numbers = self._numbers(f"<i{told.width}", told.width)
        elif isinstance(told, Primitive) and told.name in NUMBERS and told.name[0] in "iu":
            numbers = self._numbers(*NUMBERS[told.name])
        else:
            raise NotTogetherError
        kinds = numpy.unique(numbers)
        if len(kinds) > _UNION_CASES_MAX:
            raise NotTogetherError
        chosen = {int(kind): layout.chosen(int(kind)) for kind in kinds}
        arrays = []
        for case in layout.cases:
            picked = [kind for kind, one in chosen.items() if one is case]
            rows = numpy.flatnonzero(numpy.isin(numbers, picked))
            arrays.append(self._of_some(rows, case.item))
        self._go_to(end)
        return pa.StructArray.from_arrays(arrays, [case.name for case in layout.cases])

    def _members(self, layout: Structure) -> Iterator[pa.Array]:
        """Members of one width that follow each other are read at once."""
        pending: list[str] = []
        for _, member in layout.members:
            name = member.name if isinstance(member, Primitive) else ""
            is_number = name in NUMBERS
            if pending and not (is_number and NUMBERS[pending[0]][1] == NUMBERS[name][1]):
                yield from self._run(pending)
                pending = []
            if is_number:
                pending.append(name)
            else:
                yield self._read(member)
        if pending:
            yield from self._run(pending)

    def _run(self, names: list[str]) -> Iterator[pa.Array]:
        width = NUMBERS[names[0]][1]
        octets = self._take(width, width * len(names))
        words = octets.view(_WIDTHS[width])
        for place, name in enumerate(names):
            yield pa.array(numpy.ascontiguousarray(words[:, place]).view(NUMBERS[name][0]))

    def _numbers(self, dtype: str, width: int) -> Any:
        return self._take(width, width).view(dtype).ravel()

    def _take(self, align: int, length: int) -> Any:
        """The next bytes of each payload, as rows of one length."""
        self.at = self.at + (self._starts - self.at) % min(align, self._align_max)
        end = self.at + length
        self.ok &= end <= self._ends
        octets = self._octets(self.at, length)
        self.at = end
        return octets

    def _octets(self, starts: Any, length: int) -> Any:
        places = starts[:, None] + numpy.arange(length)
        if len(starts) and int(places[:, -1].max(initial=0)) > self._last:
            numpy.minimum(places, self._last, out=places)
        return self._data[places] if self._last else numpy.zeros((len(starts), length), "u1")

    def _counts(self, width: int) -> Any:
        """How many items each payload tells of; none where they cannot be."""
        counts = self._numbers("<u4", 4).astype(numpy.int64)
        self.ok &= counts * width <= self._ends - self.at
        return numpy.where(self.ok, counts, 0)

    def _text(self, is_text: bool) -> pa.Array:
        lengths = self._counts(1)
        starts, self.at = self.at, self.at + lengths
        if is_text:
            last = numpy.minimum(numpy.maximum(self.at - 1, 0), self._last)
            has_nul = (lengths > 0) & (self._data[last] == 0)  # what has none is read one by one
            self.ok &= has_nul
            lengths = numpy.where(has_nul & self.ok, numpy.maximum(lengths - 1, 0), 0)
        found = _binary(lengths, self._pieces(starts, lengths))
        return found.cast(pa.string()) if is_text else found

    def _pieces(self, starts: Any, lengths: Any) -> Any:
        """Bytes of each payload from a start on, one behind the other."""
        total = int(lengths.sum())
        if len(lengths) and total > 64 * len(lengths):  # long ones are copied one by one
            pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
            parts = [self._data[start : start + length] for start, length in pairs]
            return numpy.concatenate(parts) if parts else numpy.zeros(0, "u1")
        offsets = numpy.cumsum(lengths) - lengths
        places = numpy.repeat(starts - offsets, lengths) + numpy.arange(total)
        return self._data[places]

    def _truths(self) -> pa.Array:
        octets = self._take(1, 1).ravel()
        self.ok &= octets <= 1
        return pa.array(octets == 1)

    def _fixed_bytes(self, count: int) -> pa.Array:
        octets = self._take(1, count)
        return _binary(numpy.full(len(octets), count), octets.ravel())

    def _number_lists(self, name: str, fixed: int | None) -> pa.Array:
        dtype, width = NUMBERS[name]
        if fixed is not None:
            octets = self._take(width, width * fixed)
            return _lists(numpy.full(len(octets), fixed), pa.array(octets.view(dtype).ravel()))
        counts = self._counts(width)
        aligned = self.at + (self._starts - self.at) % min(width, self._align_max)
        self.at = numpy.where(counts > 0, aligned, self.at)
        self.ok &= self.at + counts * width <= self._ends
        counts = numpy.where(self.ok, counts, 0)
        octets = self._pieces(self.at, counts * width)
        self.at = self.at + counts * width
        return _lists(counts, pa.array(octets.view(dtype)))

    def _lists(self, layout: ListOf) -> pa.Array:
        """Items of any kind: the first of all payloads, then the second, and so on."""
        if self._align_max == _CDR2 and is_composite(layout.item):
            self._counts(1)  # how long it is; it is read item by item anyway
        counts = self._counts(1) if layout.count is None else numpy.full(len(self.at), layout.count)
        counts = numpy.where(self.ok, counts, 0)
        most = int(counts.max(initial=0))
        if most > ITEMS_COUNT_MAX:
            raise NotTogetherError
        offsets = numpy.cumsum(counts) - counts
        parts: list[pa.Array] = []
        places: list[Any] = []
        for number in range(max(most, 1)):
            rows = numpy.flatnonzero(counts > number)
            inner = self._some(rows)
            parts.append(inner._read(layout.item))
            self.at[rows], self.ok[rows] = inner.at, inner.ok
            places.append(offsets[rows] + number)
        values = pa.concat_arrays(parts)
        order = numpy.empty(len(values), numpy.int64)
        order[numpy.concatenate(places)] = numpy.arange(len(values))
        return _lists(counts, values.take(pa.array(order)))

    def _some(self, rows: Any) -> Together:
        """The walk of some of the payloads."""
        made = Together.__new__(Together)
        made._data, made._last = self._data, self._last
        made._align_max = self._align_max
        made._starts, made._ends = self._starts[rows], self._ends[rows]
        made.at, made.ok = self.at[rows], self.ok[rows]
        return made


def _binary(lengths: Any, octets: Any) -> pa.Array:
    offsets = _offsets(lengths)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numpy.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _lists(counts: Any, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(_offsets(counts)), values)


def _offsets(lengths: Any) -> Any:
    total = int(lengths.sum())
    if total > 0x7FFF_FFFF:
        raise NotTogetherError
    offsets = numpy.zeros(len(lengths) + 1, numpy.int32)
    numpy.cumsum(lengths, out=offsets[1:])
    return offsets


def _stamps(seconds: Any, ns: Any) -> pa.Array:
    micros = seconds.astype(numpy.int64) * 1_000_000 + ns.astype(numpy.int64) // 1_000
    return pa.array(micros).view(STAMP)


def _spans(seconds: Any, ns: Any) -> pa.Array:
    return pa.array(seconds.astype(numpy.int64) * 1_000_000_000 + ns.astype(numpy.int64)).cast(SPAN)

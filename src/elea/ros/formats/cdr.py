"""Messages as bytes: CDR read and written by plans that are made once per type (R2-382 to R2-385).

A type is a list of steps over a payload. Members of fixed width that stand in a row, those of
inner types included, are one step: where they are depends on the alignment of the first only. What
is read goes to one flat list; objects are made of it from the inside out.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from elea.errors import DecodeError
from elea.ros.formats.definitions import Definition, Field, FieldType, Repeat
from elea.ros.formats.numbers import empty_numbers, numbers_at

HEADER_LEN: Final = 4
LITTLE: Final = b"\x00\x01\x00\x00"
_CDR1: Final = {b"\x00\x00": ">", b"\x00\x01": "<"}
PADDING_MAX: Final = 3  # bytes behind a message
CODES: Final = {
    "bool": ("?", 1),
    "byte": ("B", 1),
    "char": ("B", 1),
    **{f"int{8 * width}": (code, width) for width, code in zip((1, 2, 4, 8), "bhiq", strict=True)},
    **{f"uint{8 * width}": (code, width) for width, code in zip((1, 2, 4, 8), "BHIQ", strict=True)},
    "float32": ("f", 4),
    "float64": ("d", 8),
}

Build = Callable[..., object]
Values = list[Any]


@dataclass(slots=True)
class _Leaf:
    """A number or an array of numbers in a row of fixed width."""

    path: str
    code: str
    width: int
    count: int = 0  # of an array; 0: a number


@dataclass(frozen=True, slots=True)
class _Spot:
    """A row of leaves at one alignment: how it is unpacked, and where its parts are."""

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    length: int
    truths: tuple[tuple[int, str], ...]
    arrays: tuple[tuple[int, int, _Leaf], ...]  # the place among the values, the offset
    ends: tuple[tuple[int, str], ...]


class _Row:
    """Leaves in a row, unpacked at once."""

    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self._spots: dict[tuple[str, int], _Spot] = {}

    def read(self, data: bytes, at: int, order: str, values: Values) -> int:
        spot = self._spots.get((order, at & 7)) or self._spot(order, at & 7)
        try:
            found = spot.unpack(data, at)
        except struct.error:
            self._refuse(data, at, spot)
        for offset, path in spot.truths:
            if data[at + offset] > 1:
                raise DecodeError(f"{path}: expected 0 or 1, got {data[at + offset]}", at + offset)
        if not spot.arrays:
            values += found
            return at + spot.length
        row = list(found)
        for place, offset, leaf in spot.arrays:
            row.insert(place, numbers_at(data, at + offset, leaf.count, leaf.code, order))
        values += row
        return at + spot.length

    def _spot(self, order: str, phase: int) -> _Spot:
        code, at = "", phase
        arrays, truths, ends = [], [], []
        for place, leaf in enumerate(self.leaves):
            pad = (HEADER_LEN - at) % leaf.width
            at += pad
            code += "x" * pad
            if leaf.count:
                arrays.append((place, at - phase, leaf))
                code += f"{leaf.count * leaf.width}x"
                at += leaf.count * leaf.width
            else:
                if leaf.code == "?":
                    truths.append((at - phase, leaf.path))
                code += leaf.code
                at += leaf.width
            ends.append((at - phase, leaf.path))
        form = struct.Struct(order + code)
        spot = _Spot(form.unpack_from, at - phase, tuple(truths), tuple(arrays), tuple(ends))
        self._spots[order, phase] = spot
        return spot

    def _refuse(self, data: bytes, at: int, spot: _Spot) -> None:
        left = len(data) - at
        path = next(path for end, path in spot.ends if end > left)
        raise DecodeError(f"ends in {path}", len(data))


Read = Callable[[bytes, int, str, Values], int]


class Plan:
    """How one type is read.

    Args:
        build: Makes an object of a type and the values of its members.
    """

    def __init__(
        self, name: str, definitions: Mapping[str, Definition], build: Callable[[str], Build]
    ) -> None:
        self._definitions = definitions
        self._build = build
        self._reads: list[Read] = []
        self._makes: list[tuple[Build, Callable[[Values], Any]]] = []
        self._row: _Row | None = None
        self._count = 0  # values that the reads give
        self._inner: dict[str, Plan] = {}
        tree = self._planned(definitions[name], "")
        self._numbered(tree, self._count)

    def read(self, data: bytes, at: int, order: str) -> tuple[Any, int]:
        """The object at a place, and where it ends.

        Raises:
            DecodeError: the data ends inside of it, or a value is none.
        """
        values: Values = []
        for read in self._reads:
            at = read(data, at, order, values)
        for make, chosen in self._makes:
            values.append(make(*chosen(values)))
        return values[-1], at

    def _planned(self, definition: Definition, path: str) -> tuple[str, list[Any]]:
        """Steps for the members; which of the values are for which object."""
        places: list[Any] = []
        for field in definition.members:
            inner = f"{path}.{field.name}" if path else field.name
            type = field.type
            if type.is_nested and type.repeat is Repeat.ONE:
                places.append(self._planned(self._definitions[type.base], inner))
                continue
            self._add(type, inner)
            places.append(self._count)
            self._count += 1
        return definition.name, places if definition.fields else []

    def _add(self, type: FieldType, path: str) -> None:
        is_number = type.base in CODES
        if is_number and type.repeat in (Repeat.ONE, Repeat.ARRAY):
            if self._row is None:
                self._row = _Row()
                self._reads.append(self._row.read)
            code, width = CODES[type.base]
            self._row.leaves.append(_Leaf(path, code, width, type.count))
            return
        self._row = None
        if is_number:
            self._reads.append(_numbers(path, *CODES[type.base]))
        elif type.repeat is Repeat.ONE:
            self._reads.append(_text(path, type.base))
        else:
            item = self._item(type, path)
            count = type.count if type.repeat is Repeat.ARRAY else None
            self._reads.append(_items(path, item, count))

    def _item(self, type: FieldType, path: str) -> Callable[[bytes, int, str], tuple[Any, int]]:
        if not type.is_nested:
            read = _text(f"{path}[]", type.base)

            def text(data: bytes, at: int, order: str) -> tuple[Any, int]:
                values: Values = []
                return values, read(data, at, order, values)

            return lambda data, at, order: _first(text(data, at, order))
        if type.base not in self._inner:
            self._inner[type.base] = Plan(type.base, self._definitions, self._build)
        return self._inner[type.base].read

    def _numbered(self, tree: tuple[str, list[Any]], count: int) -> int:
        """Objects from the inside out; each is one more value behind those that are read."""
        name, places = tree
        chosen: list[int] = []
        for place in places:
            if isinstance(place, tuple):
                count = self._numbered(place, count)
                chosen.append(count - 1)
            else:
                chosen.append(place)
        self._makes.append((self._build(name), _chooser(chosen)))
        return count + 1


def _first(found: tuple[Values, int]) -> tuple[Any, int]:
    return found[0][0], found[1]


def _chooser(places: list[int]) -> Callable[[Values], Any]:
    if not places:
        return lambda _values: ()
    if places == list(range(places[0], places[0] + len(places))):
        return itemgetter(slice(places[0], places[0] + len(places)))
    return itemgetter(*places)


def _counted(data: bytes, at: int, order: str, path: str) -> tuple[int, int]:
    at += (HEADER_LEN - at) % 4
    if at + 4 > len(data):
        raise DecodeError(f"ends in {path}", len(data))
    return int.from_bytes(data[at : at + 4], "little" if order == "<" else "big"), at + 4


def _text(path: str, base: str) -> Read:
    if base == "wstring":
        return _wide_text(path)

    def read(data: bytes, at: int, order: str, values: Values) -> int:
        length, at = _counted(data, at, order, path)
        end = at + length
        if end > len(data):
            raise DecodeError(f"ends in {path}", len(data))
        if not length or data[end - 1]:
            if length:
                raise DecodeError(f"{path}: expected NUL at the end of the text", end - 1)
            values.append("")  # some writers leave the NUL of an empty text out
            return at
        try:
            values.append(data[at : end - 1].decode())
        except UnicodeDecodeError as error:
            raise DecodeError(f"{path}: expected UTF-8", at + error.start) from None
        return end

    return read


def _wide_text(path: str) -> Read:
    """UTF-16 in units of 4 bytes, as Fast CDR 1 writes it; not settled, see R2-909."""

    def read(data: bytes, at: int, order: str, values: Values) -> int:
        count, at = _counted(data, at, order, path)
        end = at + 4 * count
        if end > len(data):
            raise DecodeError(f"ends in {path}", len(data))
        units = struct.unpack_from(f"{order}{count}I", data, at)
        try:
            values.append(struct.pack(f"<{count}H", *units).decode("utf-16-le"))
        except (struct.error, UnicodeDecodeError):
            raise DecodeError(f"{path}: expected UTF-16 in units of 4 bytes", at) from None
        return end

    return read


def _numbers(path: str, code: str, width: int) -> Read:
    def read(data: bytes, at: int, order: str, values: Values) -> int:
        count, at = _counted(data, at, order, path)
        if not count:
            values.append(empty_numbers(code))
            return at
        at += (HEADER_LEN - at) % width
        end = at + count * width
        if end > len(data):
            raise DecodeError(f"ends in {path}", len(data))
        if code == "?" and max(data[at:end]) > 1:
            raise DecodeError(f"{path}: expected values of 0 or 1", at)
        values.append(numbers_at(data, at, count, code, order))
        return end

    return read


def _items(
    path: str, item: Callable[[bytes, int, str], tuple[Any, int]], fixed: int | None
) -> Read:
    def read(data: bytes, at: int, order: str, values: Values) -> int:
        if fixed is None:
            count, at = _counted(data, at, order, path)
        else:
            count = fixed
        if count > len(data) - at:  # an item has one byte at least
            reason = f"{path}: {count} items are told of, {len(data) - at} bytes are left"
            raise DecodeError(reason, at)
        found = []
        for _ in range(count):
            one, at = item(data, at, order)
            found.append(one)
        values.append(found)
        return at

    return read


def check_end(data: bytes, at: int) -> None:
    """Raise unless what is left of a payload is padding (R2-382)."""
    if len(data) - at > PADDING_MAX:
        raise DecodeError(f"{len(data) - at} bytes are left", at)


def order_of(payload: bytes) -> str | None:
    """`<` or `>` for CDR 1; None: another representation.

    Raises:
        DecodeError: there is no header.
    """
    if len(payload) < HEADER_LEN:
        raise DecodeError("expected a header of 4 bytes", len(payload))
    return _CDR1.get(payload[:2])


NATIVE: Final = "<" if sys.byteorder == "little" else ">"


class Writer:
    """Writes messages of one type, little endian."""

    def __init__(self, name: str, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._members: dict[str, list[tuple[Field, str, Any]]] = {}
        self._name = name
        self._prepare(name)

    def write(self, values: Callable[[object, str, str], list[object]], message: object) -> bytes:
        """A message as a payload.

        Args:
            values: Gives the members of an object of a type, in order; its path is for errors.
        """
        out = bytearray(LITTLE)
        self._write(self._name, message, "", out, values)
        return bytes(out)

    def _prepare(self, name: str) -> None:
        if name in self._members:
            return
        made: list[tuple[Field, str, Any]] = []
        self._members[name] = made
        for field in self._definitions[name].members:
            code, width = CODES.get(field.type.base, ("", 0))
            made.append((field, code, width))
            if field.type.is_nested:
                self._prepare(field.type.base)

    def _write(
        self,
        name: str,
        message: object,
        path: str,
        out: bytearray,
        values: Callable[[object, str, str], list[object]],
    ) -> None:
        if not self._definitions[name].fields:
            values(message, name, path)
            out.append(0)
            return
        for (field, code, width), value in zip(
            self._members[name], values(message, name, path), strict=True
        ):
            at = f"{path}.{field.name}" if path else field.name
            type = field.type
            if type.repeat is Repeat.ONE:
                if type.is_nested:
                    self._write(type.base, value, at, out, values)
                elif code:
                    out += bytes((HEADER_LEN - len(out)) % width)
                    out += packed(code, value, at)
                else:
                    write_text(type, value, at, out)
            elif code:
                _write_numbers(type, code, width, value, at, out)
            else:
                self._write_items(type, value, at, out, values)

    def _write_items(
        self,
        type: FieldType,
        value: object,
        at: str,
        out: bytearray,
        values: Callable[[object, str, str], list[object]],
    ) -> None:
        if not isinstance(value, (list, tuple)):
            raise misfit(at, "a list", value)
        _begin(type, len(value), at, out)
        for number, item in enumerate(value):
            if type.is_nested:
                self._write(type.base, item, f"{at}[{number}]", out, values)
            else:
                write_text(type, item, f"{at}[{number}]", out)


def packed(code: str, value: object, at: str) -> bytes:
    """A number as bytes.

    Raises:
        ValueError: it does not fit.
    """
    if code == "?":
        if not isinstance(value, bool) and not (isinstance(value, int) and value in (0, 1)):
            value = _plain_truth(value, at)
        return b"\x01" if value else b"\x00"
    if isinstance(value, (bool, str, bytes)) or value is None:
        if code == "B" and isinstance(value, bytes) and len(value) == 1:
            return value  # as rclpy has `byte`
        raise misfit(at, "a number", value)
    try:
        return struct.pack(f"<{code}", value)
    except (struct.error, OverflowError, TypeError):
        raise misfit(at, _RANGES.get(code, "a number"), value) from None


def _plain_truth(value: object, at: str) -> bool:
    if type(value).__name__ in ("bool_", "bool"):  # of numpy
        return bool(value)
    raise misfit(at, "true or false", value)


def write_text(type: FieldType, value: object, at: str, out: bytearray) -> None:
    """A text, which must not be longer than its bound."""
    if not isinstance(value, str):
        raise misfit(at, "a text", value)
    out += bytes(-len(out) % 4)
    if type.base == "wstring":
        units = value.encode("utf-16-le")
        count = len(units) // 2
        if type.bound and count > type.bound:
            raise ValueError(f"{at}: expected at most {type.bound} units, got {count}")
        out += struct.pack(f"<I{count}I", count, *struct.unpack(f"<{count}H", units))
        return
    if "\0" in value:
        raise misfit(at, "a text without NUL", value)
    octets = value.encode()
    if type.bound and len(octets) > type.bound:
        raise ValueError(f"{at}: expected at most {type.bound} bytes, got {len(octets)}")
    out += struct.pack("<I", len(octets) + 1)
    out += octets
    out.append(0)


def _begin(type: FieldType, count: int, at: str, out: bytearray) -> None:
    """The count of a sequence, held against the definition."""
    if type.repeat is Repeat.ARRAY:
        if count != type.count:
            raise ValueError(f"{at}: expected {type.count} items, got {count}")
        return
    if type.repeat is Repeat.BOUNDED and count > type.count:
        raise ValueError(f"{at}: expected at most {type.count} items, got {count}")
    out += bytes(-len(out) % 4)
    out += struct.pack("<I", count)


def _write_numbers(
    type: FieldType, code: str, width: int, value: object, at: str, out: bytearray
) -> None:
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise misfit(at, "a list of numbers", value)
    count = len(value)
    _begin(type, count, at, out)
    if count:
        out += bytes((HEADER_LEN - len(out)) % width)
        out += _as_bytes(code, value, at)


def _as_bytes(code: str, value: Any, at: str) -> bytes:
    """Numbers as bytes: without a look at each where their type is the same already."""
    if code == "B" and isinstance(value, (bytes, bytearray)):
        return bytes(value)
    try:
        view = memoryview(value)
        is_same = view.format in (code, f"<{code}", f"={code}") and view.ndim == 1
        if is_same and view.contiguous and (NATIVE == "<" or view.itemsize == 1):
            return view.tobytes()
    except TypeError:
        pass
    items = value.tolist() if hasattr(value, "tolist") else list(value)
    try:
        if code not in "?" and not any(isinstance(item, (bool, str)) for item in items):
            return struct.pack(f"<{len(items)}{code}", *items)
    except (struct.error, OverflowError, TypeError):
        pass
    return b"".join(packed(code, item, f"{at}[{place}]") for place, item in enumerate(items))


def misfit(at: str, legal: str, value: object) -> ValueError:
    """A value that is none of its type, with its path."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ValueError(
        f"{at}: expected {legal}, got {shown}" if at else f"expected {legal}, got {shown}"
    )


_RANGES: Final = {
    **{
        code: f"an integer from {-(1 << 8 * width - 1)} to {(1 << 8 * width - 1) - 1}"
        for code, width in zip("bhiq", (1, 2, 4, 8), strict=True)
    },
    **{
        code: f"an integer from 0 to {(1 << 8 * width) - 1}"
        for code, width in zip("BHIQ", (1, 2, 4, 8), strict=True)
    },
}

"""Values in payloads of a declared layout: CDR, and Zenoh's serialization format.

Both are read from left to right into plain values: structures and maps are dicts, lists and tuples
are lists. A count is believed only as far as there are octets left for that many items.
"""

from __future__ import annotations

import struct
from typing import Final

from elea.decode.layout import (
    Enumeration,
    Layout,
    ListOf,
    MapOf,
    OptionalOf,
    Primitive,
    Structure,
    TupleOf,
    UnionOf,
)
from elea.decode.values import Enumerator

# Encapsulation identifiers: (little endian, version). RTPS and XTypes number version 2 differently.
_ENCAPSULATIONS: Final = {
    0x0000: (False, 1),
    0x0001: (True, 1),
    0x0002: (False, 1),
    0x0003: (True, 1),
    0x0006: (False, 2),
    0x0007: (True, 2),
    0x0008: (False, 2),
    0x0009: (True, 2),
    0x000A: (False, 2),
    0x000B: (True, 2),
    0x0010: (False, 2),
    0x0011: (True, 2),
    0x0014: (False, 2),
    0x0015: (True, 2),
}
_PARAMETER_LISTS: Final = frozenset({0x0002, 0x0003, 0x000A, 0x000B})
_HEADER_LEN: Final = 4
_PID_EXTENDED: Final = 0x3F01
_PID_END: Final = 0x3F02
_PID_SENTINEL: Final = 1  # the end of a list in RTPS; as the id of a member it has a length
_LENGTH_BITS: Final = 64


def read_cdr(layout: Layout, payload: bytes) -> object:
    """The value of a payload in CDR: encapsulation header, then octets by the layout.

    Plain CDR 1 and 2, delimited CDR 2 and parameter lists of both, in both orders of octets.

    Raises:
        ValueError: the payload is no such value.

    Example:
        >>> from elea.decode.layout import parse_layout
        >>> read_cdr(parse_layout("{a: u8, b: u16}"), bytes.fromhex("00010000 07 00 0100"))
        {'a': 7, 'b': 1}
    """
    if len(payload) < _HEADER_LEN:
        raise ValueError("no encapsulation header")
    identifier = int.from_bytes(payload[:2], "big")
    if identifier not in _ENCAPSULATIONS:
        raise ValueError(f"encapsulation {identifier:#06x} is not read")
    if identifier in _PARAMETER_LISTS and isinstance(layout, Structure) and not layout.ids:
        raise ValueError(f"encapsulation {identifier:#06x} is of types whose members have ids")
    little, version = _ENCAPSULATIONS[identifier]
    return _CdrReader(payload[_HEADER_LEN:], little=little, version=version).value(layout)


def read_serialized(layout: Layout, payload: bytes) -> object:
    """The value of a payload in Zenoh's serialization format.

    A structure is a tuple with names; enumerations have no form there.

    Raises:
        ValueError: the payload is no such value.

    Example:
        >>> from elea.decode.layout import parse_layout
        >>> read_serialized(parse_layout("(i8, [string])"), b"\\xff\\x01\\x02hi")
        [-1, ['hi']]
    """
    return _SerializedReader(payload).value(layout)


class _Reader:
    """What both formats share: the walk over a layout."""

    order = "<"

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, layout: Layout) -> object:
        match layout:
            case Primitive():
                return self.primitive(layout)
            case Structure():
                return {name: self.value(member) for name, member in layout.members}
            case TupleOf():
                return [self.value(item) for item in layout.items]
            case ListOf():
                count = self.count() if layout.count is None else layout.count
                return [self.value(layout.item) for _ in range(count)]
            case MapOf():
                return dict(self._pair(layout) for _ in range(self.count()))
            case Enumeration():
                return Enumerator(self.enumerator(layout.width), layout.members)
            case OptionalOf():
                return self.value(layout.item) if self._is_present() else None
            case UnionOf():
                return self._union(layout)

    def _is_present(self) -> bool:
        octet = self.take(1)[0]
        if octet > 1:
            raise ValueError(f"an optional member is there or not, got {octet}")
        return octet == 1

    def _union(self, layout: UnionOf) -> object:
        told = self.value(layout.discriminator)
        if isinstance(told, Enumerator):
            told = told.number
        elif isinstance(told, str):
            told = ord(told)
        if not isinstance(told, int):
            raise ValueError("a discriminator is an integer")
        found: dict[str, object] = {case.name: None for case in layout.cases}
        chosen = layout.chosen(told)
        if chosen is not None:
            found[chosen.name] = self.value(chosen.item)
        return found

    def _pair(self, layout: MapOf) -> tuple[object, object]:
        name = self.value(layout.name)
        if not isinstance(name, (str, int)):
            raise ValueError("the name in a map is neither text nor integer")
        return name, self.value(layout.value)

    def primitive(self, primitive: Primitive) -> object:
        match primitive.name:
            case "string":
                return self.text()
            case "wstring":
                return self.wide_text()
            case "bytes":
                return self.take(self.count())
            case "char":
                return self.take(1).decode("latin-1")
            case "bool":
                octet = self.take(1)[0]
                if octet > 1:
                    raise ValueError(f"a bool is 0 or 1, got {octet}")
                return octet == 1
        octets = self.number(primitive.width)
        if not primitive.code:
            order = "little" if self.order == "<" else "big"
            return int.from_bytes(octets, order, signed=primitive.name.startswith("i"))  # type: ignore[arg-type]  # one of the two
        (number,) = struct.unpack(self.order + primitive.code, octets)
        return number

    def number(self, width: int) -> bytes:
        return self.take(width)

    def count(self) -> int:
        raise AssertionError("each format has its own")

    def text(self) -> str:
        return self.take(self.count()).decode()

    def wide_text(self) -> str:
        raise ValueError("there are no wide strings in this format")

    def enumerator(self, width: int) -> int:
        raise ValueError("there are no enumerations in this format")

    def check_room(self, count: int) -> int:
        left = len(self._data) - self._at
        if count > left:
            raise ValueError(f"{count} octets or items are told of, and {left} octets are left")
        return count

    def take(self, length: int) -> bytes:
        self.check_room(length)
        self._at += length
        return self._data[self._at - length : self._at]


class _SerializedReader(_Reader):
    """Fixed widths, little endian; lengths in LEB128."""

    def count(self) -> int:
        length = shift = 0
        while True:
            octet = self.take(1)[0]
            length |= (octet & 0x7F) << shift
            if octet < 0x80:
                return self.check_room(length)
            shift += 7
            if shift >= _LENGTH_BITS:
                raise ValueError("a length has at most 64 bits")


class _CdrReader(_Reader):
    """Numbers aligned to their width, counts of 32 bits, texts that end in NUL."""

    def __init__(self, data: bytes, *, little: bool, version: int) -> None:
        super().__init__(data)
        self.order = "<" if little else ">"
        self._version = version
        self._align_max = 8 if version == 1 else 4
        self._origin = 0  # alignment counts from here

    def value(self, layout: Layout) -> object:
        if isinstance(layout, Structure) and layout.ids:
            return self._mutable(layout) if self._version == 2 else self._parameters(layout)
        if self._version == 2:
            if isinstance(layout, Structure) and layout.appendable:
                return self._appendable(layout)
            if isinstance(layout, UnionOf) and layout.appendable:
                return self._whole(layout)
            if isinstance(layout, MapOf) or _is_list_of_composites(layout):
                return self._delimited(layout)
        elif isinstance(layout, OptionalOf):
            return self._optional_parameter(layout)
        return super().value(layout)

    def number(self, width: int) -> bytes:
        self._at += -(self._at - self._origin) % min(width, self._align_max)
        return self.take(width)

    def count(self) -> int:
        return self.check_room(self._word())

    def text(self) -> str:
        octets = self.take(self.count())
        if octets[-1:] != b"\0":
            raise ValueError("a string does not end in NUL")
        return octets[:-1].decode()

    def wide_text(self) -> str:
        octets = self.take(self.count())
        text = octets.decode("utf-16-le" if self.order == "<" else "utf-16-be")
        return text.removesuffix("\0")

    def enumerator(self, width: int) -> int:
        code = {1: "b", 2: "h", 4: "i"}[width]
        (number,) = struct.unpack(self.order + code, self.number(width))
        assert isinstance(number, int)
        return number

    def _word(self) -> int:
        (word,) = struct.unpack(self.order + "I", self.number(4))
        assert isinstance(word, int)
        return word

    def _short(self) -> int:
        (short,) = struct.unpack(self.order + "H", self.number(2))
        assert isinstance(short, int)
        return short

    def _mutable(self, layout: Structure) -> object:
        """Members behind their ids, in any order; unknown ones are passed over."""
        end = self.check_room(self._word()) + self._at
        by_id = dict(zip(layout.ids, layout.members, strict=True))
        found: dict[str, object] = dict.fromkeys(name for name, _ in layout.members)
        while self._at < end:
            header = self._word()
            code, id_ = header >> 28 & 7, header & 0xFFF_FFFF
            if code < 4:
                length = 1 << code
                start = self._at
            else:
                told = self._word()
                start = self._at if code == 4 else self._at - 4
                length = told if code == 4 else 4 + told * (1, 4, 8)[code - 5]
            if length > end - start:
                raise ValueError("a member runs past the end of its structure")
            self._at = start
            self._member(by_id.get(id_), found, start + length)
            if self._at < end:
                self._at += -(self._at - self._origin) % 4
        self._at = end
        return found

    def _member(
        self, member: tuple[str, Layout] | None, found: dict[str, object], end: int
    ) -> None:
        """Read one member of a mutable structure, which ends at `end`."""
        if member is not None:
            name, layout = member
            item = layout.item if isinstance(layout, OptionalOf) else layout
            found[name] = self.value(item)
            if self._at > end:
                raise ValueError("a member runs past its length")
        self._at = end

    def _parameter(self) -> tuple[int, int]:
        """The id and length of a parameter of CDR 1; the id of the end is -1."""
        self._at += -(self._at - self._origin) % 4
        word, length = self._short(), self._short()
        id_ = word & 0x3FFF
        if id_ == _PID_END or (word == _PID_SENTINEL and not length):
            return -1, 0
        if id_ == _PID_EXTENDED:
            id_, length = self._word() & 0xFFF_FFFF, self._word()
        return id_, self.check_room(length)

    def _parameters(self, layout: Structure) -> object:
        by_id = dict(zip(layout.ids, layout.members, strict=True))
        found: dict[str, object] = dict.fromkeys(name for name, _ in layout.members)
        while True:
            id_, length = self._parameter()
            if id_ < 0:
                return found
            self._inside(by_id.get(id_), found, length)

    def _inside(
        self, member: tuple[str, Layout] | None, found: dict[str, object], length: int
    ) -> None:
        """Read the value of a parameter, whose alignment counts from its begin."""
        before, self._origin = self._origin, self._at
        self._member(member, found, self._at + length)
        self._origin = before

    def _optional_parameter(self, layout: OptionalOf) -> object:
        _, length = self._parameter()
        if not length:
            return None
        found: dict[str, object] = {}
        self._inside(("", layout.item), found, length)
        return found[""]

    def _whole(self, layout: UnionOf) -> object:
        end = self.check_room(self._word()) + self._at
        found = super().value(layout)
        if self._at > end:
            raise ValueError("a union runs past its length")
        self._at = end
        return found

    def _delimited(self, layout: Layout) -> object:
        self.check_room(self._word())  # how long it is; it is read item by item anyway
        return super().value(layout)

    def _appendable(self, layout: Structure) -> object:
        """Members until the length it says; those of an older type that end early are missing."""
        end = self.check_room(self._word()) + self._at
        found: dict[str, object] = {}
        for name, member in layout.members:
            if self._at >= end:
                break
            found[name] = self.value(member)
        if self._at > end:
            raise ValueError("a member runs past the end of its structure")
        self._at = end
        return found


def _is_list_of_composites(layout: Layout) -> bool:
    """A list or array of items that are no primitives to CDR; enumerations are none, too."""
    if not isinstance(layout, ListOf):
        return False
    item = layout.item
    return not isinstance(item, Primitive) or item.name in ("string", "wstring", "bytes")

"""Values in payloads of a declared layout: CDR, and Zenoh's serialization format.

Both are read from left to right into plain values: structures and maps are dicts, lists and tuples
are lists. A count is believed only as far as there are octets left for that many items.
"""

from __future__ import annotations

import struct
from typing import Final

from elea.predicate.evaluate import Enumerator
from elea.predicate.layout import (
    Enumeration,
    Layout,
    ListOf,
    MapOf,
    Primitive,
    Structure,
    TupleOf,
)

# Encapsulation identifiers: (little endian, version). RTPS and XTypes number version 2 differently.
_ENCAPSULATIONS: Final = {
    0x0000: (False, 1),
    0x0001: (True, 1),
    0x0006: (False, 2),
    0x0007: (True, 2),
    0x0008: (False, 2),
    0x0009: (True, 2),
    0x0010: (False, 2),
    0x0011: (True, 2),
    0x0014: (False, 2),
    0x0015: (True, 2),
}
_HEADER_LEN: Final = 4
_LENGTH_BITS: Final = 64


def read_cdr(layout: Layout, payload: bytes) -> object:
    """The value of a payload in CDR: encapsulation header, then octets by the layout.

    Plain CDR 1 and 2 and delimited CDR 2 in both orders of octets; parameter lists are not read.

    Raises:
        ValueError: the payload is no such value.

    Example:
        >>> from elea.predicate.layout import parse_layout
        >>> read_cdr(parse_layout("{a: u8, b: u16}"), bytes.fromhex("00010000 07 00 0100"))
        {'a': 7, 'b': 1}
    """
    if len(payload) < _HEADER_LEN:
        raise ValueError("no encapsulation header")
    identifier = int.from_bytes(payload[:2], "big")
    if identifier not in _ENCAPSULATIONS:
        raise ValueError(f"encapsulation {identifier:#06x} is not read")
    little, version = _ENCAPSULATIONS[identifier]
    return _CdrReader(payload[_HEADER_LEN:], little=little, version=version).value(layout)


def read_serialized(layout: Layout, payload: bytes) -> object:
    """The value of a payload in Zenoh's serialization format.

    A structure is a tuple with names; enumerations have no form there.

    Raises:
        ValueError: the payload is no such value.

    Example:
        >>> from elea.predicate.layout import parse_layout
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
                return Enumerator(self.enumerator(), layout.members)

    def _pair(self, layout: MapOf) -> tuple[object, object]:
        name = self.value(layout.name)
        if not isinstance(name, (str, int)):
            raise ValueError("the name in a map is neither text nor integer")
        return name, self.value(layout.value)

    def primitive(self, primitive: Primitive) -> object:
        match primitive.name:
            case "string":
                return self.text()
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

    def enumerator(self) -> int:
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

    def value(self, layout: Layout) -> object:
        if self._version == 2:
            if isinstance(layout, Structure) and layout.appendable:
                return self._appendable(layout)
            if isinstance(layout, MapOf) or _is_list_of_composites(layout):
                return self._delimited(layout)
        return super().value(layout)

    def number(self, width: int) -> bytes:
        self._at += -self._at % min(width, self._align_max)
        return self.take(width)

    def count(self) -> int:
        return self.check_room(self._word())

    def text(self) -> str:
        octets = self.take(self.count())
        if octets[-1:] != b"\0":
            raise ValueError("a string does not end in NUL")
        return octets[:-1].decode()

    def enumerator(self) -> int:
        (number,) = struct.unpack(self.order + "i", self.number(4))
        assert isinstance(number, int)
        return number

    def _word(self) -> int:
        (word,) = struct.unpack(self.order + "I", self.number(4))
        assert isinstance(word, int)
        return word

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
    return not isinstance(item, Primitive) or item.name in ("string", "bytes")

"""A bounded reader of CBOR (RFC 8949), and a writer of plain values.

It takes one item, well-formed and definite or indefinite, and nothing after it; what it holds at a
time is bounded by the octets it was given and by `DEPTH_MAX`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

from elea.records import dataclass

DEPTH_MAX: Final = 32  # indentation makes a deep item much longer than it was
_BIGNUM_LEN_MAX: Final = 128  # a longer one is shown as its octets

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _OTHER = range(8)
_INDEFINITE: Final = 31
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_POSITIVE_BIGNUM, _NEGATIVE_BIGNUM = 2, 3


@dataclass(frozen=True, slots=True)
class Tagged:
    """An item with a number that says what it means."""

    tag: int
    value: Item


@dataclass(frozen=True, slots=True)
class Simple:
    """A value without content that has no name of its own; 23 is `undefined`."""

    number: int


@dataclass(frozen=True, slots=True)
class Map:
    """Pairs in their order; names may be anything, and need not differ."""

    pairs: list[tuple[Item, Item]]


Item: TypeAlias = "bool | int | float | str | bytes | list[Item] | Map | Tagged | Simple | None"


Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"


def dumps(value: Plain) -> bytes:
    """A value as CBOR: lengths are definite, integers as short as can be, floats have 64 bits.

    Raises:
        TypeError: there is a value of another type in it.
        OverflowError: an integer has more than 64 bits.

    Example:
        >>> dumps({"t": 1, "ok": True}).hex()
        'a2617401626f6bf5'
    """
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case bytes():
            return _head(_BYTES, len(value)) + value
        case str():
            octets = value.encode()
            return _head(_TEXT, len(octets)) + octets
        case list():
            return _head(_ARRAY, len(value)) + b"".join(map(dumps, value))
        case dict():
            pairs = (dumps(name) + dumps(inner) for name, inner in value.items())
            return _head(_MAP, len(value)) + b"".join(pairs)
        case _:
            raise TypeError(f"saw {type(value).__name__}; legal are plain values")


def _head(major: int, count: int) -> bytes:
    if count < 24:
        return bytes([major << 5 | count])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if count < 1 << (8 * width):
            return bytes([major << 5 | code]) + count.to_bytes(width, "big")
    raise OverflowError(f"{count} has more than 64 bits")


def loads(data: bytes) -> Item:
    """The one item that `data` is.

    Raises:
        ValueError: it is not well-formed, too deep, or there is more after it.

    Example:
        >>> loads(bytes.fromhex("a1616182f5f6")).pairs
        [('a', [True, None])]
    """
    reader = _Reader(data)
    item = reader.item(0)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} octets after the item")
    return item


class _Reader:
    """Takes items off octets; a length is believed only as far as there are octets."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def item(self, depth: int) -> Item:
        if depth > DEPTH_MAX:
            raise ValueError(f"deeper than {DEPTH_MAX}")
        initial = self._take(1)[0]
        major, info = initial >> 5, initial & 0x1F
        if major == _OTHER:
            return self._other(info)
        if info == _INDEFINITE:
            return self._indefinite(major, depth)
        count = self._argument(info)
        match major:
            case 0:
                return count
            case 1:
                return -1 - count
            case 2:
                return self._take(count)
            case 3:
                return self._take(count).decode()
            case 4:
                self._check_room(count)
                return [self.item(depth + 1) for _ in range(count)]
            case 5:
                self._check_room(2 * count)
                return Map([(self.item(depth + 1), self.item(depth + 1)) for _ in range(count)])
            case _:
                return _tagged(count, self.item(depth + 1))

    def _take(self, count: int) -> bytes:
        self._check_room(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def _check_room(self, count: int) -> None:
        """Every item has an octet at least: no list is longer than what is left."""
        left = len(self.data) - self.at
        if count > left:
            raise ValueError(f"{count} octets or items are told of, and {left} octets are left")

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise ValueError(f"additional information {info} is reserved")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _other(self, info: int) -> Item:
        if info in _FLOATS:
            (number,) = struct.unpack(_FLOATS[info], self._take(1 << (info - 24)))
            assert isinstance(number, float)
            return number
        value = self._argument(info)
        if info == 24 and value < 32:
            raise ValueError(f"simple value {value} in two octets")
        named: dict[int, Item] = {20: False, 21: True, 22: None}
        return named[value] if value in named else Simple(value)

    def _indefinite(self, major: int, depth: int) -> Item:
        if major in (_BYTES, _TEXT):
            pieces = list(self._pieces(major))
            return b"".join(pieces) if major == _BYTES else "".join(p.decode() for p in pieces)
        if major == _ARRAY:
            items: list[Item] = []
            while not self._ended():
                items.append(self.item(depth + 1))
            return items
        if major == _MAP:
            pairs: list[tuple[Item, Item]] = []
            while not self._ended():
                pairs.append((self.item(depth + 1), self.item(depth + 1)))
            return Map(pairs)
        raise ValueError(f"major type {major} has no indefinite length")

    def _pieces(self, major: int) -> Iterator[bytes]:
        while not self._ended():
            initial = self._take(1)[0]
            if initial >> 5 != major or initial & 0x1F == _INDEFINITE:
                raise ValueError("a piece of a string is of another kind")
            yield self._take(self._argument(initial & 0x1F))

    def _ended(self) -> bool:
        self._check_room(1)
        if self.data[self.at] != 0xFF:
            return False
        self.at += 1
        return True


def _tagged(tag: int, value: Item) -> Item:
    if isinstance(value, bytes) and len(value) <= _BIGNUM_LEN_MAX:
        if tag == _POSITIVE_BIGNUM:
            return int.from_bytes(value, "big")
        if tag == _NEGATIVE_BIGNUM:
            return -1 - int.from_bytes(value, "big")
    return Tagged(tag, value)

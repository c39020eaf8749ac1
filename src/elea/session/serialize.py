"""Values to and from octets in Zenoh's serialization format, as `zenoh.ext` does it.

    bool                 one octet, 0 or 1
    integers, floats     fixed width, little endian; a plain int has 32 bits, a plain float 64
    str, bytes           length, octets; a str is UTF-8
    list, set, dict      count, items; a dict's items are key and value in turn
    tuple                its items, without a count

Lengths and counts are unsigned LEB128. Nothing says which type was written: the reader must know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import Final, TypeVar, cast, get_args, get_origin

from elea.errors import ZDeserializeError
from elea.zbytes import ZBytes

T = TypeVar("T")

_LENGTH_BITS: Final = 64
_DEPTH_MAX: Final = 64


class _Integer(int):
    """An integer of a fixed width; arithmetic gives a plain int."""

    low: int
    high: int
    width: int

    def __new__(cls, i: int) -> _Integer:
        if not cls.low <= i <= cls.high:
            raise AssertionError(f"{i} too big for {cls.__name__}")  # as zenoh-python raises
        return super().__new__(cls, i)


class Int8(_Integer):
    """A signed integer of 8 bits."""

    low, high, width = -(1 << 7), (1 << 7) - 1, 1


class Int16(_Integer):
    """A signed integer of 16 bits."""

    low, high, width = -(1 << 15), (1 << 15) - 1, 2


class Int32(_Integer):
    """A signed integer of 32 bits."""

    low, high, width = -(1 << 31), (1 << 31) - 1, 4


class Int64(_Integer):
    """A signed integer of 64 bits."""

    low, high, width = -(1 << 63), (1 << 63) - 1, 8


class Int128(_Integer):
    """A signed integer of 128 bits."""

    low, high, width = -(1 << 127), (1 << 127) - 1, 16


class UInt8(_Integer):
    """An unsigned integer of 8 bits."""

    low, high, width = 0, (1 << 8) - 1, 1


class UInt16(_Integer):
    """An unsigned integer of 16 bits."""

    low, high, width = 0, (1 << 16) - 1, 2


class UInt32(_Integer):
    """An unsigned integer of 32 bits."""

    low, high, width = 0, (1 << 32) - 1, 4


class UInt64(_Integer):
    """An unsigned integer of 64 bits."""

    low, high, width = 0, (1 << 64) - 1, 8


class UInt128(_Integer):
    """An unsigned integer of 128 bits."""

    low, high, width = 0, (1 << 128) - 1, 16


class Float32(float):
    """A floating point number of 32 bits."""


class Float64(float):
    """A floating point number of 64 bits."""


def z_serialize(obj: object) -> ZBytes:
    """The octets of a value.

    Raises:
        TypeError: for a type that has no form.
        ValueError: if the items of a list, set or dict are of several types.
        OverflowError: if a plain int has more than 32 bits.

    Example:
        >>> z_serialize([UInt8(1), UInt8(2)]).to_bytes()
        b'\\x02\\x01\\x02'
    """
    out = bytearray()
    _write(out, obj, 0)
    return ZBytes(bytes(out))


def z_deserialize(tp: type[T], zbytes: ZBytes) -> T:
    """The value in these octets; octets after it are ignored.

    Args:
        tp: Its type, with the types of items: `dict[str, list[float]]`.
        zbytes: The octets.

    Raises:
        ZDeserializeError: the octets are no such value.
        TypeError: for a type that has no form.
        ValueError: for a collection without the types of its items.

    Example:
        >>> z_deserialize(tuple[int, str], z_serialize((7, "seven")))
        (7, 'seven')
    """
    if not isinstance(zbytes, ZBytes):
        raise TypeError(
            f"argument 'zbytes': '{type(zbytes).__name__}' object cannot be converted to 'ZBytes'"
        )
    return cast(T, _Reader(zbytes.to_bytes()).read(tp, 0))


def _write(out: bytearray, obj: object, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"collections are nested more than {_DEPTH_MAX} deep")
    if isinstance(obj, bool):
        out.append(obj)
    elif isinstance(obj, int):
        _write_int(out, obj)
    elif isinstance(obj, float):
        out += struct.pack("<f" if isinstance(obj, Float32) else "<d", obj)
    elif isinstance(obj, str):
        _write_block(out, obj.encode())
    elif isinstance(obj, (bytes, bytearray)):
        _write_block(out, obj)
    elif isinstance(obj, ZBytes):
        _write_block(out, obj.to_bytes())
    elif isinstance(obj, tuple):
        for item in obj:
            _write(out, item, depth + 1)
    elif isinstance(obj, (list, set, frozenset)):
        _write_items(out, obj, depth)
    elif isinstance(obj, dict):
        _same_type(obj)
        _same_type(obj.values())
        _write_length(out, len(obj))
        for key, value in obj.items():
            _write(out, key, depth + 1)
            _write(out, value, depth + 1)
    else:
        raise TypeError(f"type {type(obj).__name__} is not supported")


def _write_int(out: bytearray, number: int) -> None:
    kind = type(number) if isinstance(number, _Integer) else Int32
    if not kind.low <= number <= kind.high:
        raise OverflowError("out of range integral type conversion attempted")
    out += int(number).to_bytes(kind.width, "little", signed=kind.low < 0)


def _write_items(out: bytearray, items: Collection[object], depth: int) -> None:
    _same_type(items)
    _write_length(out, len(items))
    for item in items:
        _write(out, item, depth + 1)


def _same_type(items: Collection[object]) -> None:
    if len({type(item) for item in items}) > 1:
        raise ValueError("all items of serialized collections must have the same type")


def _write_block(out: bytearray, octets: bytes | bytearray) -> None:
    _write_length(out, len(octets))
    out += octets


def _write_length(out: bytearray, length: int) -> None:
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)


class _Reader:
    """Reads values; every length is checked against what is left before anything is made."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, tp: object, depth: int) -> object:
        origin = get_origin(tp)
        if origin is None:
            return self._read_plain(tp)
        if depth > _DEPTH_MAX:
            raise ValueError(f"collections are nested more than {_DEPTH_MAX} deep")
        items = get_args(tp)
        if origin is tuple:
            if Ellipsis in items:
                raise TypeError("any size tuples are not supported")
            return tuple(self.read(item, depth + 1) for item in items)
        if origin is dict:
            key, value = items
            count = self._count()
            return {self.read(key, depth + 1): self.read(value, depth + 1) for _ in range(count)}
        make = _COLLECTIONS.get(origin)
        if make is None:
            raise TypeError(f"type {tp} is not supported")
        return make([self.read(items[0], depth + 1) for _ in range(self._count())])

    def _read_plain(self, tp: object) -> object:
        if not isinstance(tp, type):
            raise TypeError(f"'{type(tp).__name__}' object cannot be converted to 'PyType'")
        if tp is bool:
            return self._bool()
        if tp is int:
            return int(self._int(Int32))
        if issubclass(tp, _Integer):
            return self._int(tp)
        if tp is Float32:
            return Float32(struct.unpack("<f", self._take(4))[0])
        if tp is float or tp is Float64:
            return tp(struct.unpack("<d", self._take(8))[0])
        if tp is str:
            return self._text()
        if tp is bytes or tp is bytearray or tp is ZBytes:
            return tp(self._take(self._length()))
        if tp in (tuple, dict, *_COLLECTIONS):
            raise ValueError("collection types must be specialized with their generic parameter(s)")
        raise TypeError(f"type {tp.__name__} is not supported")

    def _bool(self) -> bool:
        octet = self._take(1)[0]
        if octet > 1:
            raise ZDeserializeError(f"a bool is 0 or 1, got {octet}", self._at - 1)
        return octet == 1

    def _int(self, kind: type[_Integer]) -> _Integer:
        return kind(int.from_bytes(self._take(kind.width), "little", signed=kind.low < 0))

    def _text(self) -> str:
        start = self._at
        try:
            return self._take(self._length()).decode()
        except UnicodeDecodeError as error:
            raise ZDeserializeError(f"no UTF-8: {error.reason}", start) from None

    def _count(self) -> int:
        # An item has at least one octet, but for an empty tuple, which nobody writes a list of.
        count = self._length()
        left = len(self._data) - self._at
        if count > left:
            raise ZDeserializeError(f"{count} items cannot be in {left} octets", self._at)
        return count

    def _length(self) -> int:
        length = shift = 0
        while True:
            octet = self._take(1)[0]
            length |= (octet & 0x7F) << shift
            if octet < 0x80:
                break
            shift += 7
            if shift >= _LENGTH_BITS:
                raise ZDeserializeError("a length has at most 64 bits", self._at)
        return length

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            left = len(self._data) - self._at
            raise ZDeserializeError(f"{length} octets are needed, {left} are left", self._at)
        taken = self._data[self._at : end]
        self._at = end
        return taken


_COLLECTIONS: Final[dict[object, Callable[[list[object]], object]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
}

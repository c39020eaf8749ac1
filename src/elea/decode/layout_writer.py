"""Payloads from values of a declared layout, in CDR: the inverse of `layout_reader` (dds.md 23)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
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

_PID_EXTENDED: Final = 0x3F01
_PID_END: Final = 0x3F02
_SHORT_ID_MAX: Final = 0x3F00
_SHORT_LEN_MAX: Final = 0xFFFF
_CODES: Final = {1: 0, 2: 1, 4: 2, 8: 3}  # of lengths in the headers of members
_HEADERS: Final = {
    (1, False): b"\0\1",
    (1, True): b"\0\3",
    (2, False): b"\0\7",
    (2, True): b"\0\x0b",
}


def needs_version_2(layout: Layout) -> bool:
    """Whether publishers of a type use CDR 2: it is appendable, mutable or has optional members."""
    match layout:
        case Structure():
            inner = any(needs_version_2(member) for _, member in layout.members)
            return layout.appendable or bool(layout.ids) or inner
        case UnionOf():
            return layout.appendable or any(needs_version_2(one.item) for one in layout.cases)
        case OptionalOf():
            return True
        case ListOf():
            return needs_version_2(layout.item)
        case MapOf():
            return needs_version_2(layout.value)
        case TupleOf():
            return any(map(needs_version_2, layout.items))
        case _:
            return False


def write_cdr(layout: Layout, value: object, version: int | None = None) -> bytes:
    """Return a payload in CDR, little endian, with its encapsulation header.

    Args:
        layout: The type.
        value: Plain values, as `read_cdr` gives them.
        version: 1 or 2; None for 1, or 2 if the type needs it.

    Raises:
        ValueError: The value is not one of the type.

    Example:
        >>> from elea.decode.layout import parse_layout
        >>> write_cdr(parse_layout("{a: u8, b: u16}"), {"a": 7, "b": 1}).hex()
        '0001000007000100'
    """
    chosen = version or (2 if needs_version_2(layout) else 1)
    writer = _Writer(chosen)
    try:
        writer.value(layout, value, "")
    except (struct.error, UnicodeEncodeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    header = _HEADERS[chosen, isinstance(layout, Structure) and bool(layout.ids)]
    if chosen == 2 and isinstance(layout, (Structure, UnionOf)) and layout.appendable:
        header = b"\0\x09"
    padding = -len(writer.out) % 4
    return header + bytes((0, padding)) + bytes(writer.out) + bytes(padding)


class _Writer:
    def __init__(self, version: int) -> None:
        self.out = bytearray()
        self._version = version
        self._align_max = 8 if version == 1 else 4
        self._origin = 0

    def value(self, layout: Layout, value: object, at: str) -> None:
        match layout:
            case Primitive():
                self._primitive(layout, value, at)
            case Structure():
                self._structure(layout, value, at)
            case TupleOf():
                for item, inner in zip(layout.items, self._items(value, at), strict=True):
                    self.value(item, inner, at)
            case ListOf():
                self._list(layout, value, at)
            case MapOf():
                self._map(layout, value, at)
            case Enumeration():
                self._enumerator(layout, value, at)
            case OptionalOf():
                self._optional(layout, value, at)
            case UnionOf():
                self._union(layout, value, at)

    def _align(self, width: int) -> None:
        self.out += bytes(-(len(self.out) - self._origin) % min(width, self._align_max))

    def _pack(self, code: str, width: int, value: object) -> None:
        self._align(width)
        self.out += struct.pack("<" + code, value)

    def _word(self, value: int) -> None:
        self._pack("I", 4, value)

    def _primitive(self, layout: Primitive, value: object, at: str) -> None:
        match layout.name:
            case "string":
                octets = _text(value, at).encode() + b"\0"
                self._word(len(octets))
                self.out += octets
            case "wstring":
                octets = _text(value, at).encode("utf-16-le")
                self._word(len(octets))
                self.out += octets
            case "bytes":
                if not isinstance(value, bytes):
                    raise _misfit(value, "bytes", at)
                self._word(len(value))
                self.out += value
            case "char":
                octets = _text(value, at).encode("latin-1")
                if len(octets) != 1:
                    raise _misfit(value, "one character", at)
                self.out += octets
            case "bool":
                if not isinstance(value, bool):
                    raise _misfit(value, "true or false", at)
                self.out.append(value)
            case _:
                self._number(layout, value, at)

    def _number(self, layout: Primitive, value: object, at: str) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _misfit(value, layout.name, at)
        if layout.code:
            if layout.code not in "fd" and not isinstance(value, int):
                raise _misfit(value, layout.name, at)
            self._pack(layout.code, layout.width, value)
            return
        self._align(layout.width)
        self.out += int(value).to_bytes(layout.width, "little", signed=layout.name.startswith("i"))

    def _structure(self, layout: Structure, value: object, at: str) -> None:
        if not isinstance(value, Mapping):
            raise _misfit(value, "a structure", at)
        if layout.ids:
            self._mutable(layout, value, at)
            return
        start = self._begin() if layout.appendable and self._version == 2 else None
        for name, member in layout.members:
            self.value(member, value.get(name), f"{at}.{name}" if at else name)
        self._end(start)

    def _begin(self) -> int:
        """Leave room for a length."""
        self._word(0)
        return len(self.out)

    def _end(self, start: int | None) -> None:
        if start is not None:
            struct.pack_into("<I", self.out, start - 4, len(self.out) - start)

    def _mutable(self, layout: Structure, value: Mapping[object, object], at: str) -> None:
        start = self._begin() if self._version == 2 else None
        for id_, (name, member) in zip(layout.ids, layout.members, strict=True):
            inner = value.get(name)
            item = member.item if isinstance(member, OptionalOf) else member
            if inner is None and isinstance(member, OptionalOf):
                continue
            where = f"{at}.{name}" if at else name
            if self._version == 1:
                self._parameter(id_, item, inner, where)
                continue
            width = item.width if isinstance(item, (Primitive, Enumeration)) else 0
            if width in _CODES:
                self._word(_CODES[width] << 28 | id_)
                self.value(item, inner, where)
                continue
            self._word(4 << 28 | id_)
            length_at = self._begin()
            self.value(item, inner, where)
            self._end(length_at)
        if self._version == 1:
            self._align(4)
            self.out += struct.pack("<HH", _PID_END, 0)
        self._end(start)

    def _parameter(self, id_: int, layout: Layout, value: object, at: str) -> None:
        inner = _Writer(1)
        if value is not None:
            inner.value(layout, value, at)
            inner.out += bytes(-len(inner.out) % 4)
        self._align(4)
        if id_ < _SHORT_ID_MAX and len(inner.out) <= _SHORT_LEN_MAX:
            self.out += struct.pack("<HH", id_, len(inner.out))
        else:
            self.out += struct.pack("<HHII", _PID_EXTENDED, 8, id_, len(inner.out))
        self.out += inner.out

    def _optional(self, layout: OptionalOf, value: object, at: str) -> None:
        if self._version == 1:
            self._parameter(0, layout.item, value, at)
            return
        self.out.append(value is not None)
        if value is not None:
            self.value(layout.item, value, at)

    def _list(self, layout: ListOf, value: object, at: str) -> None:
        items = self._items(value, at)
        if layout.count is not None and len(items) != layout.count:
            raise _misfit(value, f"{layout.count} items", at)
        start = self._begin() if self._version == 2 and _is_composite(layout.item) else None
        if layout.count is None:
            self._word(len(items))
        for item in items:
            self.value(layout.item, item, at)
        self._end(start)

    def _map(self, layout: MapOf, value: object, at: str) -> None:
        if not isinstance(value, Mapping):
            raise _misfit(value, "a map", at)
        start = self._begin() if self._version == 2 else None
        self._word(len(value))
        for name, inner in value.items():
            self.value(layout.name, name, at)
            self.value(layout.value, inner, at)
        self._end(start)

    def _enumerator(self, layout: Enumeration, value: object, at: str) -> None:
        number = value.number if isinstance(value, Enumerator) else value
        if isinstance(number, str):
            if number not in layout.members:
                raise _misfit(value, f"one of {', '.join(layout.members)}", at)
            number = layout.members[number]
        if isinstance(number, bool) or not isinstance(number, int):
            raise _misfit(value, "an enumerator", at)
        self._pack({1: "b", 2: "h", 4: "i"}[layout.width], layout.width, number)

    def _union(self, layout: UnionOf, value: object, at: str) -> None:
        if not isinstance(value, Mapping):
            raise _misfit(value, "a union", at)
        given = [name for name, inner in value.items() if inner is not None]
        if len(given) > 1:
            raise _misfit(value, "one member of a union", at)
        chosen = next((one for one in layout.cases if [one.name] == given), None)
        if given and chosen is None:
            raise _misfit(value, f"one of {', '.join(one.name for one in layout.cases)}", at)
        start = self._begin() if layout.appendable and self._version == 2 else None
        taken = {label for one in layout.cases for label in one.labels}
        unused = next(label for label in range(len(taken) + 1) if label not in taken)
        label = chosen.labels[0] if chosen is not None and chosen.labels else unused
        self._discriminator(layout.discriminator, label, at)
        if chosen is not None:
            self.value(chosen.item, value[chosen.name], f"{at}.{chosen.name}")
        self._end(start)

    def _discriminator(self, layout: Layout, label: int, at: str) -> None:
        if isinstance(layout, Primitive) and layout.name == "bool":
            self.value(layout, bool(label), at)
        elif isinstance(layout, Primitive) and layout.name == "char":
            self.value(layout, chr(label), at)
        else:
            self.value(layout, label, at)

    def _items(self, value: object, at: str) -> list[object]:
        if not isinstance(value, (list, tuple)):
            raise _misfit(value, "a list", at)
        return list(value)


def _is_composite(layout: Layout) -> bool:
    return not isinstance(layout, Primitive) or layout.name in ("string", "wstring", "bytes")


def _text(value: object, at: str) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a text", at)
    return value


def _misfit(value: object, legal: str, at: str) -> ValueError:
    shown = ascii(value) if not isinstance(value, (Mapping, list)) else type(value).__name__
    return ValueError(f"{f'{at}: ' if at else ''}expected {legal}, got {shown[:60]}")

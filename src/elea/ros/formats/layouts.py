"""Definitions as layouts: what payloads hold, for predicates, slices and columns (section 12).

`Stamp`, `Span` and `Bytes` are what readers know as structures and lists, and columns know better:
times, durations, and arrays of bytes that name something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.decode.layout import PRIMITIVES, Layout, ListOf, Primitive, Structure
from elea.decode.values import Kind
from elea.ros.formats.definitions import Definition, FieldType, Repeat

_NAMES: Final = {
    "bool": "bool",
    "byte": "u8",
    "char": "u8",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (32, 64)},
    "string": "string",
}
WIDE: Final = Primitive("wstring", Kind.TEXT)
_BYTES_COUNT: Final = 16  # an array of so many is an id rather than a list
_TIME: Final = "builtin_interfaces/msg/Time"
_DURATION: Final = "builtin_interfaces/msg/Duration"


@dataclass(frozen=True, slots=True)
class Stamp(Structure):
    """A time: seconds and nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Span(Structure):
    """A duration: seconds and nanoseconds."""


@dataclass(frozen=True, slots=True)
class Bytes(ListOf):
    """An array of bytes that is one value."""


def layout_of(
    name: str, definitions: Mapping[str, Definition], *, exact: bool = False
) -> Structure:
    """The layout of a type.

    Args:
        definitions: Of it and all it uses.
        exact: Times and arrays as their members, nothing more.
    """
    members = tuple(
        (field.name, _layout(field.type, definitions, exact=exact))
        for field in definitions[name].members
    )
    if not exact and name == _TIME:
        return Stamp(members)
    if not exact and name == _DURATION:
        return Span(members)
    return Structure(members)


def _layout(type: FieldType, definitions: Mapping[str, Definition], *, exact: bool) -> Layout:
    is_byte = type.base in ("uint8", "byte", "char")
    if type.is_nested:
        item: Layout = layout_of(type.base, definitions, exact=exact)
    else:
        item = WIDE if type.base == "wstring" else PRIMITIVES[_NAMES[type.base]]
    match type.repeat:
        case Repeat.ONE:
            return item
        case Repeat.ARRAY if is_byte and type.count >= _BYTES_COUNT and not exact:
            return Bytes(item, type.count)
        case Repeat.ARRAY:
            return ListOf(item, type.count)
        case _ if is_byte:
            return PRIMITIVES["bytes"]
        case _:
            return ListOf(item)

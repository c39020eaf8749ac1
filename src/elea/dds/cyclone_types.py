"""Types of DDS from layouts, for endpoints that send no type information (D-268).

Takes the modules of the DDS package as arguments; imports none itself.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import make_dataclass
from typing import Any, Final

from elea.decode.layout import (
    PRIMITIVES,
    Enumeration,
    Layout,
    ListOf,
    OptionalOf,
    Primitive,
    Structure,
)
from elea.errors import InvalidValueError

_IDL_NAMES: Final = {
    "bool": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f32": "float32",
    "f64": "float64",
    "char": "char",
}
ONE_BYTE: Final = Structure((("value", PRIMITIVES["u8"]),))


class TypeMaker:
    """Makes types of DDS from layouts, by the package's own classes."""

    def __init__(self, idl: Any, annotations: Any, types: Any) -> None:
        self._idl = idl
        self._annotations = annotations
        self._types = types
        self._count = 0

    def octets(self, layout: Structure, name: str, keys: Sequence[str]) -> tuple[bytes, bytes]:
        """Return type information and type mapping of a structure.

        Raises:
            InvalidValueError: DDS has no such type.
        """
        made = self._structure(layout, name, keys)
        made.__idl__.populate()
        made.__idl__.fill_type_data()
        info, mapping = made.__idl__._xt_bytedata
        return bytes(info), bytes(mapping)

    def _structure(self, layout: Structure, name: str, keys: Sequence[str] = ()) -> Any:
        unknown = [one for one in keys if one not in dict(layout.members)]
        if unknown:
            raise InvalidValueError("type", f"{name} has no member {unknown[0]!a} to be its key")
        fields = [
            (member, self._type(inner, f"{name}_{member}")) for member, inner in layout.members
        ]
        made: Any = make_dataclass(name.rpartition("::")[2], fields, bases=(self._idl.IdlStruct,))
        made.__idl_typename__ = name.replace("::", ".")
        annotations = self._annotations
        if layout.ids:
            annotations.mutable(made)
        elif layout.appendable:
            annotations.appendable(made)
        else:
            annotations.final(made)
        if keys:
            annotations.keylist(list(keys))(made)
        return made

    def _type(self, layout: Layout, name: str) -> Any:
        match layout:
            case Primitive(name="string"):
                return str
            case Primitive(name="bytes"):
                return self._types.sequence[self._types.uint8]
            case Primitive() if layout.name in _IDL_NAMES:
                found = _IDL_NAMES[layout.name]
                return bool if found == "bool" else getattr(self._types, found)
            case ListOf(count=None):
                return self._types.sequence[self._type(layout.item, name)]
            case ListOf():
                return self._types.array[self._type(layout.item, name), layout.count]
            case OptionalOf():
                return typing.Optional[self._type(layout.item, name)]  # noqa: UP045  # a value, not a hint
            case Structure():
                return self._structure(layout, name)
            case Enumeration():
                self._count += 1
                return self._idl.IdlEnum(name.rpartition("::")[2], dict(layout.members))
            case _:
                raise InvalidValueError("type", f"{layout!a:.60} cannot be declared")

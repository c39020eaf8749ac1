"""IDL of a type from its type objects: what `elea dds typeof` and schemas show (D-786, D-871).

Every type that it uses is defined before it, in its modules; typedefs are written out.
"""

from __future__ import annotations

import re
from typing import Final

from elea.dds.representation import Extensibility
from elea.dds.xtypes import (
    ALIAS,
    ARRAY,
    BITMASK,
    ENUM,
    IDL_NAMES,
    MAP,
    SEQUENCE,
    STRUCT,
    UNION,
    Member,
    NoLayoutError,
    TypeId,
    TypeObject,
    TypeSet,
)

_SEQUENCES: Final = (0x80, 0x81, SEQUENCE)
_ARRAYS: Final = (0x90, 0x91, ARRAY)
_MAPS: Final = (0xA0, 0xA1, MAP)
_STRINGS: Final = {0x70: "string", 0x71: "string", 0x72: "wstring", 0x73: "wstring"}
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_DEPTH_MAX: Final = 32


def idl_of(types: TypeSet, name: str) -> str:
    """Return the IDL of the top type; empty if it cannot be said in IDL.

    Args:
        types: The type with all it uses.
        name: As its topic names it; nested types have the names of their type objects.
    """
    top = types.top
    if top is None:
        return ""
    writer = _Writer(types)
    try:
        writer.define(top, name)
    except NoLayoutError:
        return ""
    return "\n".join(writer.definitions)


class _Writer:
    def __init__(self, types: TypeSet) -> None:
        self._types = types
        self._done: set[str] = set()
        self._depth = 0
        self.definitions: list[str] = []

    def define(self, of: TypeObject, name: str) -> str:
        """Write the definition of a type after those it uses; returns its name in IDL."""
        if _NAME.fullmatch(name) is None or self._depth > _DEPTH_MAX:
            raise NoLayoutError(f"{name!a} is no name of IDL")
        if name in self._done:
            return name
        self._depth += 1
        lines = self._lines(of, name.rpartition("::")[2])
        self._depth -= 1
        self._done.add(name)
        modules = name.split("::")[:-1]
        if modules:
            lines = [
                " ".join(f"module {one} {{" for one in modules),
                *(f"  {line}" for line in lines),
                " ".join("};" for _ in modules),
            ]
        self.definitions += lines
        return name

    def _lines(self, of: TypeObject, name: str) -> list[str]:
        if of.kind == STRUCT:
            return self._struct(of, name)
        if of.kind == UNION:
            return self._union(of, name)
        bound = [] if of.bit_bound == 32 else [f"@bit_bound({of.bit_bound})"]
        if of.kind == ENUM:
            inner = [f"  @value({number}) {one}" for one, number in of.literals]
            return [*bound, f"enum {name} {{", *_separated(inner), "};"]
        if of.kind == BITMASK:
            inner = [f"  @position({number}) {one}" for one, number in of.literals]
            return [*bound, f"bitmask {name} {{", *_separated(inner), "};"]
        raise NoLayoutError(f"type kind {of.kind:#04x}")

    def _struct(self, of: TypeObject, name: str) -> list[str]:
        base = None if of.base is None else self._types.resolved(of.base)
        above = f" : {self.define(base, base.name)}" if base is not None else ""
        lines = [f"@{of.extensibility.value}", f"struct {name}{above} {{"]
        mutable = of.extensibility is Extensibility.MUTABLE
        for member in of.members:
            marks = f"@id({member.id}) " if mutable else ""
            marks += "@key " if member.is_key else ""
            marks += "@optional " if member.is_optional else ""
            lines.append(f"  {marks}{self._member(member)};")
        return [*lines, "};"]

    def _union(self, of: TypeObject, name: str) -> list[str]:
        if of.discriminator is None:
            raise NoLayoutError("a union without a discriminator")
        by, _ = self._type(of.discriminator)
        found = self._types.resolved(of.discriminator)
        names = {} if found is None else {number: one for one, number in found.literals}
        scope = by.rpartition("::")[0]
        lines = [f"@{of.extensibility.value}", f"union {name} switch ({by}) {{"]
        for member in of.members:
            labels = [f"case {_label(one, names, scope, by)}:" for one in member.labels]
            labels += ["default:"] if member.is_default else []
            lines.append(f"  {' '.join(labels)} {self._member(member)};")
        return [*lines, "};"]

    def _member(self, member: Member) -> str:
        type_, bounds = self._type(member.type)
        return f"{type_} {member.name}" + "".join(f"[{bound}]" for bound in bounds)

    def _type(self, id_: TypeId, depth: int = 0) -> tuple[str, tuple[int, ...]]:
        """The name of a type, and the bounds of an array of it."""
        if depth > _DEPTH_MAX:
            raise NoLayoutError("a type that contains itself")
        if id_.kind in IDL_NAMES:
            return IDL_NAMES[id_.kind], ()
        if id_.kind in _STRINGS:
            bound = f"<{id_.bounds[0]}>" if id_.bounds[0] else ""
            return f"{_STRINGS[id_.kind]}{bound}", ()
        found: TypeId | TypeObject | None = id_
        if id_.element is None:
            found = self._types.resolved(id_)
        if found is None:
            raise NoLayoutError("a part of the type is not known")
        if found.element is None:
            assert isinstance(found, TypeObject)
            return self.define(found, found.name), ()
        element, inner = self._type(found.element, depth + 1)
        if found.kind in _ARRAYS:
            return element, (*found.bounds, *inner)
        if inner:
            raise NoLayoutError("a sequence of arrays has no name in IDL")
        if found.kind in _SEQUENCES:
            bound = f", {found.bounds[0]}" if found.bounds[0] else ""
            return f"sequence<{element}{bound}>", ()
        if found.kind in _MAPS and found.key is not None:
            return f"map<{self._type(found.key, depth + 1)[0]}, {element}>", ()
        if found.kind == ALIAS:
            return element, inner
        raise NoLayoutError(f"type kind {found.kind:#04x}")


def _label(number: int, names: dict[int, str], scope: str, by: str) -> str:
    if by == "boolean":
        return "TRUE" if number else "FALSE"
    if by == "char":
        if not 0 <= number < 256:
            raise NoLayoutError(f"{number} is no character")
        return repr(chr(number))
    name = names.get(number)
    if name is None:
        return str(number)
    return f"{scope}::{name}" if scope else name


def _separated(lines: list[str]) -> list[str]:
    return [*(f"{one}," for one in lines[:-1]), *lines[-1:]]

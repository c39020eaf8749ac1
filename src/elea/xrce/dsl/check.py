"""What definitions must keep to, so that every message can be written and read back.

1. Every name is defined, once; `Message` is; nothing contains itself.
2. A header is 1 to 8 bits wide, of a byte or an enum whose values fit.
3. A flag is a free bit of the header before it, in the record that header belongs to.
4. The elements of a sequence see no header; after elements with headers there are no more flags.
5. Symbols and values of an enum are unique.
6. A case looks at an earlier member of its record; its labels fit and do not overlap.
7. Members of a record have different names.

Rules 2, 5, 6 and 7 hold for each definition by itself. Rules 3 and 4 depend on where a definition
is used, so they are checked on the way down from `Message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from elea.errors import SchemaError
from elea.limits import XRCE_SCHEMA_DEPTH_MAX, XRCE_SCHEMA_NODES_MAX
from elea.xrce.dsl import model
from elea.xrce.dsl.model import refusal
from elea.xrce.dsl.parser import parse

ROOT: Final = "Message"
_OCTET_BITS: Final = 8


def check(source: str) -> model.Schema:
    """Parse a text and hold it against every rule.

    Raises:
        SchemaError: With line and column of the first thing that is wrong.

    Example:
        >>> check("Message = record { kind: header 5 byte, more: byte, more: flag 5 }")
        Traceback (most recent call last):
        elea.errors.SchemaError: line 1, column 53: the member more is there already
    """
    definitions: dict[str, model.Definition] = {}
    for definition in parse(source):
        first = definitions.setdefault(definition.name, definition)
        if first is not definition:
            line = source.count("\n", 0, first.at) + 1
            reason = f"{definition.name} is defined already, in line {line}"
            raise refusal(source, definition.at, reason)
    schema = model.Schema(source, definitions)
    checker = _Checker(schema)
    for definition in definitions.values():
        checker.names(definition.type)
    if ROOT not in definitions:
        raise refusal(source, 0, f"there is no definition of {ROOT}, the type of all messages")
    checker.no_recursion()
    for definition in definitions.values():
        checker.shape(definition.type, {})
    checker.flags(definitions[ROOT].type, _Scope(), 0)
    return schema


@dataclass(slots=True)
class _Scope:
    """The header that flags go to, and which of its bits are taken."""

    header: model.Header | None = None
    number: int = 0  # of that header: one definition may be met several times
    used: set[int] = field(default_factory=set)
    closed: bool = False  # another header came since, which has ended

    def fork(self) -> _Scope:
        return _Scope(self.header, self.number, set(self.used), self.closed)

    def join(self, end: _Scope) -> None:
        """Go on after one of the ways that started here."""
        self.closed |= end.closed or end.number != self.number
        if end.number == self.number:
            self.used |= end.used


class _Checker:
    def __init__(self, schema: model.Schema) -> None:
        self._schema = schema
        self._nodes_count = 0

    def names(self, type_: model.Type) -> None:
        """Rule 1: every name is defined."""
        if isinstance(type_, model.Name) and type_.name not in self._schema.definitions:
            raise self._refuse(type_, f"{type_.name} is not defined")
        for child in _children(type_):
            self.names(child)

    def no_recursion(self) -> None:
        """Rule 1: nothing contains itself."""
        done: set[str] = set()

        def visit(name: str, path: list[str], at: int) -> None:
            if name in path:
                way = " -> ".join([*path[path.index(name) :], name])
                raise refusal(self._schema.source, at, f"{name} contains itself: {way}")
            if len(path) > XRCE_SCHEMA_DEPTH_MAX:
                reason = f"names lead to names deeper than {XRCE_SCHEMA_DEPTH_MAX}"
                raise refusal(self._schema.source, at, reason)
            if name not in done:
                for inner in _names_in(self._schema.definitions[name].type):
                    visit(inner.name, [*path, name], inner.at)
                done.add(name)

        for definition in self._schema.definitions.values():
            visit(definition.name, [], definition.at)

    def shape(self, type_: model.Type, members: Mapping[str, model.Member]) -> None:
        """Rules 2, 5, 6 and 7; `members` are the earlier ones of the record around."""
        match type_:
            case model.Header():
                self._header(type_)
            case model.Enumeration():
                self._enumeration(type_)
            case model.Option():
                if not isinstance(self._schema.resolve(type_.condition), model.Flag):
                    raise self._refuse(type_.condition, "`if` needs a flag")
            case model.Record():
                self._record(type_)
                return
            case model.Case():
                self._case(type_, members)
        for child in _children(type_):
            inside = {} if isinstance(type_, model.Sequence) else members
            if not isinstance(child, model.Name):
                self.shape(child, inside)

    def _header(self, header: model.Header) -> None:
        width = header.width
        if not 1 <= width <= _OCTET_BITS:
            raise self._refuse(header, f"a header of {width} bits; legal are 1 to {_OCTET_BITS}")
        value = self._schema.resolve(header.value)
        if isinstance(value, model.Enumeration):
            for symbol in value.symbols:
                if symbol.value >> width:
                    reason = f"{symbol.name} = {symbol.value} does not fit {width} bits"
                    raise self._refuse(header, reason)
        elif not isinstance(value, model.Byte):
            raise self._refuse(header.value, "a header holds a byte or an enum")

    def _enumeration(self, enumeration: model.Enumeration) -> None:
        names: set[str] = set()
        values: dict[int, str] = {}
        for symbol in enumeration.symbols:
            if symbol.name in ("true", "false"):
                raise self._refuse(symbol, f"{symbol.name} is the label of a flag, no symbol")
            if symbol.name in names:
                raise self._refuse(symbol, f"the symbol {symbol.name} is there already")
            if symbol.value in values:
                other = values[symbol.value]
                raise self._refuse(symbol, f"{symbol.value} is the value of {other} already")
            if symbol.value >> 64:
                raise self._refuse(symbol, f"{symbol.value} is too large; legal is below 2^64")
            names.add(symbol.name)
            values[symbol.value] = symbol.name

    def _record(self, record: model.Record) -> None:
        members: dict[str, model.Member] = {}
        for member in record.members:
            if member.name in members:
                raise self._refuse(member, f"the member {member.name} is there already")
            self.shape(member.type, members)
            members[member.name] = member

    def _case(self, case: model.Case, members: Mapping[str, model.Member]) -> None:
        if case.subject not in members:
            reason = f"{case.subject} is no earlier member of the same record"
            raise self._refuse(case, reason)
        subject = self._schema.subject(members[case.subject])
        taken: list[tuple[int, int, model.Label]] = []
        for alternative in case.alternatives:
            for label in alternative.labels:
                first, last = self._label(label, subject, case.subject)
                for other_first, other_last, other in taken:
                    if first <= other_last and other_first <= last:
                        reason = f"{_shown(label)} overlaps {_shown(other)}"
                        raise self._refuse(label, reason)
                taken.append((first, last, label))

    def _label(self, label: model.Label, subject: model.Plain, name: str) -> tuple[int, int]:
        shown = _shown(label)
        match subject:
            case model.Enumeration():
                legal = [symbol.name for symbol in subject.symbols]
                if label.first not in legal:
                    reason = f"{shown} is no symbol of {name}; there are {', '.join(legal)}"
                    raise self._refuse(label, reason)
            case model.Flag():
                if label.first not in ("true", "false"):
                    reason = f"{shown}: {name} is a flag, its labels are true and false"
                    raise self._refuse(label, reason)
            case model.Byte() | model.Nat():
                if not isinstance(label.first, int):
                    raise self._refuse(label, f"{shown}: {name} is a number, its labels are, too")
                bits = _OCTET_BITS if isinstance(subject, model.Byte) else 64
                if (label.first if label.last is None else label.last) >> bits:
                    raise self._refuse(label, f"{shown}: {name} is below 2^{bits}")
            case _:
                reason = f"{name} cannot select; a flag, an enum, a byte or a nat can"
                raise self._refuse(label, reason)
        first, last = model.interval(label, subject)
        if first > last:
            raise self._refuse(label, f"{shown}: a range goes upwards")
        return first, last

    def flags(self, type_: model.Type, scope: _Scope, depth: int) -> None:
        """Rules 3 and 4, as a message is read: `scope` is the header seen last."""
        self._nodes_count += 1
        if self._nodes_count > XRCE_SCHEMA_NODES_MAX:
            raise self._refuse(type_, f"a message has more than {XRCE_SCHEMA_NODES_MAX} parts")
        if depth > XRCE_SCHEMA_DEPTH_MAX:
            raise self._refuse(type_, f"a message is nested deeper than {XRCE_SCHEMA_DEPTH_MAX}")
        match plain := self._schema.resolve(type_):
            case model.Flag():
                self._flag(plain, scope)
            case model.Header():
                scope.header, scope.number, scope.used = plain, self._nodes_count, set()
                scope.closed = False
            case model.Sequence():
                inner = _Scope()
                self.flags(plain.element, inner, depth + 1)
                scope.closed |= inner.header is not None or inner.closed
            case model.Option():
                self.flags(plain.condition, scope, depth + 1)
                self._way(plain.value, scope, scope, depth)
            case model.Case():
                start = scope.fork()
                for alternative in plain.alternatives:
                    self._way(alternative.type, start, scope, depth)
            case model.Record():
                inner = scope.fork()
                for member in plain.members:
                    self.flags(member.type, inner, depth + 1)
                scope.join(inner)
            case _:
                pass

    def _way(self, type_: model.Type, start: _Scope, scope: _Scope, depth: int) -> None:
        way = start.fork()
        self.flags(type_, way, depth + 1)
        scope.join(way)

    def _flag(self, flag: model.Flag, scope: _Scope) -> None:
        bit, header = flag.bit, scope.header
        if scope.closed:
            reason = f"flag {bit}: the header before it belongs to another record"
            raise self._refuse(flag, reason)
        if header is None:
            raise self._refuse(flag, f"flag {bit}: there is no header before it")
        if not header.width <= bit < _OCTET_BITS:
            kept = f"the header keeps bits 0 to {header.width - 1} for its value"
            free = f"flags have {header.width} to 7" if header.width < _OCTET_BITS else "all of it"
            raise self._refuse(flag, f"flag {bit}: {kept}, {free}")
        if bit in scope.used:
            raise self._refuse(flag, f"flag {bit} is used twice after one header")
        scope.used.add(bit)

    def _refuse(
        self, node: model.Type | model.Label | model.Symbol | model.Member, reason: str
    ) -> SchemaError:
        return refusal(self._schema.source, node.at, reason)


def _children(type_: model.Type) -> list[model.Type]:
    match type_:
        case model.Sequence():
            return [type_.element]
        case model.Header():
            return [type_.value]
        case model.Option():
            return [type_.condition, type_.value]
        case model.Record():
            return [member.type for member in type_.members]
        case model.Case():
            return [alternative.type for alternative in type_.alternatives]
        case _:
            return []


def _names_in(type_: model.Type) -> list[model.Name]:
    if isinstance(type_, model.Name):
        return [type_]
    return [name for child in _children(type_) for name in _names_in(child)]


def _shown(label: model.Label) -> str:
    return str(label.first) if label.last is None else f"{label.first} ... {label.last}"

"""Definitions as trees. Each node knows its offset in the text, for complaints.

A tree says what was written. That it makes sense is checked by `elea.xrce.dsl.check`, which gives
a `Schema`; everything made of definitions starts from one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from elea.errors import SchemaError


@dataclass(slots=True, frozen=True)
class Name:
    """The type another definition gives."""

    name: str
    at: int


@dataclass(slots=True, frozen=True)
class Nat:
    """A natural number, of variable length."""

    at: int


@dataclass(slots=True, frozen=True)
class Byte:
    """One octet."""

    at: int


@dataclass(slots=True, frozen=True)
class Sequence:
    """A count and that many elements."""

    element: Type
    at: int


@dataclass(slots=True, frozen=True)
class Header:
    """One octet: a value in its low `width` bits, flags in those above."""

    width: int
    value: Type
    at: int

    @property
    def mask(self) -> int:
        """The bits of its value."""
        return (1 << self.width) - 1


@dataclass(slots=True, frozen=True)
class Flag:
    """One bit of the header before it."""

    bit: int
    at: int


@dataclass(slots=True, frozen=True)
class Symbol:
    """A name for a number."""

    name: str
    value: int
    at: int


@dataclass(slots=True, frozen=True)
class Enumeration:
    """A number, some of whose values have names."""

    symbols: tuple[Symbol, ...]
    at: int


@dataclass(slots=True, frozen=True)
class Member:
    """One part of a record."""

    name: str
    type: Type
    at: int


@dataclass(slots=True, frozen=True)
class Record:
    """Members, one after the other."""

    members: tuple[Member, ...]
    at: int


@dataclass(slots=True, frozen=True)
class Label:
    """What selects an alternative: a symbol, a number, or the numbers from `first` to `last`."""

    first: str | int
    last: int | None
    at: int


@dataclass(slots=True, frozen=True)
class Alternative:
    """A type and the labels it is for."""

    labels: tuple[Label, ...]
    type: Type
    at: int


@dataclass(slots=True, frozen=True)
class Case:
    """The alternative that an earlier member selects, or nothing."""

    subject: str
    alternatives: tuple[Alternative, ...]
    at: int


@dataclass(slots=True, frozen=True)
class Option:
    """A value that is there if a flag is set."""

    condition: Type
    value: Type
    at: int


Type: TypeAlias = (
    Name | Nat | Byte | Sequence | Header | Flag | Enumeration | Record | Case | Option
)
Plain: TypeAlias = Nat | Byte | Sequence | Header | Flag | Enumeration | Record | Case | Option


@dataclass(slots=True, frozen=True)
class Definition:
    """A type with a name."""

    name: str
    type: Type
    at: int


@dataclass(slots=True, frozen=True)
class Schema:
    """Definitions that passed every check."""

    source: str
    definitions: Mapping[str, Definition]

    def resolve(self, type_: Type) -> Plain:
        """The type itself, whatever names lead to it."""
        while isinstance(type_, Name):
            type_ = self.definitions[type_.name].type
        return type_

    def is_octets(self, type_: Type) -> bool:
        """Whether it is a sequence of octets, which programs see as one value."""
        plain = self.resolve(type_)
        return isinstance(plain, Sequence) and isinstance(self.resolve(plain.element), Byte)

    def subject(self, member: Member) -> Plain:
        """What a case over this member looks at: of a header, its value."""
        plain = self.resolve(member.type)
        return self.resolve(plain.value) if isinstance(plain, Header) else plain

    def bit(self, condition: Type) -> int:
        """The bit of a flag."""
        flag = self.resolve(condition)
        assert isinstance(flag, Flag)
        return flag.bit


def symbol_value(enumeration: Enumeration, name: str) -> int:
    """The number a symbol stands for."""
    return next(symbol.value for symbol in enumeration.symbols if symbol.name == name)


def selected(case: Case, subject: Plain, value: int) -> Alternative | None:
    """The alternative for a subject's value; flags count as 0 and 1."""
    for alternative in case.alternatives:
        for label in alternative.labels:
            first, last = interval(label, subject)
            if first <= value <= last:
                return alternative
    return None


def interval(label: Label, subject: Plain) -> tuple[int, int]:
    """The first and last value a label is for."""
    if isinstance(label.first, int):
        return label.first, label.first if label.last is None else label.last
    if isinstance(subject, Enumeration):
        value = symbol_value(subject, label.first)
    else:
        value = int(label.first == "true")
    return value, value


def refusal(source: str, at: int, reason: str) -> SchemaError:
    """The error for a place in the text, as line and column."""
    line = source.count("\n", 0, at) + 1
    column = at - (source.rfind("\n", 0, at) + 1) + 1
    return SchemaError(line, column, reason)

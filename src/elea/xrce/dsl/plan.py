"""What the generated Python consists of: families, classes, their names and types.

A *family* is a record of a header and a case over it, like `Message`: for programs it is the union
of its alternatives. Every other record is a class. One without a name is called after its place:
`BatchedData.payload` has elements of class `BatchedDataPayloadPart`.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from elea.errors import SchemaError
from elea.xrce.dsl import model
from elea.xrce.dsl.check import ROOT

_VARIABLES: Final = ("reader", "header", "out", "this", "self")  # of the functions that are made


@dataclass(slots=True)
class Class:
    """A record as a class."""

    name: str
    record: model.Record
    header: model.Header | None = None  # of the family it is in
    value: int = 0  # of that header


@dataclass(slots=True)
class Family:
    """A union of classes, told apart by a header."""

    name: str
    header_name: str
    header: model.Header
    members: list[tuple[int, Class]]


@dataclass(slots=True)
class Module:
    """A family, the classes it is made of, and the enums they use."""

    name: str
    family: Family | None
    classes: list[Class] = field(default_factory=list)
    enumerations: list[model.Enumeration] = field(default_factory=list)


class Plan:
    """Every module of classes, the ones that others need first."""

    def __init__(self, schema: model.Schema) -> None:
        self.schema = schema
        self.modules: list[Module] = []
        self.classes: dict[int, Class] = {}  # by identity of the record
        self.families: dict[str, Family] = {}
        self._seen: set[int] = set()
        root = schema.definitions[ROOT].type
        if not isinstance(root, model.Record):
            at = schema.definitions[ROOT].at
            raise model.refusal(schema.source, at, f"{ROOT} must be a record to be generated")
        for name, record in self._families_inside(root):  # what a family is made of comes first
            self._family_or_class(name, record, None)
        self._family_or_class(ROOT, root, None)

    def is_family(self, type_: model.Type) -> bool:
        """Whether programs see the union of its alternatives."""
        plain = self.schema.resolve(type_)
        if not isinstance(plain, model.Record) or len(plain.members) != 2:
            return False
        header, case = (self.schema.resolve(member.type) for member in plain.members)
        return (
            isinstance(header, model.Header)
            and isinstance(self.schema.resolve(header.value), model.Enumeration)
            and isinstance(case, model.Case)
            and all(
                isinstance(one.type, model.Name)
                and isinstance(self.schema.resolve(one.type), model.Record)
                for one in case.alternatives
            )
        )

    def has_flags(self, type_: model.Type) -> bool:
        """Whether it takes bits of a header that stands before it."""
        plain = self.schema.resolve(type_)
        match plain:
            case model.Flag():
                return True
            case model.Option():
                return True
            case model.Record():
                first = self.schema.resolve(plain.members[0].type)
                inside = any(self.has_flags(member.type) for member in plain.members)
                return inside and not isinstance(first, model.Header)
            case model.Case():
                return any(self.has_flags(one.type) for one in plain.alternatives)
            case _:
                return False

    def named_list(self, type_: model.Type) -> model.Sequence | None:
        """The sequence that a definition gives, alone or as an option; it has its own function."""
        if not isinstance(type_, model.Name):
            return None
        plain = self.schema.resolve(type_)
        if isinstance(plain, model.Option):
            plain = self.schema.resolve(plain.value)
        is_list = isinstance(plain, model.Sequence) and not self.schema.is_octets(plain)
        return plain if is_list and isinstance(plain, model.Sequence) else None

    def python_type(self, type_: model.Type) -> str:
        """The annotation for a value."""
        plain = self.schema.resolve(type_)
        match plain:
            case model.Nat() | model.Byte() | model.Enumeration() | model.Header():
                return "int"
            case model.Flag():
                return "bool"
            case model.Sequence():
                if self.schema.is_octets(plain):
                    return "bytes"
                return f"tuple[{self.python_type(plain.element)}, ...]"
            case model.Option():
                return f"{self.python_type(plain.value)} | None"
            case model.Record():
                if isinstance(type_, model.Name) and type_.name in self.families:
                    return type_.name
                return self.classes[id(plain)].name
            case model.Case():
                names = [self.python_type(one.type) for one in plain.alternatives]
                return " | ".join([*dict.fromkeys(names), "None"])

    def member_type(self, record: model.Record, member: model.Member) -> str:
        """The annotation for a member; a case that is always met is never None."""
        found = self.python_type(member.type)
        case = self.schema.resolve(member.type)
        if isinstance(case, model.Case) and self.is_exhaustive(record, case):
            found = found.removesuffix(" | None")
        return found

    def is_exhaustive(self, record: model.Record, case: model.Case) -> bool:
        """Whether a case over a flag has both alternatives."""
        labels = {label.first for one in case.alternatives for label in one.labels}
        return isinstance(self.subject(record, case), model.Flag) and len(labels) == 2

    def subject(self, record: model.Record, case: model.Case) -> model.Plain:
        """What a case of this record looks at."""
        [member] = [one for one in record.members if one.name == case.subject]
        return self.schema.subject(member)

    def tests(
        self, record: model.Record, case: model.Case, subject: str, *, apart: bool = False
    ) -> list[tuple[model.Alternative, str]]:
        """The alternatives of a case, each with the line that asks for it.

        They are one chain of `if`, or `apart` from each other.
        """
        kind = self.subject(record, case)
        found = []
        for number, alternative in enumerate(case.alternatives):
            if self.is_exhaustive(record, case) and number == 1 and not apart:
                found.append((alternative, "else:"))
                continue
            asked = _test(alternative.labels, kind, subject)
            found.append((alternative, f"{'elif' if number and not apart else 'if'} {asked}:"))
        return found

    def _family_or_class(self, name: str, record: model.Record, module: Module | None) -> None:
        if id(record) in self._seen:
            return
        self._seen.add(id(record))
        if not self.is_family(record):
            module = module or self._new_module(name, None)
            self._class(name, record, module)
            return
        header = self.schema.resolve(record.members[0].type)
        case = self.schema.resolve(record.members[1].type)
        assert isinstance(header, model.Header)
        assert isinstance(case, model.Case)
        family = Family(name, record.members[0].name, header, [])
        own = Module(f"{snake(name)}_records", family)
        kinds = self.schema.resolve(header.value)
        assert isinstance(kinds, model.Enumeration)
        own.enumerations.append(kinds)
        for alternative in case.alternatives:
            assert isinstance(alternative.type, model.Name)
            inner = self.schema.resolve(alternative.type)
            assert isinstance(inner, model.Record)
            if id(inner) in self._seen or isinstance(
                self.schema.resolve(inner.members[0].type), model.Header
            ):
                raise self._refuse(alternative, "an alternative of a family has its own record")
            self._seen.add(id(inner))
            made = self._class(alternative.type.name, inner, own)
            made.header = header
            for label in alternative.labels:
                made.value, _ = model.interval(label, kinds)
                family.members.append((made.value, made))
        self.families[name] = family
        self.modules.append(own)

    def _families_inside(self, type_: model.Type) -> Iterator[tuple[str, model.Record]]:
        """The families that a type is made of, innermost first."""
        plain = self.schema.resolve(type_)
        inside: list[model.Type] = []
        match plain:
            case model.Record():
                inside = [member.type for member in plain.members]
            case model.Sequence():
                inside = [plain.element]
            case model.Option():
                inside = [plain.value]
            case model.Case():
                inside = [one.type for one in plain.alternatives]
        for one in inside:
            yield from self._families_inside(one)
            if isinstance(one, model.Name) and self.is_family(one):
                found = self.schema.resolve(one)
                assert isinstance(found, model.Record)
                yield one.name, found

    def _new_module(self, name: str, family: Family | None) -> Module:
        module = Module(f"{snake(name)}_records", family)
        self.modules.append(module)
        return module

    def _class(self, name: str, record: model.Record, module: Module) -> Class:
        taken = {one.name for one in self.classes.values()}
        free = (f"{name}{number}" for number in itertools.count(2))
        while name in taken:  # two records without a name in one place
            name = next(free)
        made = Class(name, record)
        self.classes[id(record)] = made
        for member in record.members:
            self._walk(member.type, name + member.name[0].upper() + member.name[1:], module)
        module.classes.append(made)
        return made

    def _walk(self, type_: model.Type, place: str, module: Module) -> None:
        """Make the classes of everything inside a member."""
        plain = self.schema.resolve(type_)
        match plain:
            case model.Record():
                name = type_.name if isinstance(type_, model.Name) else f"{place}Part"
                self._family_or_class(name, plain, module)
            case model.Sequence():
                self._walk(plain.element, place, module)
            case model.Option():
                self._walk(plain.value, place, module)
            case model.Case():
                for alternative in plain.alternatives:
                    self._walk(alternative.type, place, module)
            case model.Enumeration():
                if not any(plain is known for one in self.modules for known in one.enumerations):
                    module.enumerations.append(plain)
            case _:
                pass

    def _refuse(self, node: model.Alternative, reason: str) -> SchemaError:
        return model.refusal(self.schema.source, node.at, reason)


def _test(labels: Sequence[model.Label], kind: model.Plain, subject: str) -> str:
    if isinstance(kind, model.Flag):
        return subject if labels[0].first == "true" else f"not {subject}"
    single = [
        constant(label.first) if isinstance(label.first, str) else str(label.first)
        for label in labels
        if label.last is None
    ]
    asked = []
    if len(single) == 1:
        asked.append(f"{subject} == {single[0]}")
    elif single:
        asked.append(f"{subject} in ({', '.join(single)})")
    asked += [
        f"{label.first} <= {subject} <= {label.last}" for label in labels if label.last is not None
    ]
    return " or ".join(asked)


def indented(lines: Iterable[str]) -> list[str]:
    """Lines of Python, one level deeper."""
    return [f"    {line}".rstrip() for line in lines]


def constant(symbol: str) -> str:
    """A symbol as the name of a constant: `ScoutId` to `SCOUT_ID`."""
    return snake(symbol).upper()


def snake(name: str) -> str:
    """`openPid` to `open_pid`.

    Example:
        >>> snake("SubscriberDecl"), snake("id1"), snake("hasPrid")
        ('subscriber_decl', 'id1', 'has_prid')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def attribute(name: str) -> str:
    """A member's name as Python's."""
    made = snake(name)
    return f"{made}_" if keyword.iskeyword(made) or made in _VARIABLES else made

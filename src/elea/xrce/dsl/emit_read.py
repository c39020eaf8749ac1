"""Statements that read a record: each leaves a member in a variable, the last makes the object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from elea.xrce.dsl import model
from elea.xrce.dsl.plan import Class, Plan, attribute, indented, snake


@dataclass(slots=True, frozen=True)
class _Place:
    """Where a value goes, and what it is called."""

    one: Class  # the record it is a member of
    prefix: str  # of the variables of that record's members
    target: str  # the variable for the value
    kind: str  # and its type
    path: str  # what bounds are known by
    label: str  # what errors call it
    number: str = ""  # of the alternative, for variables of different types


class ReadEmitter:
    """Makes the bodies of the functions that read."""

    def __init__(self, plan: Plan, bounds: Mapping[str, str]) -> None:
        self._plan = plan
        self._schema = plan.schema
        self._bounds = bounds
        self.lists: dict[str, list[str]] = {}  # functions for lists that have a name

    def record(self, one: Class) -> list[str]:
        """The body of the function for a class."""
        return self._members(one, "", "return ")

    def _members(self, one: Class, prefix: str, result: str) -> list[str]:
        lines: list[str] = []
        arguments: list[str] = []
        for member in one.record.members:
            name = attribute(member.name)
            kind = self._plan.member_type(one.record, member)
            path = f"{one.name}.{member.name}"
            place = _Place(one, prefix, f"{prefix}{name}", kind, path, member.name)
            lines += self._read(member.type, place)
            arguments.append(f"{name}={place.target}")
        return [*lines, f"{result}{one.name}({', '.join(arguments)})"]

    def _read(self, type_: model.Type, place: _Place) -> list[str]:
        if isinstance(type_, model.Name):
            if type_.name in self._plan.families:
                return [f"{place.target} = read_{snake(type_.name)}(reader)"]
            place = replace(place, path=type_.name)
            if (found := self._plan.named_list(type_)) is not None:
                return self._named_list(type_, found, place)
        target = place.target
        match plain := self._schema.resolve(type_):
            case model.Nat() if place.path in self._bounds:
                bits = self._bounds[place.path]
                return [f'{target} = reader.wide("{place.label}", {bits})']
            case model.Nat() | model.Enumeration():
                return [f'{target} = reader.nat("{place.label}")']
            case model.Byte():
                return [f'{target} = reader.byte("{place.label}")']
            case model.Flag():
                return [f"{target} = header & 0x{1 << plain.bit:02X} != 0"]
            case model.Header():
                return self._header(plain, place)
            case model.Sequence():
                return self._sequence(plain, place)
            case model.Option():
                return self._option(plain, place)
            case model.Record():
                made = self._plan.classes[id(plain)]
                if self._plan.has_flags(plain):
                    return self._members(made, f"{target}_", f"{target} = ")
                return [f"{target} = _read_{snake(made.name)}(reader)"]
            case model.Case():
                return self._case(plain, place)

    def _header(self, header: model.Header, place: _Place) -> list[str]:
        target = place.target
        lines = [f'header = reader.byte("{place.label}")', f"{target} = header & {header.mask}"]
        kinds = self._schema.resolve(header.value)
        if isinstance(kinds, model.Enumeration):
            values = ", ".join(str(symbol.value) for symbol in kinds.symbols)
            reason = f'f"{place.label} is {{{target}}}, which is not defined"'
            lines += [
                f"if {target} not in ({values},):",
                f"    raise DecodeError({reason}, reader.pos - 1)",
            ]
        return lines

    def _sequence(self, sequence: model.Sequence, place: _Place) -> list[str]:
        target, path = place.target, place.path
        many = f"{target}{place.number}_list"
        bound = f", {self._bounds[path]}" if path in self._bounds else ""
        if self._schema.is_octets(sequence):
            return [f'{target} = reader.octets("{place.label}"{bound})']
        kind = self._plan.python_type(sequence.element)
        inner = replace(place, target=f"{target}_item", kind=kind, path=f"{path}[]")
        element = self._read(sequence.element, inner)
        if len(element) == 1:  # one expression needs no variable
            element = [f"{many}.append({_expression(element[0])})"]
        else:
            element.append(f"{many}.append({target}_item)")
        return [
            f"{many}: list[{kind}] = []",
            f'for _ in range(reader.count("{place.label}"{bound})):',
            *indented(element),
            f"{target} = tuple({many})",
        ]

    def _named_list(self, name: model.Name, sequence: model.Sequence, place: _Place) -> list[str]:
        function = f"_read_{snake(name.name)}"
        if function not in self.lists:
            kind = self._plan.python_type(sequence)
            inner = replace(place, target="found", label=attribute(name.name))
            *body, last = self._sequence(sequence, inner)
            body.append(f"return {_expression(last)}")
            self.lists[function] = [f"def {function}(reader: Reader) -> {kind}:", *indented(body)]
        call = f"{place.target} = {function}(reader)"
        option = self._schema.resolve(name)
        return [self._optional(option, call)] if isinstance(option, model.Option) else [call]

    def _optional(self, option: model.Option, assignment: str) -> str:
        test = f"header & 0x{1 << self._schema.bit(option.condition):02X}"
        return f"{assignment} if {test} else None"

    def _option(self, option: model.Option, place: _Place) -> list[str]:
        inner = self._read(option.value, place)
        if len(inner) == 1:
            return [self._optional(option, inner[0])]
        test = f"header & 0x{1 << self._schema.bit(option.condition):02X}"
        return [f"{place.target}: {place.kind} = None", f"if {test}:", *indented(inner)]

    def _case(self, case: model.Case, place: _Place) -> list[str]:
        record = place.one.record
        lines = [f"{place.target}: {place.kind}"]
        if not self._plan.is_exhaustive(record, case):
            lines[0] += " = None"
        subject = place.prefix + attribute(case.subject)
        for number, (one, test) in enumerate(self._plan.tests(record, case, subject)):
            inner = replace(place, number=str(number))
            lines += [test, *indented(self._read(one.type, inner))]
        return lines


def _expression(assignment: str) -> str:
    return assignment.partition(" = ")[2]

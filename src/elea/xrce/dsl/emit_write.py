"""Statements that write a record: first its flags are gathered, then octet after octet goes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from elea.xrce.dsl import model
from elea.xrce.dsl.plan import Class, Plan, attribute, indented, snake


@dataclass(slots=True, frozen=True)
class _Place:
    """Where a value comes from, and what it is called."""

    one: Class  # the record it is a member of
    owner: str  # the variable of that record
    source: str  # the expression for the value
    path: str  # what bounds are known by
    field: str  # what errors call it


class WriteEmitter:
    """Makes the bodies of the functions that write."""

    def __init__(self, plan: Plan, bounds: Mapping[str, str]) -> None:
        self._plan = plan
        self._schema = plan.schema
        self._bounds = bounds
        self.lists: dict[str, list[str]] = {}  # functions for lists that have a name

    def record(self, one: Class) -> list[str]:
        """The body of the function for a class; the object is called `this`."""
        header = self._schema.resolve(one.record.members[0].type)
        lines: list[str] = []
        if one.header is not None:
            lines = [f"header = {one.value}"]
        elif isinstance(header, model.Header):
            first = attribute(one.record.members[0].name)
            lines = [f"header = this.{first} & 0x{header.mask:02X}"]
        if lines:
            flags = self._flags_of(one, "this")
            if flags:
                lines += [*flags, "out.append(header)"]
            else:
                lines = [f"out.append({lines[0].removeprefix('header = ')})"]
        return lines + self._members(one, "this")

    def _places(self, one: Class, owner: str) -> list[tuple[model.Type, _Place]]:
        return [
            (member.type, _Place(one, owner, f"{owner}.{attribute(member.name)}", path, path))
            for member in one.record.members
            for path in [f"{one.name}.{member.name}"]
        ]

    # Flags.

    def _flags_of(self, one: Class, owner: str) -> list[str]:
        found = [self._flags(type_, place) for type_, place in self._places(one, owner)]
        return [line for lines in found for line in lines]

    def _flags(self, type_: model.Type, place: _Place) -> list[str]:
        if not self._plan.has_flags(type_):
            return []
        match plain := self._schema.resolve(type_):
            case model.Flag():
                return [f"if {place.source}:", f"    header |= 0x{1 << plain.bit:02X}"]
            case model.Option():
                bit = 1 << self._schema.bit(plain.condition)
                inner = [f"header |= 0x{bit:02X}", *self._flags(plain.value, place)]
                return [f"if {self._present(plain, place.source)}:", *indented(inner)]
            case model.Record():
                return self._flags_of(self._plan.classes[id(plain)], place.source)
            case model.Case():
                lines: list[str] = []
                subject = f"{place.owner}.{attribute(plain.subject)}"
                for number, (one, test) in enumerate(
                    self._plan.tests(place.one.record, plain, subject, apart=True)
                ):
                    if self._plan.has_flags(one.type):
                        chosen, lead = self._chosen(plain, one, place, f"flagged{number}")
                        lines += [test, *indented([*lead, *self._flags(one.type, chosen)])]
                return lines
            case _:
                return []

    def _present(self, option: model.Option, source: str) -> str:
        """A list without elements is not worth its flag (4.5)."""
        is_list = isinstance(self._schema.resolve(option.value), model.Sequence)
        return source if is_list else f"{source} is not None"

    # What follows the header.

    def _members(self, one: Class, owner: str) -> list[str]:
        found = [self._write(type_, place) for type_, place in self._places(one, owner)]
        return [line for lines in found for line in lines]

    def _write(self, type_: model.Type, place: _Place) -> list[str]:
        if isinstance(type_, model.Name):
            if type_.name in self._plan.families:
                return [f"write_{snake(type_.name)}(out, {place.source})"]
            place = replace(place, path=type_.name)
            if (found := self._plan.named_list(type_)) is not None:
                return self._named_list(type_, found, place)
        source, field = place.source, place.field
        match plain := self._schema.resolve(type_):
            case model.Nat() if place.path in self._bounds:
                return [f'put_wide(out, {source}, "{field}", {self._bounds[place.path]})']
            case model.Nat() | model.Enumeration():
                return [f'put_nat(out, {source}, "{field}")']
            case model.Byte():
                return [f'put_byte(out, {source}, "{field}")']
            case model.Sequence():
                return self._sequence(plain, place)
            case model.Option():
                inner = self._write(plain.value, place)
                return [f"if {self._present(plain, source)}:", *indented(inner)]
            case model.Record():
                made = self._plan.classes[id(plain)]
                if self._plan.has_flags(plain):
                    return self._members(made, source)
                return [f"_write_{snake(made.name)}(out, {source})"]
            case model.Case():
                return self._case(plain, place)
            case _:  # flags and headers are out already
                return []

    def _sequence(self, sequence: model.Sequence, place: _Place) -> list[str]:
        source, path, field = place.source, place.path, place.field
        bound = f", {self._bounds[path]}" if path in self._bounds else ""
        if self._schema.is_octets(sequence):
            return [f'put_octets(out, {source}, "{field}"{bound})']
        item = f"{source.rpartition('.')[2]}_item"
        inner = replace(place, source=item, path=f"{path}[]", field=f"{field}[]")
        return [
            f'put_count(out, len({source}), "{field}"{bound})',
            f"for {item} in {source}:",
            *indented(self._write(sequence.element, inner)),
        ]

    def _named_list(self, name: model.Name, sequence: model.Sequence, place: _Place) -> list[str]:
        function = f"_write_{snake(name.name)}"
        if function not in self.lists:
            kind = self._plan.python_type(sequence)
            inner = replace(place, source="this", field=name.name)
            self.lists[function] = [
                f"def {function}(out: bytearray, this: {kind}) -> None:",
                *indented(self._sequence(sequence, inner)),
            ]
        call = f"{function}(out, {place.source})"
        option = self._schema.resolve(name)
        if not isinstance(option, model.Option):
            return [call]
        return [f"if {self._present(option, place.source)}:", f"    {call}"]

    def _case(self, case: model.Case, place: _Place) -> list[str]:
        record = place.one.record
        subject = f"{place.owner}.{attribute(case.subject)}"
        name = attribute(place.field.rpartition(".")[2])
        lines: list[str] = []
        for number, (one, test) in enumerate(self._plan.tests(record, case, subject)):
            chosen, lead = self._chosen(case, one, place, f"{name}{number}")
            body = self._write(one.type, chosen)
            if body or test != "else:":
                lines += [test, *indented([*lead, *body] if body else ["pass"])]
        if not self._plan.is_exhaustive(record, case):
            lines += [
                f"elif {place.source} is not None:",
                f'    raise unwanted("{place.field}", "{case.subject}")',
            ]
        return lines

    def _chosen(
        self, case: model.Case, one: model.Alternative, place: _Place, name: str
    ) -> tuple[_Place, list[str]]:
        """The value as one of the types it may have, in a variable of its own."""
        kind = self._plan.python_type(one.type)
        several = len({self._plan.python_type(other.type) for other in case.alternatives}) > 1
        if several:
            lead = [f'{name} = cast("{kind}", {place.source})']
        else:
            lead = [f"{name} = {place.source}"]
            if not self._plan.is_exhaustive(place.one.record, case):
                lead += [
                    f"if {name} is None:",
                    f'    raise missing("{place.field}", "{case.subject}")',
                ]
        return replace(place, source=name), lead

"""A codec that follows the schema word by word: slow, and independent of the generated one.

Tests hold the two against each other, and `elea xrce explain` takes its notes from this one. Values
are plain: a record is a dict, a sequence a list, octets are bytes, a value that is not there None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from elea.errors import DecodeError, InvalidValueError, ShortError
from elea.xrce.dsl import model
from elea.xrce.dsl.bounds import value as bound_value
from elea.xrce.dsl.check import ROOT

Value: TypeAlias = "int | bool | bytes | list[Value] | dict[str, Value] | None"


@dataclass(slots=True)
class Note:
    """What some octets say."""

    start: int
    end: int
    depth: int
    field: str
    value: Value
    meaning: str = ""


@dataclass(slots=True)
class _Octets:
    """Where decoding is, and what was seen."""

    data: bytes
    pos: int
    notes: list[Note] | None = None  # none are taken
    depth: int = 0
    header: int = 0  # the octet that flags are bits of
    header_at: int = 0
    header_note: Note | None = None
    members: list[dict[str, tuple[model.Member, Value]]] = field(default_factory=list)

    def byte(self, label: str) -> int:
        if self.pos >= len(self.data):
            raise ShortError(f"the input ends inside {label}", self.pos)
        self.pos += 1
        return self.data[self.pos - 1]

    def nat(self, label: str) -> int:
        start, value = self.pos, 0
        for index in range(10):
            if self.pos >= len(self.data):
                raise ShortError(f"the input ends inside {label}", start)
            octet = self.data[self.pos]
            self.pos += 1
            value += octet % 128 << 7 * index
            if octet < 128:
                break
        else:
            raise DecodeError(f"{label} is a number of more than 10 octets", start)
        if value >= 2**64:
            raise DecodeError(f"{label} is {value}, legal is below 2^64", start)
        return value

    def wide(self, label: str, bits: int) -> int:
        start = self.pos
        groups: list[int] = []
        while not groups or groups[-1] >= 128:
            if 7 * len(groups) >= bits + 7:
                raise DecodeError(f"{label} has more than {bits} bits", start)
            groups.append(self.byte_of(start, label))
        value = sum((octet & 127) << 7 * place for place, octet in enumerate(groups))
        if value.bit_length() > bits:
            raise DecodeError(f"{label} has more than {bits} bits", start)
        return value

    def byte_of(self, start: int, label: str) -> int:
        """One more octet of what began at `start`."""
        if self.pos >= len(self.data):
            raise ShortError(f"the input ends inside {label}", start)
        return self.byte(label)

    def note(self, start: int, label: str, value: Value, meaning: str = "") -> Value:
        if self.notes is not None:
            self.notes.append(Note(start, self.pos, self.depth, label, value, meaning))
        return value


class Interpreter:
    """Messages of one schema, to octets and back."""

    def __init__(self, schema: model.Schema, bounds: Mapping[str, str] | None = None) -> None:
        self.schema = schema
        self._bounds = {path: bound_value(name) for path, name in (bounds or {}).items()}

    def decode(
        self, data: bytes, start: int = 0, notes: list[Note] | None = None
    ) -> tuple[Value, int]:
        """The message at `start` and where it ends; what was read is added to `notes`.

        Raises:
            ShortError: The octets end inside the message.
            DecodeError: They are no message.
        """
        octets = _Octets(data, start, notes)
        return self._read(model.Name(ROOT, 0), octets, ROOT, ROOT), octets.pos

    def encode(self, value: Value) -> bytes:
        """The octets of a message."""
        out = bytearray()
        _Writer(self.schema, self._bounds, out).write(model.Name(ROOT, 0), value, ROOT)
        return bytes(out)

    def _read(self, type_: model.Type, octets: _Octets, path: str, label: str) -> Value:
        """One value; `path` is what bounds are known by, `label` what a reader calls it."""
        if isinstance(type_, model.Name):
            return self._read(self.schema.definitions[type_.name].type, octets, type_.name, label)
        match type_:
            case model.Nat() | model.Enumeration():
                return self._number(type_, octets, path, label)
            case model.Byte():
                start = octets.pos
                return octets.note(start, label, octets.byte(label))
            case model.Flag():
                found = bool(octets.header >> type_.bit & 1)
                if found and octets.header_note is not None:
                    octets.header_note.meaning += f" {path}"
                return found
            case model.Header():
                return self._header(type_, octets, label)
            case model.Sequence():
                return self._sequence(type_, octets, path, label)
            case model.Option():
                if self._read(type_.condition, octets, path, label):
                    return self._read(type_.value, octets, path, label)
                return None
            case model.Record():
                return self._record(type_, octets, path)
            case model.Case():
                return self._case(type_, octets, path, label)

    def _number(
        self, type_: model.Nat | model.Enumeration, octets: _Octets, path: str, label: str
    ) -> Value:
        start = octets.pos
        bits = self._bounds.get(path)
        number = octets.nat(label) if bits is None else octets.wide(label, bits)
        meaning = ""
        if isinstance(type_, model.Enumeration):
            meaning = _symbol(type_, number) or "not defined"
        return octets.note(start, label, number, meaning)

    def _header(self, header: model.Header, octets: _Octets, label: str) -> Value:
        start = octets.pos
        octets.header = octets.byte(label)
        value = octets.header & header.mask
        kind = self.schema.resolve(header.value)
        symbol = _symbol(kind, value) if isinstance(kind, model.Enumeration) else ""
        octets.note(start, label, value, symbol or "")
        octets.header_at, octets.header_note = start, octets.notes[-1] if octets.notes else None
        if symbol is None:
            raise DecodeError(f"{label} is {value}, which is not defined", start)
        return value

    def _sequence(self, sequence: model.Sequence, octets: _Octets, path: str, label: str) -> Value:
        start = octets.pos
        count = octets.nat(label)
        bound = self._bounds.get(path)
        if bound is not None and count > bound:
            raise DecodeError(f"{label}: {count}, at most {bound} are legal", start)
        if self.schema.is_octets(sequence):
            if count > len(octets.data) - octets.pos:
                raise ShortError(f"the input ends inside {label}", octets.pos)
            octets.pos += count
            text = octets.data[octets.pos - count : octets.pos]
            return octets.note(start, label, text)
        octets.note(start, label, count, "element" if count == 1 else "elements")
        found: list[Value] = []
        octets.depth += 1
        for _ in range(count):
            found.append(self._read(sequence.element, octets, path + "[]", label))
        octets.depth -= 1
        return found

    def _record(self, record: model.Record, octets: _Octets, path: str) -> Value:
        members: dict[str, tuple[model.Member, Value]] = {}
        octets.members.append(members)
        for member in record.members:
            value = self._read(member.type, octets, f"{path}.{member.name}", member.name)
            members[member.name] = member, value
        octets.members.pop()
        return {name: value for name, (_, value) in members.items()}

    def _case(self, case: model.Case, octets: _Octets, path: str, label: str) -> Value:
        member, value = octets.members[-1][case.subject]
        assert isinstance(value, int)
        found = model.selected(case, self.schema.subject(member), value)
        if found is not None:
            return self._read(found.type, octets, path, label)
        if isinstance(self.schema.resolve(member.type), model.Header):
            # Nobody knows how long it is, so nothing after it can be found.
            reason = f"{case.subject} is {value}, which has no definition"
            raise DecodeError(reason, octets.header_at)
        return None


class _Writer:
    """One message on its way into octets."""

    def __init__(self, schema: model.Schema, bounds: Mapping[str, int], out: bytearray) -> None:
        self._schema = schema
        self._bounds = bounds
        self._out = out
        self._header_at = 0
        self._members: list[tuple[model.Record, dict[str, Value]]] = []

    def write(self, type_: model.Type, value: Value, path: str) -> None:
        if isinstance(type_, model.Name):
            self.write(self._schema.definitions[type_.name].type, value, type_.name)
            return
        match type_:
            case model.Nat() | model.Enumeration():
                self._nat(_int(value, path), path, self._bounds.get(path, 64))
            case model.Byte():
                self._out.append(_int(value, path))
            case model.Flag():
                self._out[self._header_at] |= bool(value) << type_.bit
            case model.Header():
                self._header_at = len(self._out)
                self._out.append(_int(value, path))
            case model.Sequence():
                self._sequence(type_, value, path)
            case model.Option():
                present = value is not None and value != []
                self.write(type_.condition, present, path)
                if present:
                    self.write(type_.value, value, path)
            case model.Record():
                assert isinstance(value, dict)
                self._members.append((type_, value))
                for member in type_.members:
                    self.write(member.type, value[member.name], f"{path}.{member.name}")
                self._members.pop()
            case model.Case():
                self._case(type_, value, path)

    def _case(self, case: model.Case, value: Value, path: str) -> None:
        record, values = self._members[-1]
        member = next(one for one in record.members if one.name == case.subject)
        subject = _int(values[case.subject], path)
        found = model.selected(case, self._schema.subject(member), subject)
        if found is not None:
            self.write(found.type, value, path)
        elif value is not None:
            raise InvalidValueError(path, f"{case.subject} is {subject}, which rules it out")

    def _sequence(self, sequence: model.Sequence, value: Value, path: str) -> None:
        assert isinstance(value, list | bytes)
        bound = self._bounds.get(path)
        if bound is not None and len(value) > bound:
            raise InvalidValueError(path, f"{len(value)} of them, at most {bound} are legal")
        self._nat(len(value), path)
        if isinstance(value, bytes):
            self._out += value
            return
        for item in value:
            self.write(sequence.element, item, path + "[]")

    def _nat(self, number: int, path: str, bits: int = 64) -> None:
        if not 0 <= number < 1 << bits:
            raise InvalidValueError(path, f"{number} is no number below 2^{bits}")
        groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
        self._out += bytes(group | 0x80 for group in groups[:-1])
        self._out.append(groups[-1])


def _int(value: Value, path: str) -> int:
    if not isinstance(value, int):
        raise InvalidValueError(path, f"a number is needed, got {value!r}")
    return value


def _symbol(enumeration: model.Enumeration, value: int) -> str | None:
    names = (symbol.name for symbol in enumeration.symbols if symbol.value == value)
    return next(names, None)

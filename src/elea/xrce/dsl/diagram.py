"""Octets drawn as text: a header with its flags, then a row per field.

    |A|R|S|    7    |
    ~      sn       ~  nat
    ~     prid      ~  nat, if A
    ~    payload    ~  [byte]

`|` is one octet, `~` as many as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.xrce.dsl import model

_INSIDE: Final = 15  # between the borders: eight bits, each as wide as a letter and a bar


def diagram(
    schema: model.Schema, header: model.Header, value: int, record: model.Record
) -> list[str]:
    """The rows of a record that a header with this value announces."""
    letters = dict(flags(schema, record))
    bits = "".join(f"|{letters.get(bit, 'x')}" for bit in range(7, header.width - 1, -1))
    rows = [f"{bits}|{_centred(str(value), 2 * header.width - 1)}|"]
    return rows + list(_rows(schema, record, ""))


def _rows(schema: model.Schema, record: model.Record, condition: str) -> Iterator[str]:
    for member in record.members:
        yield from _row(schema, record, member, member.type, condition)


def _row(
    schema: model.Schema,
    record: model.Record,
    member: model.Member,
    type_: model.Type,
    condition: str,
) -> Iterator[str]:
    plain = schema.resolve(type_)
    match plain:
        case model.Flag() | model.Header():
            return
        case model.Option():
            met = _both(condition, f"if {_letter(schema, plain.condition)}")
            yield from _row(schema, record, member, plain.value, met)
        case model.Record():
            yield from _rows(schema, plain, condition)
        case model.Case():
            for alternative in plain.alternatives:
                met = _both(condition, _when(schema, record, plain, alternative))
                yield from _row(schema, record, member, alternative.type, met)
        case model.Nat() | model.Byte() | model.Enumeration() | model.Sequence():
            border = "|" if isinstance(plain, model.Byte) else "~"
            remark = ", ".join(filter(None, (_type_text(schema, type_), condition)))
            yield f"{border}{_centred(member.name, _INSIDE)}{border}  {remark}"


def _when(
    schema: model.Schema, record: model.Record, case: model.Case, alternative: model.Alternative
) -> str:
    subject = next(member for member in record.members if member.name == case.subject)
    if isinstance(schema.resolve(subject.type), model.Flag):
        letter = _letter(schema, subject.type)
        return f"if {letter}" if alternative.labels[0].first == "true" else f"if not {letter}"
    labels = [
        str(label.first) if label.last is None else f"{label.first} to {label.last}"
        for label in alternative.labels
    ]
    return f"if {case.subject} is {' or '.join(labels)}"


def _both(first: str, second: str) -> str:
    return f"{first} and {second}" if first else second


def _type_text(schema: model.Schema, type_: model.Type) -> str:
    match type_:
        case model.Name():
            plain = schema.resolve(type_)
            if isinstance(plain, model.Option | model.Sequence):
                return _type_text(schema, plain) if type_.name != "string" else "string"
            return type_.name
        case model.Sequence():
            element = type_.element
            name = element.name if isinstance(element, model.Name) else _type_text(schema, element)
            return f"[{name}]"
        case model.Option():
            return _type_text(schema, type_.value)
        case model.Record():
            members = (f"{one.name}: {_type_text(schema, one.type)}" for one in type_.members)
            return f"{{{', '.join(members)}}}"
        case _:
            return type(type_).__name__.lower()


def flags(schema: model.Schema, type_: model.Type) -> Iterator[tuple[int, str]]:
    """Bits and letters of the flags of one header."""
    plain = schema.resolve(type_)
    match plain:
        case model.Flag():
            yield plain.bit, _letter(schema, type_)
        case model.Option():
            yield from flags(schema, plain.condition)
            yield from flags(schema, plain.value)
        case model.Record():
            for member in plain.members:
                yield from flags(schema, member.type)
        case model.Case():
            for alternative in plain.alternatives:
                yield from flags(schema, alternative.type)
        case _:
            return


def _letter(schema: model.Schema, flag: model.Type) -> str:
    return flag.name[0] if isinstance(flag, model.Name) else f"{schema.bit(flag)}"


def _centred(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)

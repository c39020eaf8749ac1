"""Octets a fuzzer should know: headers with each of their flags, and numbers at their edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.xrce.dsl import model
from elea.xrce.dsl.check import ROOT
from elea.xrce.dsl.diagram import flags

# Numbers where an octet more begins, a padded one, the largest, one too large, one too long.
_NUMBERS: Final = (
    *(b"\x7f", b"\x80\x01", b"\xff\x7f", b"\x80\x80\x01", b"\x80\x00"),
    *(b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00"),
)


def dictionary(schema: model.Schema) -> list[bytes]:
    """Every token, each once, in the order of the definitions."""
    return list(dict.fromkeys([*_headers(schema, model.Name(ROOT, 0)), *_NUMBERS]))


def _headers(schema: model.Schema, type_: model.Type) -> Iterator[bytes]:
    plain = schema.resolve(type_)
    match plain:
        case model.Record():
            for header, case in zip(plain.members, plain.members[1:], strict=False):
                yield from _kinds(schema, header, case)
            for member in plain.members:
                yield from _headers(schema, member.type)
        case model.Sequence():
            yield from _headers(schema, plain.element)
        case model.Option():
            yield from _headers(schema, plain.value)
        case model.Case():
            for alternative in plain.alternatives:
                yield from _headers(schema, alternative.type)
        case _:
            return


def _kinds(schema: model.Schema, header: model.Member, member: model.Member) -> Iterator[bytes]:
    """The octets of a header, if the member after it is a case over it."""
    case = schema.resolve(member.type)
    if not isinstance(schema.resolve(header.type), model.Header):
        return
    if not isinstance(case, model.Case) or case.subject != header.name:
        return
    subject = schema.subject(header)
    for alternative in case.alternatives:
        bits = sorted(bit for bit, _ in flags(schema, alternative.type))
        for label in alternative.labels:
            value, _ = model.interval(label, subject)
            yield bytes((value,))
            yield from (bytes((value | 1 << bit,)) for bit in bits)


def to_text(tokens: list[bytes]) -> str:
    """The tokens as libFuzzer reads them."""
    lines = ("".join(f"\\x{octet:02x}" for octet in token) for token in tokens)
    return "".join(f'"{line}"\n' for line in lines)

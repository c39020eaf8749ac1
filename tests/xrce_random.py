"""Random well-formed messages, made from the schema, and mutations of octets."""

from __future__ import annotations

import random
from typing import Final

from elea.xrce.dsl import model
from elea.xrce.dsl.check import ROOT
from elea.xrce.dsl.interpret import Value

_EDGES: Final = (0, 1, 2, 127, 128, 16_383, 16_384, 2**32, 2**63 - 1, 2**64 - 1)
_LIST_LEN_MAX: Final = 4


class MessageMaker:
    """Draws values of a schema."""

    def __init__(self, schema: model.Schema, seed: int) -> None:
        self._schema = schema
        self.rng = random.Random(seed)

    def message(self) -> Value:
        return self._make(model.Name(ROOT, 0), {})

    def _make(self, type_: model.Type, members: dict[str, tuple[model.Member, Value]]) -> Value:
        rng = self.rng
        plain = self._schema.resolve(type_)
        match plain:
            case model.Nat():
                return (
                    rng.choice(_EDGES) if rng.random() < 0.3 else rng.getrandbits(rng.randrange(64))
                )
            case model.Byte():
                return rng.choice((0, 1, 255, rng.randrange(256)))
            case model.Flag():
                return rng.random() < 0.5
            case model.Enumeration():
                known = rng.choice(plain.symbols).value
                return known if rng.random() < 0.8 else rng.choice(_EDGES)
            case model.Header():
                return 0  # chosen with its case, below
            case model.Sequence():
                if self._schema.is_octets(plain):
                    return rng.randbytes(rng.choice((0, 1, 2, 8, 130)))
                count = rng.randrange(_LIST_LEN_MAX)
                return [self._make(plain.element, {}) for _ in range(count)]
            case model.Option():
                return self._make(plain.value, members) if rng.random() < 0.5 else None
            case model.Record():
                inner: dict[str, tuple[model.Member, Value]] = {}
                for member in plain.members:
                    inner[member.name] = member, self._make(member.type, inner)
                    kinds = self._kinds(plain, member)
                    if kinds:
                        inner[member.name] = member, rng.choice(kinds)
                return {name: value for name, (_, value) in inner.items()}
            case model.Case():
                member, value = members[plain.subject]
                assert isinstance(value, int)
                found = model.selected(plain, self._schema.subject(member), value)
                return None if found is None else self._make(found.type, members)

    def _kinds(self, record: model.Record, header: model.Member) -> list[int]:
        """The values of a header that the cases over it have alternatives for."""
        if not isinstance(self._schema.resolve(header.type), model.Header):
            return []
        subject = self._schema.subject(header)
        return [
            model.interval(label, subject)[0]
            for member in record.members
            if isinstance(case := self._schema.resolve(member.type), model.Case)
            and case.subject == header.name
            for alternative in case.alternatives
            for label in alternative.labels
        ]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Something close to a message: flipped, cut, padded, or with a length that lies."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(7):
            case 0 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 1:  # other flags, same kind
                out[:1] = bytes(octet ^ rng.choice((0x20, 0x40, 0x80)) for octet in out[:1])
            case 2:
                del out[at:]
            case 3 if out and out[at] < 0x80:  # a number of one octet more
                out[at : at + 1] = bytes((out[at] | 0x80, 0))
            case 4:  # a count, or a length, that lies
                out[at : at + 1] = rng.choice((b"\x7f", b"\xff\xff\x03", b"\xff" * 9 + b"\x01"))
            case 5:
                out[at:at] = rng.choice((b"\xff" * 10, b"\x80" * 9 + b"\x02", rng.randbytes(3)))
            case _:
                del out[at : at + rng.choice((1, 2, 8))]
    return bytes(out)

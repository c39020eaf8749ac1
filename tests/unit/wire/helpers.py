"""What the test of every message asks: an example both ways, cut at every byte, and refusals."""

from __future__ import annotations

from functools import partial

import pytest
from tests.wire_kinds import Part, decode, encode, notes

from elea.errors import DecodeError
from elea.wire.batches import decode_batch, decode_scouting
from elea.wire.codec import Message
from elea.wire.dialect import Dialect

Examples = dict[str, tuple[str, Part]]
Refusals = dict[str, tuple[str, str]]


def check_example(text: str, part: Part, dialect: Dialect = Dialect.ECLIPSE) -> None:
    """`text` (hex) decodes to `part`, traced or not, and `part` is written as `text`."""
    octets = bytes.fromhex(text)
    assert decode(octets, part, dialect) == part
    assert notes(octets, part, dialect)[0] == part
    assert encode(part, dialect) == octets


def check_cuts(text: str, part: Part, *, open_from: int | None = None) -> None:
    """Every strict prefix is refused; from `open_from` octets on the rest is optional."""
    octets = bytes.fromhex(text)
    for length in range(1, len(octets) if open_from is None else open_from):
        with pytest.raises(DecodeError) as caught:
            decode(octets[:length], part)
        assert 0 <= caught.value.offset <= length
        with pytest.raises(DecodeError):
            notes(octets[:length], part)


def check_refused(text: str, reason: str, *, scouting: bool = False, bare: bool = True) -> None:
    """The octets are refused for a reason that matches."""
    octets = bytes.fromhex(text)
    attempt = (
        partial(decode_scouting, octets) if scouting else partial(decode_batch, octets, bare=bare)
    )
    with pytest.raises(DecodeError, match=reason) as caught:
        attempt()
    assert 0 <= caught.value.offset <= len(octets)


def one(text: str, dialect: Dialect = Dialect.ECLIPSE) -> Message:
    """The only message of a batch."""
    [message] = decode_batch(bytes.fromhex(text), bare=True, dialect=dialect)
    return message

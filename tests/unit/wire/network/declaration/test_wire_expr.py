"""The WireExpr extension, on an undeclaration, in both dialects."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.errors import DecodeError
from elea.wire.batches import decode_batch, describe_batch
from elea.wire.dialect import Dialect
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.token import UndeclareToken
from elea.wire.network.declare import Declare

EXAMPLES: Examples = {
    "raw suffix": ("1e 87 00 5f 06 03 00 6c762f31", UndeclareToken(0, WireExpr(0, "lv/1"))),
    "no suffix": ("1e 87 00 5f 04 00 ffff03", UndeclareToken(0, WireExpr(0xFFFF, "", False))),
}
REFUSED: Refusals = {
    "empty body": ("1e 87 00 5f 00", "flags needs 1"),
    "scope of 17 bits": ("1e 87 00 5f 04 02 808004", "key scope is 65536"),
    "octets that N does not announce": ("1e 87 00 5f 03 02 01 61", "wire expression ends 1"),
    "suffix that is no UTF-8": ("1e 87 00 5f 03 03 00 ff", "key suffix is not UTF-8"),
    "body longer than the batch": ("1e 87 00 5f 05 03", "extension body needs 5"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    check_example(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_at_every_byte(name: str) -> None:
    check_cuts(*EXAMPLES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(*REFUSED[name])


SAME = UndeclareToken(0, WireExpr(1, "/*"))


@pytest.mark.parametrize(
    ("dialect", "octets"),
    [
        (Dialect.ECLIPSE, "1e 87 00 5f 04 03 01 2f2a"),
        (Dialect.SPECIFICATION, "1e 87 00 5f 05 03 01 02 2f2a"),
    ],
)
def test_the_suffix_in_both_dialects(dialect: Dialect, octets: str) -> None:
    check_example(octets, SAME, dialect)
    [tree] = describe_batch(decode_batch(bytes.fromhex(octets), bare=True, dialect=dialect))
    body = tree["body"]
    assert isinstance(body, dict)
    assert body["ext"] == [{"ext": "wire_expr", "scope": 1, "suffix": "/*", "mapping": "sender"}]


def test_the_length_is_text_in_the_other_dialect() -> None:
    # wire.md 12, row 1: this is why the two do not understand each other.
    [message] = decode_batch(bytes.fromhex("1e 87 00 5f 05 03 01 02 2f2a"), bare=True)
    assert message == Declare(UndeclareToken(0, WireExpr(1, "\x02/*")))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("1e 87 00 5f 04 03 01 2f2a", "key suffix needs 47"),
        ("1e 87 00 5f 05 03 01 01 2f2a", "wire expression ends 1"),
        ("1e 87 00 5f 05 03 01 808004", "key suffix length is 65536"),
    ],
)
def test_refused_by_the_specification(octets: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_batch(bytes.fromhex(octets), bare=True, dialect=Dialect.SPECIFICATION)

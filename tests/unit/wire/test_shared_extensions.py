"""TsStack: what Eclipse knows and the specification does not."""

from __future__ import annotations

import pytest

from elea.wire.batches import decode_batch, describe_batch, encode_batch
from elea.wire.data.delete import Del
from elea.wire.dialect import Dialect
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push
from elea.wire.shared_extensions import StackRecord, TimestampStack

STACK = "47 05 07 01 01 01 ff"
CARRIERS = {
    "PUSH": "dd 01 {} 02",
    "REQUEST": "dc 01 01 {} 03",
    "RESPONSE": "db 01 01 {} 04 02",
}


def test_a_stack_is_read_by_eclipse_and_kept_by_the_specification() -> None:
    octets = bytes.fromhex(CARRIERS["PUSH"].format(STACK))
    stack = TimestampStack.of(7, (StackRecord(1, b"\xff"),))
    assert decode_batch(octets, bare=True) == [Push(WireExpr(1), Del(), ts_stack=stack)]
    kept = Extras(unknown=(Extension(0x47, bytes.fromhex("07010101ff")),))
    assert decode_batch(octets, bare=True, dialect=Dialect.SPECIFICATION) == [
        Push(WireExpr(1), Del(), extras=kept)
    ]


def test_the_records_of_a_stack() -> None:
    records = [StackRecord(1, b"\xff"), StackRecord(0x82, b"")]
    stack = TimestampStack.of(7, records)
    assert stack.count == 2
    assert list(stack.records) == records


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("chain", ["47 05 07 01 01 01 ff", "c7 02 07 00 21 08", "8e 47 02 07 00"])
def test_it_survives_both(carrier: str, chain: str) -> None:
    octets = bytes.fromhex(CARRIERS[carrier].format(chain))
    for dialect in Dialect:
        messages = decode_batch(octets, bare=True, dialect=dialect)
        assert encode_batch(messages, dialect=dialect) == octets


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_specification_does_not_look_inside(carrier: str) -> None:
    octets = bytes.fromhex(CARRIERS[carrier].format("47 01 00"))  # no flags: no stack of Eclipse
    messages = decode_batch(octets, bare=True, dialect=Dialect.SPECIFICATION)
    [tree] = describe_batch(messages)
    assert tree["ext"] == [
        {"ext": "unknown", "id": 7, "mandatory": False, "enc": "zbuf", "value": "00"}
    ]


def test_a_stack_is_described() -> None:
    [tree] = describe_batch(decode_batch(bytes.fromhex(f"dd01 {STACK} 02"), bare=True))
    assert tree["ext"] == [
        {"ext": "ts_stack", "conf_flags": 7, "records": [{"flags": 1, "timestamp": "ff"}]}
    ]

"""PUSH."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.wire.batches import decode_batch, encode_batch
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.push import Push
from elea.wire.shared_extensions import StackRecord, TimestampStack

KEY = WireExpr(1)
BODY = Put(b"")

EXAMPLES: Examples = {
    "sender alias": ("5d 01 01 00", Push(KEY, BODY)),
    "receiver alias and suffix": ("3d 01 02 2f61 01 00", Push(WireExpr(1, "/a", False), BODY)),
    "text": ("7d 00 02 c3a9 01 00", Push(WireExpr(0, "é"), BODY)),
    "del": ("5d 01 02", Push(KEY, Del())),
    "QoS": ("dd 01 21 19 01 00", Push(KEY, BODY, 0x19)),
    "QoS of a del": ("dd 01 21 19 02", Push(KEY, Del(), 0x19)),
    "QoS with all bits": ("dd 01 21 ff01 01 00", Push(KEY, BODY, 0xFF)),
    "QoS written out": ("dd 01 21 05 01 00", Push(KEY, BODY, extras=Extras(b"\x21"))),
    "timestamp": ("dd 01 42 03 05 01 aa 01 00", Push(KEY, BODY, timestamp=Stamp(5, b"\xaa"))),
    "node id": ("dd 01 33 ffff03 01 00", Push(KEY, BODY, node_id=0xFFFF)),
    "timestamp stack": (
        "dd 01 47 07 07 02 01 01 ff 82 00 01 00",
        Push(
            KEY,
            BODY,
            ts_stack=TimestampStack.of(7, (StackRecord(1, b"\xff"), StackRecord(0x82, b""))),
        ),
    ),
    "another order, a default, an unknown one": (
        "dd 01 b3 00 ca 00 21 06 01 00",
        Push(KEY, BODY, 6, extras=Extras(b"\x33\x4a\x21", (Extension(0x4A, b""),))),
    ),
    "unknown ones with an encoding of known ids": (
        "dd 01 c1 00 22 00 01 00",
        Push(KEY, BODY, extras=Extras(unknown=(Extension(0x41, b""), Extension(0x22, 0)))),
    ),
}
REFUSED: Refusals = {
    "scope of 17 bits": ("5d 808004 01 00", "key scope is 65536, legal is below 2.16"),
    "suffix of 65536": ("7d 00 808004" + "61" * 65536 + "0100", "key suffix length is 65536"),
    "suffix longer than the batch": ("7d 00 ffff03 61", "key suffix needs 65535"),
    "suffix that is no UTF-8": ("7d 00 01 ff 01 00", "key suffix is not UTF-8"),
    "suffix with half a surrogate pair": ("7d 00 03 eda080 01 00", "key suffix is not UTF-8"),
    "QoS of 9 bits": ("dd 01 21 8002 01 00", "QoS is 256, legal is below 2.8"),
    "node id of 17 bits": ("dd 01 33 808004 01 00", "node id is 65536"),
    "timestamp with a tail": ("dd 01 42 04 05 01 aa 00 01 00", "timestamp extension ends 1"),
    "timestamp without id": ("dd 01 42 02 05 00 01 00", "1 to 16 octets, got 0"),
    "stack without flags": ("dd 01 47 02 00 00 01 00", "flags must not be zero"),
    "stack of 256": (
        "dd 01 47 8304 01 8002" + "0100" * 256 + "0100",
        "at most 255 records, got 256",
    ),
    "stack with a tail": ("dd 01 47 03 01 00 00 01 00", "timestamp stack ends 1"),
    "record longer than the stack": ("dd 01 47 04 01 01 01 05 01 00", "record timestamp needs 5"),
    "extension with the reserved encoding": ("dd 01 61 01 00", "0b11 is reserved"),
    "an optional NodeId is unknown, a mandatory QoS too": (
        "dd 01 31 05",
        "mandatory extension 0x31",
    ),
    "33 extensions": ("dd 01" + "8e" * 33, "PUSH has more than 32 extensions"),
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


def test_a_stack_of_255_is_legal() -> None:
    octets = bytes.fromhex("dd 01 47 8104 01 ff01" + "0100" * 255 + "0100")
    messages = decode_batch(octets, bare=True)
    assert encode_batch(messages) == octets


def test_an_empty_suffix_is_no_suffix() -> None:
    messages = decode_batch(bytes.fromhex("7d 01 00 01 00"), bare=True)
    assert messages == [Push(KEY, BODY)]
    assert encode_batch(messages) == bytes.fromhex("5d 01 01 00")


@pytest.mark.parametrize(
    ("chain", "written"),
    [
        ("a106 2107", "2107"),
        ("a106 2105", "2105"),
        ("a105 2106", "2106"),
        ("a106 b301 2107", "b301 2107"),
    ],
)
def test_the_last_of_repeated_extensions_wins(chain: str, written: str) -> None:
    messages = decode_batch(bytes.fromhex(f"dd 01 {chain} 01 00"), bare=True)
    octets = encode_batch(messages)
    assert octets == bytes.fromhex(f"dd 01 {written} 01 00")
    assert decode_batch(octets, bare=True) == messages


def test_a_long_integer_is_written_short() -> None:
    messages = decode_batch(bytes.fromhex("dd 8100 21 8600 01 8000"), bare=True)
    assert messages == [Push(KEY, BODY, 6)]
    assert encode_batch(messages) == bytes.fromhex("dd 01 21 06 01 00")


def test_messages_are_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(Push(KEY, BODY))

"""FRAME: the header, and where its messages end."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused

from elea.errors import DecodeError
from elea.wire.batches import decode_batch
from elea.wire.extensions import Extension, Extras
from elea.wire.network.response_final import ResponseFinal
from elea.wire.transport.frame import Frame
from elea.wire.transport.keepalive import KeepAlive

EXAMPLES: Examples = {
    "reliable": ("25 d5b49f7c", Frame(260561493)),
    "best effort": ("05 00", Frame(0, reliable=False)),
    "64-bit sequence number": ("25" + "ff" * 9, Frame(2**64 - 1)),
    "priority": ("a5 01 31 00", Frame(1, priority=0)),
    "priority written out": ("a5 01 31 05", Frame(1, extras=Extras(b"\x31"))),
    "reserved bit": ("65 01", Frame(1, extras=Extras(reserved=0x40))),
    "extension before the priority": (
        "85 01 ae 07 31 02",
        Frame(1, False, 2, Extras(b"\x2e\x31", (Extension(0x2E, 7),))),
    ),
}
REFUSED: Refusals = {
    "priority 8": ("a5 01 31 08", "priority is 8, legal is below 2.3"),
    "unknown mandatory extension": ("a5 01 32 00", "FRAME: unknown mandatory extension 0x32"),
    "reserved encoding": ("a5 01 61", "0b11 is reserved"),
    "a message that is no message": ("25 01 18", "0x18 is no transport message"),
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


def test_a_frame_ends_where_a_transport_message_starts() -> None:
    messages = decode_batch(bytes.fromhex("2501 1a01 1a02 04 0502 1a03"))
    assert messages == [
        Frame(1),
        ResponseFinal(1),
        ResponseFinal(2),
        KeepAlive(),
        Frame(2, reliable=False),
        ResponseFinal(3),
    ]


@pytest.mark.parametrize("octets", ["1a01", "04 1a01", "2501 1a01 04 1a02"])
def test_network_messages_belong_in_a_frame(octets: str) -> None:
    with pytest.raises(DecodeError, match="outside a FRAME"):
        decode_batch(bytes.fromhex(octets))
    assert decode_batch(bytes.fromhex(octets), bare=True)

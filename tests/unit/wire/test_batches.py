"""Batches and reassembled messages as a whole."""

from __future__ import annotations

import pytest

from elea.errors import DecodeError
from elea.wire.batches import decode_batch, describe_batch, encode_batch
from elea.wire.codec import NETWORK, TRANSPORT, BatchDecoder, decode_one, encode_one
from elea.wire.network.response_final import ResponseFinal
from elea.wire.trace import Trace
from elea.wire.transport.close import Close
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.keepalive import KeepAlive

# Section 1.4.
NETWORK_IDS = {
    0x19: "INTEREST",
    0x1A: "RESPONSE_FINAL",
    0x1B: "RESPONSE",
    0x1C: "REQUEST",
    0x1D: "PUSH",
    0x1E: "DECLARE",
    0x1F: "OAM",
}
TRANSPORT_IDS = {
    0x00: "T_OAM",
    0x01: "INIT",
    0x02: "OPEN",
    0x03: "CLOSE",
    0x04: "KEEP_ALIVE",
    0x05: "FRAME",
    0x06: "FRAGMENT",
    0x07: "JOIN",
}


def test_every_identifier_has_its_message() -> None:
    assert {id_: entry[0] for id_, entry in NETWORK.items()} == NETWORK_IDS
    assert {id_: entry[0] for id_, entry in TRANSPORT.items()} == TRANSPORT_IDS


@pytest.mark.parametrize("kind", sorted(set(range(32)) - set(NETWORK_IDS) - set(TRANSPORT_IDS)))
@pytest.mark.parametrize("trace", [None, Trace()], ids=["plain", "traced"])
def test_identifiers_nobody_has(kind: int, trace: Trace | None) -> None:
    for flags in (0x00, 0xE0):
        decoder = BatchDecoder(bytes((kind | flags, 0, 0)), trace=trace, bare=True)
        with pytest.raises(DecodeError, match=f"0x{kind:02x} is no transport message"):
            decoder.next()


@pytest.mark.parametrize("kind", sorted(TRANSPORT_IDS))
def test_a_reassembled_message_is_a_network_message(kind: int) -> None:
    with pytest.raises(DecodeError, match="is no network message"):
        decode_one(bytes((kind, 0, 0)))


def test_octets_after_a_reassembled_message_are_ignored() -> None:
    assert decode_one(bytes.fromhex("1a07ffff")) == ResponseFinal(7)
    with pytest.raises(DecodeError, match="header needs 1"):
        decode_one(b"")


def test_an_empty_batch_is_legal() -> None:
    assert decode_batch(b"") == []
    assert encode_batch([]) == b""


def test_a_fragment_takes_the_rest_of_its_batch() -> None:
    assert decode_batch(bytes.fromhex("04 2600 0300")) == [KeepAlive(), Fragment(0, b"\3\0")]


def test_offsets_count_from_the_start_of_the_batch() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_batch(bytes.fromhex("04 0300 2500 1a01 dd01 33 808004 02"))
    assert caught.value.offset == 13


def test_describing_puts_messages_into_their_frames() -> None:
    trees = describe_batch(decode_batch(bytes.fromhex("2501 1a02 1a03 04 2504 1a05 0300")))
    shown = [(tree["msg"], [one["id"] for one in _payload(tree)]) for tree in trees]
    assert shown == [("FRAME", [2, 3]), ("KEEP_ALIVE", []), ("FRAME", [5]), ("CLOSE", [])]


def _payload(tree: dict[str, object]) -> list[dict[str, object]]:
    payload = tree.get("payload", [])
    assert isinstance(payload, list)
    return payload


def test_a_message_by_itself() -> None:
    assert encode_one(Close(2)) == bytes.fromhex("0302")

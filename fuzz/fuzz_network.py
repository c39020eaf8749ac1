"""Fuzz the decoder of one reassembled network message: any octets, or a DecodeError."""

from __future__ import annotations

from pathlib import Path

from elea.errors import DecodeError
from elea.wire.batches import describe_network
from elea.wire.codec import decode_one, encode_one

_HEX = (Path(__file__).parent / "seeds" / "network.hex").read_text(encoding="ascii").split()
SEEDS = [bytes.fromhex(line) for line in _HEX]


def one_input(data: bytes) -> None:
    try:
        message = decode_one(data)
    except DecodeError:
        return
    written = encode_one(message)
    again = decode_one(written)
    assert encode_one(again) == written
    assert again == message or describe_network(again) == describe_network(message)

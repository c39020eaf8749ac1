"""Fuzz the scouting decoder: any datagram is a SCOUT, a HELLO or a DecodeError."""

from __future__ import annotations

from pathlib import Path

from elea.errors import DecodeError
from elea.wire.batches import decode_scouting, describe_scouting, encode_scouting

_HEX = (Path(__file__).parent / "seeds" / "scouting.hex").read_text(encoding="ascii").split()
SEEDS = [bytes.fromhex(line) for line in _HEX]


def one_input(data: bytes) -> None:
    try:
        message = decode_scouting(data)
    except DecodeError:
        return
    describe_scouting(message)
    assert decode_scouting(encode_scouting(message)) == message

"""Fuzz link state: any octets are a list of records or a DecodeError."""

from __future__ import annotations

from pathlib import Path

from elea.errors import DecodeError
from elea.wire.buffer import Reader
from elea.wire.network import linkstate

_HEX = (Path(__file__).parent / "seeds" / "linkstate.hex").read_text(encoding="ascii").split()
SEEDS = [bytes.fromhex(line) for line in _HEX]


def one_input(data: bytes) -> None:
    try:
        states = linkstate.decode(Reader(data))
    except DecodeError:
        return
    again = linkstate.decode(Reader(linkstate.to_bytes(states)))
    assert again == states

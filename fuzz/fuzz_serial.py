"""Fuzz a serial line: any bytes give batches or counted refusals, and the line goes on."""

from __future__ import annotations

from elea.limits import SERIAL_BATCH_LEN_MAX
from elea.link.serial_framing import (
    ACK,
    FRAME_LEN_MAX,
    INIT,
    RESET,
    FrameReader,
    SerialLine,
    encode_frame,
)

SEEDS = [
    encode_frame(INIT) + encode_frame(0, b"\x05\x01batch") + encode_frame(0, bytes(300)),
    encode_frame(INIT | ACK) + encode_frame(0, bytes(range(256))) + encode_frame(RESET),
    encode_frame(INIT) + encode_frame(INIT) + encode_frame(0, b"late"),
    encode_frame(RESET) + encode_frame(INIT | ACK),
    b"\xff" + b"x" * 254 + b"\x01\0",
    b"\x7f" * 1_600 + b"\0" + encode_frame(0, b"x" * SERIAL_BATCH_LEN_MAX),
]


def one_input(data: bytes) -> None:
    for listens in (True, False):
        line = SerialLine(listens=listens)
        line.dial()
        middle = len(data) // 2
        batches = line.receive(data[:middle]) + line.receive(data[middle:])
        assert all(0 < len(batch) <= SERIAL_BATCH_LEN_MAX for batch in batches)
        assert len(line.take_output()) <= FRAME_LEN_MAX
    reader = FrameReader()
    list(reader.feed(data + b"\0"))
    assert list(reader.feed(encode_frame(0, b"next"))) == [(0, b"next")]

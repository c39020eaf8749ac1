"""Zenoh's framing of a serial line: COBS, length, CRC-32, and the handshake. wire.md 3.5.

A frame is `header u8 | length u16le | data | crc32 u32le`, encoded with COBS and ended by a zero
byte. The CRC covers the data. It is the one of z-serial and zenoh-pico: the polynomial 0x04C11DB7
is used as it is in a register that shifts right, so `zlib.crc32` gives other sums. The header
carries INIT, ACK and RESET; only frames without data may have these, as the CRC does not cover it.

No I/O here: bytes of the line go into a `SerialLine`, batches and bytes to send come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from elea.limits import SERIAL_BATCH_LEN_MAX

INIT: Final = 0x01
ACK: Final = 0x02
RESET: Final = 0x04

_FLAGS: Final = INIT | ACK | RESET  # the other bits of the header are reserved, and ignored
_AROUND_LEN: Final = 1 + 2 + 4  # header, length, CRC
_BLOCK_LEN: Final = 254  # non-zero bytes that one code byte of COBS stands before, at most
_BODY_LEN_MAX: Final = SERIAL_BATCH_LEN_MAX + _AROUND_LEN

# The longest frame without its zero byte.
FRAME_LEN_MAX: Final = _BODY_LEN_MAX + _BODY_LEN_MAX // _BLOCK_LEN + 1


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x04C11DB7 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()


def crc32(data: bytes) -> int:
    """Return the checksum of a frame's data.

    Example:
        >>> crc32(bytes((0x00, 0x11, 0x00))).to_bytes(4, "little").hex()
        '73ec75f9'
    """
    table = _CRC_TABLE
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFF_FFFF


def cobs_encode(data: bytes) -> bytes:
    """Encode bytes so that none is zero.

    Example:
        >>> cobs_encode(bytes((0x11, 0x00, 0x22))).hex()
        '02110222'
    """
    encoded = bytearray()
    for run in data.split(b"\0"):
        start = 0
        while len(run) - start >= _BLOCK_LEN:
            encoded.append(0xFF)
            encoded += run[start : start + _BLOCK_LEN]
            start += _BLOCK_LEN
        encoded.append(len(run) - start + 1)
        encoded += run[start:]
    return bytes(encoded)


def cobs_decode(encoded: bytes) -> bytes | None:
    r"""Decode what `cobs_encode` made; None if it is damaged: a block is cut, or a byte is zero.

    Example:
        >>> cobs_decode(bytes.fromhex("02110222")), cobs_decode(b"\x05ab")
        (b'\x11\x00"', None)
    """
    if not encoded or 0 in encoded:
        return None
    decoded = bytearray()
    at, end = 0, len(encoded)
    while at < end:
        after = at + encoded[at]
        if after > end:
            return None
        decoded += encoded[at + 1 : after]
        if encoded[at] != 0xFF and after < end:
            decoded.append(0)
        at = after
    return bytes(decoded)


def encode_frame(flags: int, data: bytes = b"") -> bytes:
    """Return a frame as it goes over the line, with its zero byte.

    Example:
        >>> encode_frame(0, bytes((0x00, 0x11, 0x00))).hex()
        '0102030102110573ec75f900'
    """
    body = b"".join(
        (
            bytes((flags,)),
            len(data).to_bytes(2, "little"),
            data,
            crc32(data).to_bytes(4, "little"),
        )
    )
    return cobs_encode(body) + b"\0"


def decode_frame(encoded: bytes) -> tuple[int, bytes] | None:
    r"""Return flags and data of a frame without its zero byte; None if it is damaged.

    Example:
        >>> decode_frame(encode_frame(INIT | ACK)[:-1]), decode_frame(b"\x01\x02")
        ((3, b''), None)
    """
    if len(encoded) > FRAME_LEN_MAX:
        return None
    body = cobs_decode(encoded)
    if body is None or len(body) < _AROUND_LEN:
        return None
    data = body[3:-4]
    if len(data) != int.from_bytes(body[1:3], "little") or len(data) > SERIAL_BATCH_LEN_MAX:
        return None
    if crc32(data) != int.from_bytes(body[-4:], "little"):
        return None
    flags = body[0] & _FLAGS
    return None if flags and data else (flags, data)


class FrameReader:
    """Cuts the bytes of a line into frames; keeps at most one unfinished frame.

    Example:
        >>> reader = FrameReader()
        >>> list(reader.feed(b"noise" + encode_frame(0, b"lost") + encode_frame(0, b"kept")))
        [(0, b'kept')]
        >>> reader.damaged_count
        1
    """

    __slots__ = ("_partial", "_skipping", "damaged_count")

    def __init__(self) -> None:
        self.damaged_count = 0  # frames that noise, a cut or a forger had spoilt
        self._partial = b""
        self._skipping = False  # the frame is too long: wait for its end

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield flags and data of each whole, undamaged frame."""
        *ended, rest = data.split(b"\0")
        for piece in ended:
            skipped, self._skipping = self._skipping, False
            encoded, self._partial = self._partial + piece, b""
            if skipped or not encoded:
                continue  # counted before; or a zero byte alone, which fills a silence
            frame = decode_frame(encoded)
            if frame is None:
                self.damaged_count += 1
            else:
                yield frame
        if not self._skipping:
            self._partial += rest
            if len(self._partial) > FRAME_LEN_MAX:
                self._partial = b""
                self._skipping = True
                self.damaged_count += 1


class LineState(Enum):
    """Where the conversation of a line is."""

    LISTENING = "listening"  # waits for INIT
    DIALLING = "dialling"  # has sent INIT, waits for INIT with ACK
    RESTING = "resting"  # was answered with RESET: the other end wants INIT once more, later
    OPEN = "open"
    RESTARTED = "restarted"  # INIT came in the conversation: the other end began anew
    REFUSED = "refused"  # RESET came in the conversation: the other end does not know it
    LOOPED = "looped"  # INIT came in answer to INIT


_OVER: Final = (LineState.RESTARTED, LineState.REFUSED, LineState.LOOPED)


class SerialLine:
    """One end of a serial line: the handshake, then batches.

    Example:
        >>> near, far = SerialLine(listens=False), SerialLine(listens=True)
        >>> near.dial()
        >>> far.receive(near.take_output()), near.receive(far.take_output())
        ([], [])
        >>> near.state.value, far.state.value
        ('open', 'open')
        >>> far.receive(encode_frame(0, b"batch"))
        [b'batch']
    """

    __slots__ = ("_output", "_reader", "_stray_count", "state")

    def __init__(self, *, listens: bool) -> None:
        self.state = LineState.LISTENING if listens else LineState.DIALLING
        self._reader = FrameReader()
        self._output = b""
        self._stray_count = 0

    @property
    def dropped_count(self) -> int:
        """Frames that were dropped: damaged ones, and those that did not fit the state."""
        return self._reader.damaged_count + self._stray_count

    @property
    def is_over(self) -> bool:
        """Whether nothing comes of this conversation any more."""
        return self.state in _OVER

    def dial(self) -> None:
        """Send INIT, for the first time or once more; nothing unless this end dials."""
        if self.state in (LineState.DIALLING, LineState.RESTING):
            self.state = LineState.DIALLING
            self._output = encode_frame(INIT)

    def take_output(self) -> bytes:
        """Return what the handshake has to send."""
        output, self._output = self._output, b""
        return output

    def receive(self, data: bytes) -> list[bytes]:
        """Return the batches in what the line brought."""
        batches = []
        for flags, batch in self._reader.feed(data):
            if self.is_over:
                self._stray_count += 1
            elif flags:
                self._control(flags)
            elif self.state is not LineState.OPEN:
                self._stray_count += 1  # of a conversation before this one
            elif batch:
                batches.append(batch)  # one without bytes means nothing
        return batches

    def _control(self, flags: int) -> None:
        state = self.state
        if flags == INIT and state is LineState.LISTENING:
            self._output = encode_frame(INIT | ACK)
            self.state = LineState.OPEN
        elif flags == INIT and state is LineState.OPEN:
            self._output = encode_frame(RESET)
            self.state = LineState.RESTARTED
        elif flags == INIT:
            self.state = LineState.LOOPED
        elif flags == INIT | ACK and state in (LineState.DIALLING, LineState.RESTING):
            self.state = LineState.OPEN
        elif flags == RESET and state is LineState.DIALLING:
            self.state = LineState.RESTING
        elif flags == RESET and state is LineState.OPEN:
            self.state = LineState.REFUSED
        else:
            self._stray_count += 1

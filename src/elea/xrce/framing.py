"""Frames: on streams, out of octets as they come; and the markers in front of their messages.

A datagram is one frame. On a stream each frame has its length in front; a length of 0 ends that
for the rest of the connection: from there on messages follow each other as they are (6.1, A-8).
Inside a frame, Conduit and Frag are markers of exactly the next message (6.3, A-9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from elea.errors import DecodeError, LimitError, ShortError
from elea.limits import XRCE_FRAME_LEN_MAX
from elea.xrce.buffer import Reader, put_nat
from elea.xrce.decode import read_message
from elea.xrce.encode import write_message
from elea.xrce.message_records import Conduit, ConduitIdPart, Frag, Message, StreamData, WriteData

_PREFIX_LEN_MAX: Final = 11  # one octet more than a number has, to tell short from malformed


@dataclass(slots=True)
class Marked:
    """A message and what its markers say."""

    message: Message
    conduit: int = 0
    fragment: Frag | None = None


def read_frame(frame: bytes) -> Iterator[Marked]:
    """The messages of a frame, one by one: those before an error have been given out.

    Raises:
        ShortError: The frame ends inside a message.
        DecodeError: It holds what is no message, or a marker where none may be.
    """
    reader = Reader(frame)
    while not reader.at_end():
        yield read_marked(reader)


def read_marked(reader: Reader, *, more: bool = False) -> Marked:
    """The next message, with its markers; if `more` may come, a marker alone is short."""
    marker_at = reader.pos
    message = read_message(reader)
    conduit = 0
    if isinstance(message, Conduit):
        conduit = conduit_number(message)
        message = _after(reader, "Conduit", marker_at, more)
    if not isinstance(message, Frag):
        if isinstance(message, Conduit):
            raise DecodeError("a Conduit marker after another", marker_at)
        return Marked(message, conduit)
    fragment = message
    if fragment.n == 0:
        raise DecodeError("a Frag marker for no fragments, at least 1 is legal", marker_at)
    message = _after(reader, "Frag", marker_at, more)
    if not isinstance(message, StreamData | WriteData):
        kind = type(message).__name__
        reason = f"a Frag marker before {kind}; only StreamData and WriteData have fragments"
        raise DecodeError(reason, marker_at)
    return Marked(message, conduit, fragment)


def write_marked(out: bytearray, marked: Marked) -> None:
    """Append a message behind its markers."""
    if marked.conduit:
        write_message(out, conduit_marker(marked.conduit))
    if marked.fragment is not None:
        write_message(out, marked.fragment)
    write_message(out, marked.message)


def conduit_number(marker: Conduit) -> int:
    """The conduit a marker names: 1 to 4 in the compact form (7.15)."""
    if isinstance(marker.id, ConduitIdPart):
        return 1 + marker.id.id0 + 2 * marker.id.id1
    return marker.id


def conduit_marker(number: int) -> Conduit:
    """The shortest marker for a conduit."""
    if 1 <= number <= 4:
        part = ConduitIdPart(id1=number > 2, id0=number % 2 == 0)
        return Conduit(compact=True, id=part)
    return Conduit(compact=False, id=number)


def frame_prefix(frame: bytes) -> bytes:
    """What goes in front of a frame on a stream."""
    if not 0 < len(frame) <= XRCE_FRAME_LEN_MAX:
        raise LimitError("xrce_frame_len_max", len(frame), XRCE_FRAME_LEN_MAX)
    out = bytearray()
    put_nat(out, len(frame), "frame")
    return bytes(out)


class FrameStream:
    """One direction of a stream: octets in as they come, whole frames out.

    Without lengths a frame is one message with its markers; that is all that can be told apart.
    """

    def __init__(self, frame_len_max: int = XRCE_FRAME_LEN_MAX) -> None:
        self.unframed = False
        self._frame_len_max = frame_len_max
        self._buffer = bytearray()

    @property
    def pending_len(self) -> int:
        """Octets of a frame that is not whole yet."""
        return len(self._buffer)

    def receive(self, data: bytes) -> None:
        """Take octets from the stream."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None until more has come.

        Raises:
            DecodeError: The stream cannot be followed any more; the connection has to end.
        """
        if not self.unframed:
            reader = Reader(bytes(self._buffer[:_PREFIX_LEN_MAX]))
            try:
                length = reader.nat("frame length")
            except ShortError:
                return None
            if length > self._frame_len_max:
                bound = self._frame_len_max
                raise DecodeError(f"a frame of {length} octets, at most {bound} are legal", 0)
            if length:
                return self._cut(reader.pos, reader.pos + length)
            del self._buffer[: reader.pos]
            self.unframed = True
        return self._next_message()

    def _next_message(self) -> bytes | None:
        if not self._buffer:
            return None
        reader = Reader(bytes(self._buffer[: self._frame_len_max]))
        try:
            read_marked(reader, more=True)
        except ShortError:
            if len(self._buffer) >= self._frame_len_max:
                bound = self._frame_len_max
                raise DecodeError(f"a message of more than {bound} octets", 0) from None
            return None
        return self._cut(0, reader.pos)

    def _cut(self, start: int, end: int) -> bytes | None:
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[start:end])
        del self._buffer[:end]
        return frame


def _after(reader: Reader, marker: str, at: int, more: bool) -> Message:
    if reader.at_end() and not more:
        raise DecodeError(f"a {marker} marker and nothing after it", at)
    return read_message(reader)

"""Messages to frames: as many as fit, in order (6.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from elea.xrce.message_records import CONDUIT_ID, FRAG_ID

_KIND: Final = 0x1F


def pack(messages: Iterable[bytes], frame_len: int) -> list[bytes]:
    """Frames of at most `frame_len` octets; a message longer than that is a frame of its own.

    A message without markers never follows one with markers: some implementations let a marker last
    until the end of its frame (6.3).
    """
    frames: list[bytes] = []
    frame = bytearray()
    marked = False
    for message in messages:
        has_marker = message[0] & _KIND in (CONDUIT_ID, FRAG_ID)
        if frame and (len(frame) + len(message) > frame_len or (marked and not has_marker)):
            frames.append(bytes(frame))
            frame.clear()
        frame += message
        marked = has_marker
    if frame:
        frames.append(bytes(frame))
    return frames

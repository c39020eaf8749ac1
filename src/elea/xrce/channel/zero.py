"""Numbers 0 and 1 of a channel: whether such a message is a copy of the one that came last."""

from __future__ import annotations

import zlib
from typing import Final

_FLAG_S: Final = 0x20  # a retransmission may have it in addition


def digest(message: bytes) -> int:
    """A message as a number, without the flag that a retransmission may have in addition."""
    return zlib.crc32(message[1:], zlib.crc32(bytes((message[0] & ~_FLAG_S,))))

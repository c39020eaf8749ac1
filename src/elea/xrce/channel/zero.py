"""Numbers 0 and 1 of a channel: whether such a message is a copy of the one that came last."""

from __future__ import annotations

import zlib
from typing import Final

_FLAG_S: Final = 0x20  # a retransmission may have it in addition


def digest(message: bytes) -> int:
    """A message as a number, without the flag that a retransmission may have in addition."""
    return zlib.crc32(message[1:], zlib.crc32(bytes((message[0] & ~_FLAG_S,))))


class Zero:
    """The messages 0 and 1 that came last, of one reliable channel."""

    __slots__ = ("_first", "_second")

    def __init__(self) -> None:
        self._first = self._second = -1

    def note(self, sn: int, message: bytes) -> None:
        """A message with one of these numbers came that is new."""
        if sn:
            self._second = digest(message)
        else:
            self._first = digest(message)

    def is_copy(self, sn: int, message: bytes) -> bool:
        """Whether a message is equal to the one that came last with its number."""
        known = self._first if sn == 0 else self._second if sn == 1 else -1
        return digest(message) == known

"""Length-prefixed batches inside a byte stream. wire.md 3.1, 3.4.

A batch on a stream is preceded by its length: a u16le, or a u32le once low latency is in force.
`StreamDecoder` takes whatever a socket had and gives back whole batches.
"""

from __future__ import annotations

from typing import Final

from elea.errors import DecodeError
from elea.limits import BATCH_LEN_MAX

PREFIX_LEN: Final = 2
PREFIX_LEN_LOW_LATENCY: Final = 4


def frame(batch: bytes, *, low_latency: bool = False) -> bytes:
    """`batch` with its length in front."""
    prefix_len = PREFIX_LEN_LOW_LATENCY if low_latency else PREFIX_LEN
    if len(batch) > BATCH_LEN_MAX:
        raise ValueError(f"a batch has at most {BATCH_LEN_MAX} octets, got {len(batch)}")
    return len(batch).to_bytes(prefix_len, "little") + batch


class StreamDecoder:
    """Cuts a byte stream into batches.

    `batch_len_max` bounds the value of the length field: the negotiated batch size less the
    prefix. A longer batch is refused at its prefix, before any of it is kept.
    """

    __slots__ = ("_buffer", "_start", "batch_len_max", "low_latency", "offset")

    def __init__(self, *, batch_len_max: int = BATCH_LEN_MAX) -> None:
        self.batch_len_max = batch_len_max
        self.low_latency = False
        self.offset = 0  # of the next batch's prefix, from the start of the stream
        self._buffer = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        """Take octets as they arrived."""
        if self._start:
            # What earlier batches left behind goes once per read, not once per batch.
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next_batch(self) -> bytes | None:
        """The next whole batch, or None until more octets arrive.

        Raises:
            DecodeError: if a length is above `batch_len_max`; the stream cannot go on.
        """
        prefix_len = PREFIX_LEN_LOW_LATENCY if self.low_latency else PREFIX_LEN
        body = self._start + prefix_len
        if len(self._buffer) < body:
            return None
        length = int.from_bytes(self._buffer[self._start : body], "little")
        if length > self.batch_len_max:
            raise DecodeError(
                f"a batch of {length} octets, at most {self.batch_len_max} were agreed", self.offset
            )
        if len(self._buffer) < body + length:
            return None
        self._start = body + length
        self.offset += prefix_len + length
        return bytes(self._buffer[body : body + length])

    @property
    def pending(self) -> int:
        """Octets taken that do not make a batch yet."""
        return len(self._buffer) - self._start

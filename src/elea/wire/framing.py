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

    __slots__ = (
        "_at",
        "_data",
        "_missing",
        "_partial",
        "_prefix_len",
        "batch_len_max",
        "low_latency",
        "offset",
    )

    def __init__(self, *, batch_len_max: int = BATCH_LEN_MAX) -> None:
        self.batch_len_max = batch_len_max
        self.low_latency = False
        self.offset = 0  # of the next batch's prefix, from the start of the stream
        self._data = b""  # the last read
        self._at = 0  # how much of it is done with
        self._partial = bytearray()  # the start of a batch, prefix included, of which so much is
        self._missing = 0
        self._prefix_len = PREFIX_LEN  # of the batch in `_partial`

    def feed(self, data: bytes) -> None:
        """Take octets as they arrived."""
        # Batches are cut out of what was read: an octet is copied once, and once more only if its
        # batch began in an earlier read. A batch that dribbles in is never copied as a whole.
        if self._missing:
            self._partial += data[: self._missing]
            taken = min(self._missing, len(data))
            self._missing -= taken
            self._data = data
            self._at = taken
        elif self._at < len(self._data):
            self._data = self._data[self._at :] + data  # less than a prefix was left
            self._at = 0
        else:
            self._data = data
            self._at = 0

    def next_batch(self) -> bytes | None:
        """The next whole batch, or None until more octets arrive.

        Raises:
            DecodeError: if a length is above `batch_len_max`; the stream cannot go on.
        """
        if self._partial:
            if self._missing:
                return None
            batch = bytes(memoryview(self._partial)[self._prefix_len :])
            self.offset += len(self._partial)
            self._partial = bytearray()
            return batch
        data = self._data
        prefix_len = PREFIX_LEN_LOW_LATENCY if self.low_latency else PREFIX_LEN
        body = self._at + prefix_len
        if len(data) < body:
            return None
        length = int.from_bytes(data[self._at : body], "little")
        if length > self.batch_len_max:
            raise DecodeError(
                f"a batch of {length} octets, at most {self.batch_len_max} were agreed", self.offset
            )
        end = body + length
        if len(data) < end:
            self._partial += memoryview(data)[self._at :]
            self._missing = end - len(data)
            self._prefix_len = prefix_len
            self._at = len(data)
            return None
        self.offset += end - self._at
        self._at = end
        return data[body:end]

    @property
    def pending(self) -> int:
        """Octets taken that do not make a batch yet."""
        return len(self._partial) + len(self._data) - self._at

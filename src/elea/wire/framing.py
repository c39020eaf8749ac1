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

_PIECE_LEN_MIN: Final = 4_096  # shorter pieces of a batch are gathered in one buffer


def frame(batch: bytes, *, low_latency: bool = False) -> bytes:
    """`batch` with its length in front."""
    prefix_len = PREFIX_LEN_LOW_LATENCY if low_latency else PREFIX_LEN
    if len(batch) > BATCH_LEN_MAX:
        raise ValueError(f"a batch has at most {BATCH_LEN_MAX} octets, got {len(batch)}")
    return len(batch).to_bytes(prefix_len, "little") + batch


class StreamDecoder:
    """Cuts a byte stream into batches.

    A batch is told as a window of what was fed: `data[start:stop]`. It is copied only if it came in
    more than one piece; whoever reads `wanted_len` octets at a time hardly ever sees that.

    `batch_len_max` bounds the value of the length field: the negotiated batch size less the
    prefix. A longer batch is refused at its prefix, before any of it is kept.
    """

    __slots__ = (
        "_at",
        "_fed",
        "_have",
        "_length",
        "_pieces",
        "batch_len_max",
        "data",
        "low_latency",
        "offset",
        "start",
        "stop",
    )

    def __init__(self, *, batch_len_max: int = BATCH_LEN_MAX) -> None:
        self.batch_len_max = batch_len_max
        self.low_latency = False
        self.offset = 0  # of the next batch's prefix, from the start of the stream
        self.data = b""  # the batch, once `next_window` has found one
        self.start = self.stop = 0
        self._fed = b""  # the last read
        self._at = 0  # how much of it is done with
        self._length = -1  # of the batch whose prefix was read
        self._pieces: list[bytes | bytearray] = []  # what is there of it
        self._have = 0  # their length

    def feed(self, data: bytes) -> None:
        """Take octets as they arrived. Those fed before have been looked at."""
        # What may be left is less than a prefix.
        self._fed = self._fed[self._at :] + data if self._at < len(self._fed) else data
        self._at = 0

    def next_window(self) -> bool:
        """Find the next whole batch; False until more octets arrive.

        Raises:
            DecodeError: if a length is above `batch_len_max`; the stream cannot go on.
        """
        fed = self._fed
        prefix_len = PREFIX_LEN_LOW_LATENCY if self.low_latency else PREFIX_LEN
        if self._length < 0:
            body = self._at + prefix_len
            if len(fed) < body:
                return False
            length = int.from_bytes(fed[self._at : body], "little")
            if length > self.batch_len_max:
                raise DecodeError(
                    f"a batch of {length} octets, at most {self.batch_len_max} were agreed",
                    self.offset,
                )
            self._length = length
            self._at = body
        start = self._at
        stop = start + self._length - self._have
        if len(fed) < stop:
            self._keep(fed[start:])
            self._at = len(fed)
            return False
        if self._pieces:
            self._pieces.append(fed[start:stop])
            self.data = b"".join(self._pieces)
            self.start, self.stop = 0, self._length
            self._pieces = []
            self._have = 0
        else:
            self.data, self.start, self.stop = fed, start, stop
        self.offset += prefix_len + self._length
        self._length = -1
        self._at = stop
        return True

    def next_batch(self) -> bytes | None:
        """The next whole batch, copied, or None until more octets arrive; raises as above."""
        return self.data[self.start : self.stop] if self.next_window() else None

    @property
    def wanted_len(self) -> int:
        """How many octets to read so that they end with the prefix after this batch; 0: any."""
        prefix_len = PREFIX_LEN_LOW_LATENCY if self.low_latency else PREFIX_LEN
        return 0 if self._length < 0 else self._length - self._have + prefix_len

    @property
    def pending(self) -> int:
        """Octets taken that do not make a batch yet."""
        prefix_len = PREFIX_LEN_LOW_LATENCY if self.low_latency else PREFIX_LEN
        return self._have + len(self._fed) - self._at + (prefix_len if self._length >= 0 else 0)

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._have += len(piece)
        last = self._pieces[-1] if self._pieces else None
        if len(piece) >= _PIECE_LEN_MIN:
            self._pieces.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            # A batch that dribbles in must not cost an object per octet.
            self._pieces.append(bytearray(piece))

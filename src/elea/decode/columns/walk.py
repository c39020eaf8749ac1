"""Walk: one payload of a layout, to find where the values of others like it stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

CDR_HEADER_LEN: Final = 4
_SLICES_COUNT_MAX: Final = 2_048  # of one payload
# Encapsulations in little endian, to the largest alignment; the others are read one by one.
CDR_LITTLE: Final = {
    **dict.fromkeys((b"\0\1", b"\0\3"), 8),
    **dict.fromkeys((b"\0\7", b"\0\x09", b"\0\x0b", b"\0\x11", b"\0\x15"), 4),
}
PARAMETER_LISTS: Final = (b"\0\3", b"\0\x0b")
CDR1: Final = 8  # told apart by their largest alignment
CDR2: Final = 4
NUMBERS: Final = {
    **{f"i{8 * width}": getattr(pa, f"int{8 * width}")() for width in (1, 2, 4, 8)},
    **{f"u{8 * width}": getattr(pa, f"uint{8 * width}")() for width in (1, 2, 4, 8)},
    "f32": pa.float32(),
    "f64": pa.float64(),
}


Gather: TypeAlias = Callable[[pa.Array], pa.Array]


class NoSlicesError(Exception):
    """This payload, or what it holds, has to be read."""


@dataclass(slots=True)
class Walk:
    """One payload of a layout: where it is read, and what others must agree in."""

    payload: bytes
    at: int = 0
    align_max: int = 0  # 0: numbers stand where they come, as in the serialization format
    agreed: list[tuple[int, int]] = field(default_factory=list)
    slices_count: int = 0
    origin: int = CDR_HEADER_LEN  # alignment counts from here

    def take(self, length: int, align: int) -> int:
        if self.align_max:
            self.at += -(self.at - self.origin) % min(align, self.align_max)
        start = self.at
        self.at += length
        self.slices_count += 1
        if self.at > len(self.payload) or self.slices_count > _SLICES_COUNT_MAX:
            raise NoSlicesError
        return start

    def number(self, width: int, *, signed: bool = False) -> int:
        """A number of CDR, in which all must agree."""
        start = self.take(width, width)
        self.agreed.append((start, self.at))
        return int.from_bytes(self.payload[start : self.at], "little", signed=signed)

    def end(self) -> int:
        """Where something ends whose length comes first."""
        length = self.number(4)
        if length > len(self.payload) - self.at:
            raise NoSlicesError
        return self.at + length

    def count(self) -> int:
        """A length or count, in which all must agree."""
        if self.align_max:
            return self.number(4)
        start, count, shift = self.at, 0, 0
        while True:
            octet = self.payload[self.take(1, 1)]
            count |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                self.agreed.append((start, self.at))
                return count
            if shift > 28:
                raise NoSlicesError

"""The header octet of batches on a compressed transport. wire.md 3.3.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |X|X|X|X|X|X|X|C|   C=1 the rest of the batch is one LZ4 block, C=0 it is as it is
    +-+-+-+-+-+-+-+-+

LZ4 itself comes from the `lz4` package, the extra `compression`. A node without it never offers
compression; a block that grows past a batch is refused before it is unpacked.
"""

from __future__ import annotations

from typing import Final

from elea.errors import DecodeError, MissingDependencyError
from elea.limits import DEFAULT_LIMITS, Limits

try:
    from lz4 import block as lz4_block
except ImportError:
    lz4_block = None

FLAG_COMPRESSED: Final = 0x01


def available() -> bool:
    """Whether blocks can be packed and unpacked here."""
    return lz4_block is not None


def unpack(batch: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The octets behind the header of `batch`, unpacked if they are packed.

    Raises:
        DecodeError: if there is no header, or the rest is no LZ4 block within the limits.
        MissingDependencyError: if the batch is packed and lz4 is not installed.
    """
    if not batch:
        raise DecodeError("a batch on a compressed transport starts with a header octet", 0)
    if not batch[0] & FLAG_COMPRESSED:
        return batch[1:]
    if lz4_block is None:
        raise MissingDependencyError("an LZ4-compressed batch", "compression")
    try:
        data: bytes = lz4_block.decompress(
            memoryview(batch)[1:], uncompressed_size=limits.decompressed_len
        )
    except (lz4_block.LZ4BlockError, ValueError, MemoryError) as error:
        raise DecodeError(
            f"no LZ4 block of at most {limits.decompressed_len} octets: {error}", 1
        ) from None
    return data


def pack(data: bytes) -> bytes:
    """A batch with its header: packed if that makes it shorter and lz4 is installed."""
    if lz4_block is not None and data:
        packed: bytes = lz4_block.compress(data, store_size=False)
        if len(packed) < len(data):
            return b"\x01" + packed
    return b"\x00" + data

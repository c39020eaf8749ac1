"""Property lists, as attachments of a DDS bridge have them: ids with bytes (D-544).

count | id | length | bytes | id | length | bytes ...      numbers of variable length
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SERIALIZED_KEY: Final = 9  # the id of an instance's serialised key, with its header
_PROPERTIES_COUNT_MAX: Final = 64
_NAT_BITS: Final = 63


def read_properties(data: bytes) -> dict[int, bytes]:
    """Return the values of a list by their ids.

    Raises:
        ValueError: It is malformed.
    """
    count, at = read_number(data, 0)
    if count > _PROPERTIES_COUNT_MAX:
        raise ValueError("too many properties")
    found: dict[int, bytes] = {}
    for _ in range(count):
        id_, at = read_number(data, at)
        length, at = read_number(data, at)
        if length > len(data) - at:
            raise ValueError("a property runs past the end")
        found.setdefault(id_, data[at : at + length])
        at += length
    if at != len(data):
        raise ValueError("bytes after the last property")
    return found


def write_properties(properties: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a list; inverse of `read_properties`.

    Example:
        >>> read_properties(write_properties([(1, b"a"), (9, b"key")]))
        {1: b'a', 9: b'key'}
    """
    found = list(properties)
    return number(len(found)) + b"".join(
        number(id_) + number(len(value)) + value for id_, value in found
    )


def number(value: int) -> bytes:
    """Return a number of variable length."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends; raises ValueError."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > _NAT_BITS:
            raise ValueError("a number does not end")
        octet = data[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, at
        shift += 7

"""Encapsulation headers: which payloads may be written to which type (dds.md 1, D-453, D-454)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.dds.qos import CDR1, CDR2

HEADER_LEN: Final = 4
_KNOWN: Final = (0x0000, 0x0001, 0x0002, 0x0003, 0x0006, 0x0007, 0x0008, 0x0009, 0x000A, 0x000B)


class Extensibility(Enum):
    """How a type may change; it decides which representations it has."""

    FINAL = "final"
    APPENDABLE = "appendable"
    MUTABLE = "mutable"


_LEGAL: Final = {
    Extensibility.FINAL: (0x0000, 0x0001, 0x0006, 0x0007),
    Extensibility.APPENDABLE: (0x0000, 0x0001, 0x0008, 0x0009),
    Extensibility.MUTABLE: (0x0002, 0x0003, 0x000A, 0x000B),
    None: _KNOWN,
}


def legal_begins(extensibility: Extensibility | None) -> list[bytes]:
    """Return the first two bytes of the payloads that may be samples of a type."""
    return [one.to_bytes(2, "big") for one in _LEGAL[extensibility]]


def version_of(payload: bytes) -> int:
    """Return the data representation of a payload whose header was checked: CDR1 or CDR2."""
    return CDR1 if payload[1] < 6 else CDR2


def refusal(payload: bytes, extensibility: Extensibility | None) -> str | None:
    """Return why a payload cannot be a sample of a type; None if it may be one.

    Args:
        payload: The encapsulation header and the value.
        extensibility: Of the type; None if the type is not known.

    Example:
        >>> refusal(b"{}", None)
        'no encapsulation header: 2 bytes'
    """
    if len(payload) < HEADER_LEN:
        return f"no encapsulation header: {len(payload)} bytes"
    identifier = payload[0] << 8 | payload[1]
    if identifier in _LEGAL[extensibility]:
        return None
    if identifier in _KNOWN and extensibility is not None:
        return f"representation {identifier:04x} does not fit a type that is {extensibility.value}"
    return f"unknown representation {identifier:04x}"


def padded(payload: bytes) -> bytes:
    """Return the payload with zeros up to a multiple of four bytes."""
    missing = -len(payload) % 4
    return payload + bytes(missing) if missing else payload

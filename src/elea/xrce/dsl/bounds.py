"""Bounds that a decoder keeps to, by what they bound: an input of generator and interpreter.

The name of a definition, or of a member as `Record.member`; a sequence that is not here is bounded
by the octets of its frame. A number that is here may have so many bits, instead of 64. The values
are names of `elea.limits`, for the generator to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea import limits

MESSAGE_BOUNDS: Final[Mapping[str, str]] = {
    "Properties": "XRCE_PROPERTIES_COUNT_MAX",
    "Property.value": "XRCE_PROPERTY_LEN_MAX",
    "Declare.declarations": "XRCE_DECLARATIONS_COUNT_MAX",
    "BatchedData.payload": "XRCE_BATCH_COUNT_MAX",
    "AckNack.mask": "XRCE_MASK_BITS_MAX",
}


def value(name: str) -> int:
    """The number behind a name of `elea.limits`."""
    found = getattr(limits, name)
    assert isinstance(found, int)
    return found

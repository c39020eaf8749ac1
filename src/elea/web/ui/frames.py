"""Frames of the live protocol, as they are sent to a browser.

    +--------+----------------------------------+
    |  u32   | header: JSON, padded with spaces |   little endian; the length of the header
    +--------+----------------------------------+

The header is padded so that binary columns may follow at a multiple of eight bytes; no kind of this
version has any.

    {"s": 42, "t": 1794846000.1, "p": [{"w": 7, "k": "rows", "v": [...]}, ...]}
"""

from __future__ import annotations

import json
import struct
from typing import Final

from elea.json5 import Json

_ALIGNMENT: Final = 8
_HEAD: Final = struct.Struct("<I")


def encode(number: int, time_s: float, parts: list[dict[str, Json]]) -> bytes:
    """A frame with what is new.

    Example:
        >>> encode(1, 2.0, [])
        b'\\x1c\\x00\\x00\\x00{"s":1,"t":2.0,"p":[]}      '
    """
    header = json.dumps(
        {"s": number, "t": round(time_s, 3), "p": parts},
        separators=(",", ":"),
        allow_nan=False,
    ).encode("ascii")
    header += b" " * (-(len(header) + _HEAD.size) % _ALIGNMENT)
    return _HEAD.pack(len(header)) + header

"""What robots say: JSON, CBOR and CDR, made by hand so that a fleet needs no library."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value]"

_MAP: Final = 0xA0
_ARRAY: Final = 0x80
_TEXT: Final = 0x60
_FALSE: Final = 0xF4
_DOUBLE: Final = 0xFB
_SHORT_MAX: Final = 23  # what fits into the first octet
_CDR_LITTLE: Final = b"\x00\x01\x00\x00"


def to_json(value: Mapping[str, Value]) -> bytes:
    """A mapping as JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def to_cbor(value: Value) -> bytes:
    """A value as CBOR; texts, lists and mappings have at most 255 octets or members.

    Example:
        >>> to_cbor({"ok": True, "n": [1, 300]}).hex()
        'a2626f6bf5616e820119012c'
    """
    if isinstance(value, bool):
        return bytes([_FALSE + value])
    if isinstance(value, int):
        return _head(0x00, value) if value >= 0 else _head(0x20, -1 - value)
    if isinstance(value, float):
        return struct.pack(">Bd", _DOUBLE, value)
    if isinstance(value, str):
        octets = value.encode()
        return _head(_TEXT, len(octets)) + octets
    if isinstance(value, Mapping):
        pairs = (to_cbor(name) + to_cbor(one) for name, one in value.items())
        return _head(_MAP, len(value)) + b"".join(pairs)
    return _head(_ARRAY, len(value)) + b"".join(to_cbor(one) for one in value)


def _head(major: int, number: int) -> bytes:
    if number <= _SHORT_MAX:
        return bytes([major | number])
    if number <= 0xFF:
        return bytes([major | 24, number])
    if number <= 0xFFFF:
        return struct.pack(">BH", major | 25, number)
    return struct.pack(">BI", major | 26, number)


def pose_to_cdr(time_ns: int, x: float, y: float, yaw_sin: float, yaw_cos: float) -> bytes:
    """`geometry_msgs/msg/PoseStamped` in the frame `map`, as ROS 2 sends it.

    Args:
        time_ns: When it was there, since 1970.
        x: Where, in metres,
        y: on the floor.
        yaw_sin: The heading, as the sine
        yaw_cos: and the cosine of half its angle.
    """
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    # Doubles stand at multiples of eight octets, counted from behind the first four.
    header = struct.pack("<iII4s", seconds, nanoseconds, 4, b"map\0")
    return _CDR_LITTLE + header + struct.pack("<7d", x, y, 0.0, 0.0, 0.0, yaw_sin, yaw_cos)

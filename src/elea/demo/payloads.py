"""What robots say: JSON and CDR, made by hand so that a fleet needs no library."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value]"

_CDR_LITTLE: Final = b"\x00\x01\x00\x00"


def to_json(value: Mapping[str, Value]) -> bytes:
    """A mapping as JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


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

"""Message definitions of ROS 2, as `.msg` files and as recordings carry them, to layouts.

# pkg/msg/Type of the text itself comes first; the others follow behind a line of `=`
std_msgs/Header header
float64[9] covariance
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
"""

from __future__ import annotations

import re
from typing import Final

from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.predicate.layout import ARRAY_COUNT_MAX, PRIMITIVES, Layout, ListOf, Structure

_PRIMITIVES: Final = {
    "bool": "bool",
    "byte": "u8",
    "char": "u8",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (32, 64)},
    "string": "string",
}
_KNOWN: Final = {  # definitions leave out what everybody has
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces/Duration": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
}
_FIELD: Final = re.compile(
    r"(?P<type>[A-Za-z][\w/]*)(?:<=\d+)?(?P<array>\[(?:<=\d+|\d*)\])?\s+(?P<name>[A-Za-z]\w*)"
    r"(?P<rest>\s*=.*|\s+.*)?"
)
_SEPARATOR: Final = re.compile(r"^={3,}\s*$", re.MULTILINE)


def ros_layout(text: str, name: str) -> Layout:
    """The layout of a message type by its definition.

    Args:
        text: The definition, and behind it those of the types it uses.
        name: Its name, as `sensor_msgs/msg/Imu`; of a type that is behind it, too.

    Raises:
        ConfigError: a line is none, or a type is not defined.
    """
    if len(text) > DEFAULT_LIMITS.config_len:
        raise ConfigError("definitions", f"longer than {DEFAULT_LIMITS.config_len} octets")
    first, *others = _SEPARATOR.split(text)
    definitions = dict(_KNOWN)
    for other in others:
        head, _, body = other.strip().partition("\n")
        if not head.startswith("MSG:"):
            raise ConfigError("definitions", f"saw {head[:40]!a}; behind `===` is `MSG: type`")
        definitions[_short(head.removeprefix("MSG:").strip())] = body
    # The main type keeps its own definition, even if it is also among what everybody has.
    definitions.setdefault(_short(name), first)
    if _short(name) in _KNOWN and first.strip():
        definitions[_short(name)] = first
    return _structure(_short(name), definitions, 1)


def _short(name: str) -> str:
    """`sensor_msgs/msg/Imu` and DDS's `sensor_msgs::msg::dds_::Imu_` as `sensor_msgs/Imu`."""
    if "::" in name:
        name = name.replace("::dds_::", "::").replace("::", "/").removesuffix("_")
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def _structure(name: str, definitions: dict[str, str], depth: int) -> Structure:
    if depth > DEFAULT_LIMITS.decode_depth:
        reason = f"{name} holds itself, or is deeper than {DEFAULT_LIMITS.decode_depth}"
        raise ConfigError("definitions", reason)
    members: list[tuple[str, Layout]] = []
    for number, line in enumerate(definitions[name].splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ConfigError("definitions", f"{name}, line {number}: {text[:60]!a} is no field")
        rest = match["rest"] or ""
        if rest.lstrip().startswith("="):
            continue  # a constant is not in payloads
        members.append((match["name"], _field(match, name, definitions, depth)))
    # An empty message has one octet on the wire.
    return Structure(tuple(members) or (("structure_needs_at_least_one_member", PRIMITIVES["u8"]),))


def _field(match: re.Match[str], name: str, definitions: dict[str, str], depth: int) -> Layout:
    type, array = match["type"], match["array"]
    count = re.fullmatch(r"\[(\d+)\]", array or "")
    if type in _PRIMITIVES:
        if array and not count and _PRIMITIVES[type] == "u8":
            return PRIMITIVES["bytes"]
        layout: Layout = PRIMITIVES[_PRIMITIVES[type]]
    else:
        short = _short(type) if "/" in type else f"{name.partition('/')[0]}/{type}"
        if short == f"{name.partition('/')[0]}/Header" and short not in definitions:
            short = "std_msgs/Header"
        if short not in definitions:
            known = ", ".join(sorted(definitions))
            reason = f"{name} uses {type}, which is not defined; there are {known}"
            raise ConfigError("definitions", reason)
        layout = _structure(short, definitions, depth + 1)
    if not array:
        return layout
    if count and not 0 < int(count[1]) <= ARRAY_COUNT_MAX:
        raise ConfigError("definitions", f"an array has 1 to {ARRAY_COUNT_MAX} items: {match[0]!a}")
    return ListOf(layout, int(count[1]) if count else None)

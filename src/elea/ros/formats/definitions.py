"""Texts of `.msg`, `.srv` and `.action` to definitions of types (R2-326).

    float64[9] covariance          a field; arrays are T[N], T[], T[<=N]
    string<=16 name "x"            a bound, a default
    uint8 STATUS_OK=0              a constant
    ---                            between the parts of a service or an action

What others need to use a type follows it behind a line of `=` and `MSG: package/Name`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn

from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.names import long_type

Default = bool | int | float | str | list[bool | int | float | str]

EMPTY_MEMBER: Final = "structure_needs_at_least_one_member"
SEPARATOR: Final = "=" * 80
INTEGERS: Final = {
    "byte": (0, 255),
    "char": (0, 255),
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
FLOATS: Final = ("float32", "float64")
TEXTS: Final = ("string", "wstring")
PRIMITIVES: Final = frozenset((*INTEGERS, *FLOATS, *TEXTS, "bool"))

_FIELD: Final = re.compile(
    r"(?P<base>[A-Za-z][A-Za-z0-9_/]*)(?:<=(?P<bound>\d+))?"
    r"(?P<array>\[(?P<most><=)?(?P<count>\d*)\])?\s+(?P<name>[A-Za-z][A-Za-z0-9_]*)\s*(?P<rest>.*)"
)
_PARTS: Final = re.compile(r"^={3,}[ \t]*$", re.MULTILINE)
_BREAK: Final = re.compile(r"^---[ \t]*(?:#.*)?$", re.MULTILINE)
_OLD: Final = {"time": "builtin_interfaces/Time", "duration": "builtin_interfaces/Duration"}


class Repeat(IntEnum):
    """How many of its items a field has; the values are those of type descriptions (R2-352)."""

    ONE = 0
    ARRAY = 48
    BOUNDED = 96
    UNBOUNDED = 144


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        base: A primitive of `.msg`, or the full name of another type.
        bound: Of a text; 0: none.
        count: Items of an array, or the most of a sequence.
    """

    base: str
    bound: int = 0
    repeat: Repeat = Repeat.ONE
    count: int = 0

    @property
    def is_nested(self) -> bool:
        """Whether it is another type."""
        return self.base not in PRIMITIVES

    def item(self) -> FieldType:
        """The type of one of its items."""
        return FieldType(self.base, self.bound)

    def __str__(self) -> str:
        base = self.base.replace("/msg/", "/") + (f"<={self.bound}" if self.bound else "")
        match self.repeat:
            case Repeat.ONE:
                return base
            case Repeat.ARRAY:
                return f"{base}[{self.count}]"
            case Repeat.BOUNDED:
                return f"{base}[<={self.count}]"
            case Repeat.UNBOUNDED:
                return f"{base}[]"


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a message."""

    name: str
    type: FieldType
    default: Default | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A name for a value; not in payloads."""

    name: str
    type: str
    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Definition:
    """A message type, or a part of a service or an action."""

    name: str
    fields: tuple[Field, ...]
    constants: tuple[Constant, ...] = ()

    @property
    def members(self) -> tuple[Field, ...]:
        """What is on the wire: an empty message has one byte."""
        return self.fields or (Field(EMPTY_MEMBER, FieldType("uint8")),)

    @property
    def uses(self) -> list[str]:
        """The types of its members that are no primitives."""
        return [field.type.base for field in self.fields if field.type.is_nested]

    def text(self) -> str:
        """As a `.msg` file says it, without comments."""
        lines = [f"{one.type} {one.name}={_literal(one.value)}" for one in self.constants]
        for field in self.fields:
            default = "" if field.default is None else f" {_literal(field.default)}"
            lines.append(f"{field.type} {field.name}{default}")
        return "\n".join(lines)


def parse_message(text: str, name: str) -> Definition:
    """The definition of one message type.

    Args:
        text: A `.msg` file.
        name: As `sensor_msgs/msg/Imu`.

    Raises:
        ConfigError: a line is no field, or a limit is exceeded.

    Example:
        >>> parse_message("int32 a 5", "pkg/msg/A").fields[0].default
        5
    """
    if len(text) > DEFAULT_LIMITS.ros2_definition_len:
        _refuse(name, 0, f"exceeds ros2_definition_len ({DEFAULT_LIMITS.ros2_definition_len})")
    fields: dict[str, Field] = {}
    constants: dict[str, Constant] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = _without_comment(line).strip()
        if not stripped or stripped.startswith("@"):
            continue
        found = _parsed_line(stripped, name, number)
        taken = constants if isinstance(found, Constant) else fields
        if found.name in taken:
            _refuse(name, number, f"{found.name} is there already")
        if isinstance(found, Constant):
            constants[found.name] = found
        else:
            fields[found.name] = found
        if len(fields) + len(constants) > DEFAULT_LIMITS.ros2_fields_count:
            limit = DEFAULT_LIMITS.ros2_fields_count
            _refuse(name, number, f"exceeds ros2_fields_count ({limit})")
    return Definition(name, tuple(fields.values()), tuple(constants.values()))


def parse_service(text: str, name: str) -> dict[str, Definition]:
    """The definitions that a `.srv` file makes, by name: the service and its parts (R2-353).

    Raises:
        ConfigError: as `parse_message`, or there are not two parts.
    """
    request, response = _split(text, name, 2)
    return _service(
        name,
        parse_message(request, f"{name}_Request"),
        parse_message(response, f"{name}_Response"),
    )


def parse_action(text: str, name: str) -> dict[str, Definition]:
    """The definitions that an `.action` file makes, by name (R2-302).

    Raises:
        ConfigError: as `parse_message`, or there are not three parts.
    """
    found: dict[str, Definition] = {}
    for part, body in zip(("Goal", "Result", "Feedback"), _split(text, name, 3), strict=True):
        found[f"{name}_{part}"] = parse_message(body, f"{name}_{part}")
    uuid = _field("goal_id", "unique_identifier_msgs/msg/UUID")
    sent = (
        Definition(f"{name}_SendGoal_Request", (uuid, _field("goal", f"{name}_Goal"))),
        Definition(
            f"{name}_SendGoal_Response",
            (_field("accepted", "bool"), _field("stamp", "builtin_interfaces/msg/Time")),
        ),
    )
    result = (
        Definition(f"{name}_GetResult_Request", (uuid,)),
        Definition(
            f"{name}_GetResult_Response",
            (_field("status", "int8"), _field("result", f"{name}_Result")),
        ),
    )
    found |= _service(f"{name}_SendGoal", *sent)
    found |= _service(f"{name}_GetResult", *result)
    feedback = Definition(f"{name}_FeedbackMessage", (uuid, _field("feedback", f"{name}_Feedback")))
    found[feedback.name] = feedback
    members = {
        "goal": "Goal",
        "result": "Result",
        "feedback": "Feedback",
        "send_goal_service": "SendGoal",
        "get_result_service": "GetResult",
        "feedback_message": "FeedbackMessage",
    }
    found[name] = Definition(
        name, tuple(_field(member, f"{name}_{part}") for member, part in members.items())
    )
    return found


def parse_file(text: str, name: str) -> dict[str, Definition]:
    """What a file of that type makes, by its kind: `msg`, `srv` or `action`.

    Raises:
        ConfigError: it is none.
    """
    kind = name.split("/")[1]
    if kind == "srv":
        return parse_service(text, name)
    if kind == "action":
        return parse_action(text, name)
    return {name: parse_message(text, name)}


def split_text(text: str, name: str) -> dict[str, str]:
    """A text with the types it uses behind it, as recordings have it, to texts by name.

    Raises:
        ConfigError: a part does not say what it is, or there are too many.
    """
    first, *others = _PARTS.split(text)
    if len(others) >= DEFAULT_LIMITS.ros2_definition_types_count:
        limit = DEFAULT_LIMITS.ros2_definition_types_count
        raise ConfigError("definitions", f"{name} exceeds ros2_definition_types_count ({limit})")
    found: dict[str, str] = {}
    for other in others:
        head, _, body = other.strip().partition("\n")
        if not head.startswith("MSG:"):
            raise ConfigError("definitions", f"expected `MSG: type` behind ===, got {head[:40]!a}")
        found[long_type(head.removeprefix("MSG:").strip())] = body
    found[long_type(name)] = first
    return found


def joined_text(name: str, definitions: Mapping[str, Definition]) -> str:
    """The other way: a definition, and behind it those it uses, in the order of their first use."""
    parts = [definitions[name].text()]
    for used in in_order(name, definitions):
        shown = used.replace("/msg/", "/")
        parts.append(f"{SEPARATOR}\nMSG: {shown}\n{definitions[used].text()}")
    return "\n".join(parts)


def in_order(name: str, definitions: Mapping[str, Definition]) -> Iterator[str]:
    """The types that one uses, inside of others too, each once."""
    seen = {name}
    todo = list(definitions[name].uses)
    while todo:
        used = todo.pop(0)
        if used not in seen:
            seen.add(used)
            yield used
            todo += definitions[used].uses


def _service(name: str, request: Definition, response: Definition) -> dict[str, Definition]:
    event = Definition(
        f"{name}_Event",
        (
            _field("info", "service_msgs/msg/ServiceEventInfo"),
            Field("request", FieldType(request.name, 0, Repeat.BOUNDED, 1)),
            Field("response", FieldType(response.name, 0, Repeat.BOUNDED, 1)),
        ),
    )
    whole = Definition(
        name,
        (
            _field("request_message", request.name),
            _field("response_message", response.name),
            _field("event_message", event.name),
        ),
    )
    return {one.name: one for one in (whole, request, response, event)}


def _field(name: str, base: str) -> Field:
    return Field(name, FieldType(base))


def _split(text: str, name: str, count: int) -> list[str]:
    parts = _BREAK.split(text)
    if len(parts) != count:
        _refuse(name, 0, f"expected {count} parts between lines of ---, got {len(parts)}")
    return parts


def _parsed_line(text: str, owner: str, number: int) -> Field | Constant:
    match = _FIELD.fullmatch(text)
    if match is None:
        _refuse(owner, number, f"expected a field or a constant, got {text[:60]!a}")
    rest = match["rest"]
    type = _type(match, owner, number)
    if rest.startswith("="):
        if type.repeat is not Repeat.ONE or type.is_nested:
            _refuse(owner, number, f"{match['name']}: a constant is of a primitive type")
        value = _value(rest[1:].strip(), type, owner, number)
        assert not isinstance(value, list)
        return Constant(match["name"], type.base, value)
    default = None if not rest else _value(rest, type, owner, number)
    return Field(match["name"], type, default)


def _type(match: re.Match[str], owner: str, number: int) -> FieldType:
    base = match["base"]
    if base in _OLD:
        _refuse(owner, number, f"{base} is of ROS 1; write {_OLD[base]}")
    if base not in PRIMITIVES:
        if base == "Header":
            base = "std_msgs/msg/Header"
        elif "/" in base:
            base = long_type(base)
        else:
            base = f"{owner.partition('/')[0]}/msg/{base}"
    bound = int(match["bound"] or 0)
    if match["bound"] is not None and base not in TEXTS:
        _refuse(owner, number, f"{match['name']}: only texts have a bound")
    if not match["array"]:
        return FieldType(base, bound)
    if not match["count"]:
        if match["most"]:
            _refuse(owner, number, f"{match['name']}: expected a number behind <=")
        return FieldType(base, bound, Repeat.UNBOUNDED)
    count = int(match["count"])
    if not 0 < count <= DEFAULT_LIMITS.ros2_array_count and not match["most"]:
        limit = DEFAULT_LIMITS.ros2_array_count
        _refuse(owner, number, f"{match['name']}: expected 1 to {limit} items (ros2_array_count)")
    return FieldType(base, bound, Repeat.BOUNDED if match["most"] else Repeat.ARRAY, count)


def _value(text: str, type: FieldType, owner: str, number: int) -> Default:
    """A constant or a default; arrays are written as Python's lists."""
    if type.is_nested:
        _refuse(owner, number, "only fields of primitive types have a default")
    if type.repeat is not Repeat.ONE:
        try:
            items = ast.literal_eval(
                re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text))
            )
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            items = None
        if not isinstance(items, (list, tuple)):
            _refuse(owner, number, f"expected a list such as [1, 2], got {text[:60]!a}")
        found = [_value(str(item), type.item(), owner, number) for item in items]
        return [item for item in found if not isinstance(item, list)]
    if type.base in TEXTS:
        is_quoted = len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]
        return text[1:-1].replace(f"\\{text[0]}", text[0]) if is_quoted else text
    try:
        if type.base == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if type.base in FLOATS:
            return float(text)
        value = int(text, 0)
        low, high = INTEGERS[type.base]
        if low <= value <= high:
            return value
    except (KeyError, ValueError):
        pass
    return _refuse(owner, number, f"expected a value of {type.base}, got {text[:60]!a}")


def _without_comment(line: str) -> str:
    """A `#` inside of a quoted text begins no comment."""
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote and line[at - 1] != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            return line[:at]
    return line.partition("#")[0] if quote else line  # an apostrophe alone opens nothing


def _literal(value: Default) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    if isinstance(value, str):
        escaped = value.replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def _refuse(name: str, line: int, reason: str) -> NoReturn:
    where = f"{name}, line {line}" if line else name
    raise ConfigError("definitions", f"{where}: {reason}")

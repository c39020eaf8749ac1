"""Libraries: texts of definitions by the name of their file, and the types that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from elea.decode.layout import Structure
from elea.decode.layout_reader import read_cdr
from elea.errors import ConfigError, DecodeError, InvalidValueError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.cdr import HEADER_LEN, Plan, Writer, check_end, order_of
from elea.ros.formats.definitions import (
    Definition,
    Repeat,
    in_order,
    joined_text,
    parse_file,
    split_text,
)
from elea.ros.formats.hashes import description, type_hash
from elea.ros.formats.layouts import layout_of
from elea.ros.formats.messages import Members, Message, attribute, message_class, object_of
from elea.ros.formats.names import long_type
from elea.ros.formats.shapes import Places, Spans, places_of, shape_of

# What every service and action uses, in case a library has nothing but its own files.
_COMMON: Final = {
    "builtin_interfaces/msg/Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces/msg/Duration": "int32 sec\nuint32 nanosec",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "unique_identifier_msgs/msg/UUID": "uint8[16] uuid",
    "service_msgs/msg/ServiceEventInfo": (
        "uint8 REQUEST_SENT=0\nuint8 REQUEST_RECEIVED=1\nuint8 RESPONSE_SENT=2\n"
        "uint8 RESPONSE_RECEIVED=3\nuint8 event_type\nbuiltin_interfaces/Time stamp\n"
        "char[16] client_gid\nint64 sequence_number"
    ),
}

_MISSES_MAX: Final = 32  # payloads of other shapes, after which members are not read alone
ReadObject = Callable[[bytes, int, str], tuple[Any, int]]


class MessageType:
    """A message type, with all that it uses.

    Example:
        >>> kind = Library.of_text("string data", "std_msgs/msg/String").message("std_msgs/String")
        >>> kind.encode({"data": "hi"}).hex(" ", -4)
        '00010000 03000000 686900'
        >>> kind.decode(kind.encode({"data": "hi"})).data
        'hi'
    """

    def __init__(self, name: str, definitions: Mapping[str, Definition], source: str) -> None:
        self.name = name
        self.definition = definitions[name]
        self.definitions = {one: definitions[one] for one in (name, *in_order(name, definitions))}
        self.source = source  # where the definition is from, for people
        self._classes: dict[str, type[Message]] = {}
        self._places: Places | None = None  # of the payload before
        self._places_missed = 0
        self._member_plans: dict[str, tuple[str, ReadObject]] = {}

    @cached_property
    def hash(self) -> str:
        """As keys have it."""
        return type_hash(self.name, self.definitions)

    @cached_property
    def text(self) -> str:
        """The definition, and behind it those it uses, as MCAP has it."""
        return joined_text(self.name, self.definitions)

    @cached_property
    def layout(self) -> Structure:
        """What payloads hold, for predicates and columns."""
        return layout_of(self.name, self.definitions)

    @property
    def cls(self) -> type[Message]:
        """The class of its messages."""
        return self.class_of(self.name)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names of its members in Python."""
        return tuple(attribute(field.name) for field in self.definition.fields)

    @property
    def has_bytes(self) -> bool:
        """Whether a member, at any depth, is `uint8[]` (section 7)."""
        return any(
            field.type.base == "uint8" and field.type.repeat is Repeat.UNBOUNDED
            for one in self.definitions.values()
            for field in one.fields
        )

    @cached_property
    def described(self) -> dict[str, object]:
        """What get_type_description tells of it."""
        return description(self.name, self.definitions)

    def class_of(self, name: str) -> type[Message]:
        """The class of a type that it uses."""
        found = self._classes.get(name)
        if found is None:
            kind = self if name == self.name else MessageType(name, self.definitions, self.source)
            found = self._classes[name] = message_class(kind, self.class_of)
        return found

    def decode(self, payload: bytes) -> Message:
        """The message of a payload.

        Raises:
            DecodeError: it is none of this type.
        """
        order = order_of(payload)
        if order is None:
            return self._other(payload)
        message, at = self._plan.read(payload, HEADER_LEN, order)
        check_end(payload, at)
        assert isinstance(message, Message)
        return message

    def shape(self, payload: bytes) -> Spans | None:
        """The bytes of a legal payload that make it legal; None: comparing them does not pay."""
        return shape_of(self.name, self.definitions, payload)

    def member(self, payload: bytes, attribute: str) -> Any:
        """One member of a legal payload, by its name in Python, if it can be had alone.

        Raises:
            LookupError: Decode all of it: its shape is not that of payloads before.
        """
        places = self._places
        if places is None or not places.fit(payload):
            if self._places_missed > _MISSES_MAX:
                raise LookupError(attribute)
            self._places_missed += 1
            places = self._places = places_of(self.name, self.definitions, payload)
            if places is None:
                raise LookupError(attribute)
        plan = self._member_plans.get(attribute)
        if plan is None:
            plan = self._member_plans[attribute] = self._member_plan(attribute)
        name, read = plan
        return read(payload, places.starts[name], places.order)[0]

    def _member_plan(self, python_name: str) -> tuple[str, ReadObject]:
        """How a member is read alone: as the only one of its type, which is not made."""
        places = self.attributes.index(python_name)
        field = self.definition.fields[places]
        alone = replace(self.definition, fields=(field,))
        definitions = {**self.definitions, self.name: alone}

        def build(name: str) -> Any:
            return (lambda value: value) if name == self.name else self.class_of(name)

        return field.name, Plan(self.name, definitions, build).read

    def encode(self, message: object) -> bytes:
        """The payload of a message: one of `cls`, a mapping, or a payload already.

        Raises:
            InvalidValueError: a member does not fit; the reason begins with its path.
        """
        if isinstance(message, (bytes, bytearray, memoryview)):
            return bytes(message)
        try:
            return self._writer.write(self._members, message)
        except ValueError as error:
            raise InvalidValueError(self.name, str(error)) from None

    @cached_property
    def _plan(self) -> Plan:
        return Plan(self.name, self.definitions, self.class_of)

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self.name, self.definitions)

    @cached_property
    def _members(self) -> Members:
        return Members(self.definitions, self.class_of)

    def _other(self, payload: bytes) -> Message:
        """CDR 2, which no ROS node sends by itself (R2-383)."""
        try:
            value: Any = read_cdr(self.layout, payload)
        except ValueError as error:
            raise DecodeError(str(error), HEADER_LEN) from error
        return object_of(value, self, self.class_of)

    def __repr__(self) -> str:
        return f"MessageType({self.name!r}, {self.hash[:15]}…)"


@dataclass(frozen=True)
class ServiceType:
    """A service: the types of its requests and responses."""

    name: str
    hash: str
    request: MessageType
    response: MessageType


@dataclass(frozen=True)
class ActionType:
    """An action: its services and topics."""

    name: str
    send_goal: ServiceType
    get_result: ServiceType
    feedback: MessageType


class Library:
    """Texts of one origin, in which each name has one definition.

    Args:
        files: Texts by names such as `sensor_msgs/msg/Imu` and `std_srvs/srv/Trigger`.
        source: Where they are from, for people.
    """

    def __init__(self, files: Mapping[str, str], source: str) -> None:
        self.files = files
        self.source = source
        self._parsed: dict[str, Definition] = {}
        self._types: dict[str, MessageType] = {}

    @classmethod
    def of_text(cls, text: str, name: str, source: str = "given") -> Library:
        """The library of one text, with `MSG:` parts behind it for the types it uses.

        Raises:
            ConfigError: it cannot be read.
        """
        if len(text) > DEFAULT_LIMITS.ros2_definition_len:
            limit = DEFAULT_LIMITS.ros2_definition_len
            raise ConfigError("definitions", f"{name} exceeds ros2_definition_len ({limit})")
        return cls(split_text(text, name), source)

    def names(self) -> Iterable[str]:
        """The files it has."""
        return self.files

    def __contains__(self, name: str) -> bool:
        return self._file_of(name) is not None

    def message(self, name: str) -> MessageType:
        """A message type, or a part of a service or an action.

        Raises:
            KeyError: there is none of that name.
            ConfigError: it, or a type it uses, cannot be used.
        """
        name = long_type(name)
        found = self._types.get(name)
        if found is None:
            if len(self._types) >= DEFAULT_LIMITS.ros2_types_count:
                self._types.pop(next(iter(self._types)))
            found = self._types[name] = MessageType(name, self._closure(name), self.source)
        return found

    def service(self, name: str) -> ServiceType:
        """A service, of an action too; raises as `message`."""
        name = long_type(name, "srv")
        whole = type_hash(name, self._closure(name))
        return ServiceType(
            name, whole, self.message(f"{name}_Request"), self.message(f"{name}_Response")
        )

    def action(self, name: str) -> ActionType:
        """An action; raises as `message`."""
        name = long_type(name, "action")
        return ActionType(
            name,
            self.service(f"{name}_SendGoal"),
            self.service(f"{name}_GetResult"),
            self.message(f"{name}_FeedbackMessage"),
        )

    def hash(self, name: str) -> str:
        """The hash of a message, service or action; raises as `message`."""
        return type_hash(name, self._closure(name))

    def _closure(self, name: str) -> dict[str, Definition]:
        """A type and all it uses, none of which contains itself."""
        found: dict[str, Definition] = {}
        self._collect(name, found, (), None)
        return found

    def _collect(
        self, name: str, found: dict[str, Definition], above: tuple[str, ...], user: str | None
    ) -> None:
        if name in above:
            raise ConfigError("definitions", f"{name} contains itself")
        if len(above) >= DEFAULT_LIMITS.ros2_definition_depth:
            limit = DEFAULT_LIMITS.ros2_definition_depth
            raise ConfigError("definitions", f"{above[0]} exceeds ros2_definition_depth ({limit})")
        if name in found:
            return
        try:
            definition = found[name] = self._definition(name)
        except KeyError:
            if user is None:
                raise
            reason = f"{user} uses {name}, which is not defined; give its definition too"
            raise ConfigError("definitions", reason) from None
        if len(found) > DEFAULT_LIMITS.ros2_definition_types_count:
            limit = DEFAULT_LIMITS.ros2_definition_types_count
            raise ConfigError("definitions", f"exceeds ros2_definition_types_count ({limit})")
        for used in definition.uses:
            if used not in found or used in (*above, name):
                self._collect(used, found, (*above, name), name)

    def _definition(self, name: str) -> Definition:
        found = self._parsed.get(name)
        if found is not None:
            return found
        file = self._file_of(name)
        if file is None:
            raise KeyError(name)
        text = self.files[file] if file in self.files else _COMMON[file]
        self._parsed.update(parse_file(text, file))
        return self._parsed[name]

    def _file_of(self, name: str) -> str | None:
        """The file that defines a type; parts of services and actions are in that of the whole."""
        if name in self.files or name in _COMMON:
            return name
        if name.split("/")[1:2] in (["srv"], ["action"]):
            whole = name
            while "_" in whole.rpartition("/")[2]:
                whole = whole.rpartition("_")[0]
                if whole in self.files:
                    return whole
        return None

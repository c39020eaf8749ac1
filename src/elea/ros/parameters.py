"""Parameters of a node, for who asks and sets them (R2-304, R2-305)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from elea.ros.node import Node

_SERVICES: Final = (
    "get_parameters",
    "get_parameter_types",
    "set_parameters",
    "set_parameters_atomically",
    "list_parameters",
    "describe_parameters",
)
# The member of ParameterValue for each of its types; 0 is "not set".
MEMBERS: Final = {
    1: "bool_value",
    2: "integer_value",
    3: "double_value",
    4: "string_value",
    5: "byte_array_value",
    6: "bool_array_value",
    7: "integer_array_value",
    8: "double_array_value",
    9: "string_array_value",
}
_BYTES: Final = 5
_INTEGERS: Final = range(-(1 << 63), 1 << 63)


def service_type(name: str) -> str:
    """The type of one of the six services.

    Example:
        >>> service_type("get_parameters")
        'rcl_interfaces/srv/GetParameters'
    """
    return "rcl_interfaces/srv/" + "".join(part.capitalize() for part in name.split("_"))


def value_of(message: Any) -> Any:
    """The Python value of a ParameterValue; None: it is not set."""
    member = MEMBERS.get(message.type)
    if member is None:
        return None
    value = getattr(message, member)
    if member == MEMBERS[_BYTES]:
        return bytes(value)
    return value.tolist() if hasattr(value, "tolist") else value


def as_value(value: Any) -> dict[str, Any]:
    """A Python value as a ParameterValue.

    Raises:
        ValueError: ROS has no such type.

    Example:
        >>> as_value(1.5)
        {'type': 3, 'double_value': 1.5}
    """
    number = _number(value)
    return {"type": number, MEMBERS[number]: value} if number else {"type": 0}


def _number(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bytes):
        return _BYTES
    if isinstance(value, list | tuple):
        kinds = {_scalar(one) for one in value} or {4}  # an empty list is one of texts
        if len(kinds) == 1 and (kind := kinds.pop()):
            return _BYTES + kind
    elif kind := _scalar(value):
        return kind
    raise ValueError(
        f"expected a bool, a number of 64 bits, text or a list of one of these, got {value!r}"
    )


def _scalar(value: Any) -> int:
    """The type of a value that is no list; 0: ROS has none."""
    match value:
        case bool():
            return 1
        case int() if value in _INTEGERS:
            return 2
        case float():
            return 3
        case str():
            return 4
    return 0


class Parameters:
    """Values by name, which others may ask for and set."""

    def __init__(self, node: Node, values: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._values = dict(values)
        self._types = {name: _number(value) for name, value in values.items()}
        for name in _SERVICES:
            handle = getattr(self, f"_{name}")
            node.create_service(service_type(name), f"~/{name}", handle)

    def __getitem__(self, name: str) -> Any:
        with self._lock:
            return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        number = _number(value)
        with self._lock:
            self._values[name], self._types[name] = value, number

    def names(self) -> list[str]:
        """All of them."""
        with self._lock:
            return sorted(self._values)

    def _get_parameters(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {"values": [self._value(name) for name in request.names]}

    def _value(self, name: str) -> dict[str, Any]:
        number = self._types.get(name, 0)
        return {"type": number, MEMBERS[number]: self._values[name]} if number else {"type": 0}

    def _get_parameter_types(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {"types": [self._types.get(name, 0) for name in request.names]}

    def _list_parameters(self, request: Any) -> dict[str, Any]:
        prefixes, depth = list(request.prefixes), request.depth  # depth 0: all

        def is_listed(name: str) -> bool:
            levels = [name.count(".")] if not prefixes else []
            for one in prefixes:
                if name == one:
                    return True
                if name.startswith(f"{one}."):
                    levels.append(name[len(one) + 1 :].count("."))
            return any(not depth or level < depth for level in levels)

        names = [name for name in self.names() if is_listed(name)]
        groups = sorted({name.rpartition(".")[0] for name in names if "." in name})
        return {"result": {"names": names, "prefixes": groups}}

    def _describe_parameters(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {
                "descriptors": [
                    {"name": name, "type": self._types.get(name, 0)} for name in request.names
                ]
            }

    def _set_parameters(self, request: Any) -> dict[str, Any]:
        return {"results": [self._set([one]) for one in request.parameters]}

    def _set_parameters_atomically(self, request: Any) -> dict[str, Any]:
        return {"result": self._set(request.parameters)}

    def _set(self, parameters: Any) -> dict[str, Any]:
        """All of them, or none: a parameter keeps its type."""
        with self._lock:
            given = {one.name: value_of(one.value) for one in parameters}
            for one in parameters:
                if one.name not in self._values:
                    reason = f"{one.name} is no parameter of this node"
                    return {"successful": False, "reason": reason}
                if one.value.type != self._types[one.name]:
                    return {"successful": False, "reason": f"{one.name} has another type"}
            self._values.update(given)
        return {"successful": True}

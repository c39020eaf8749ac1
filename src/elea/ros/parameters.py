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
    match value:
        case None:
            return 0
        case bool():
            return 1
        case int():
            return 2
        case float():
            return 3
        case str():
            return 4
        case bytes():
            return 5
        case [bool(), *_]:
            return 6
        case [int(), *_]:
            return 7
        case [float(), *_]:
            return 8
        case [] | [str(), *_]:
            return 9
    raise ValueError(f"expected a bool, number, text or a list of one of these, got {value!r}")


class Parameters:
    """Values by name, which others may ask for and set."""

    def __init__(self, node: Node, values: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._values = dict(values)
        for value in self._values.values():
            as_value(value)
        for name in _SERVICES:
            handle = getattr(self, f"_{name}")
            node.create_service(service_type(name), f"~/{name}", handle)

    def __getitem__(self, name: str) -> Any:
        with self._lock:
            return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        as_value(value)
        with self._lock:
            self._values[name] = value

    def names(self) -> list[str]:
        """All of them."""
        with self._lock:
            return sorted(self._values)

    def _get_parameters(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {"values": [as_value(self._values.get(name)) for name in request.names]}

    def _get_parameter_types(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {"types": [_number(self._values.get(name)) for name in request.names]}

    def _list_parameters(self, request: Any) -> dict[str, Any]:
        prefixes = list(request.prefixes)
        names = [
            name
            for name in self.names()
            if not prefixes or any(name == one or name.startswith(f"{one}.") for one in prefixes)
        ]
        groups = sorted({name.rpartition(".")[0] for name in names if "." in name})
        return {"result": {"names": names, "prefixes": groups}}

    def _describe_parameters(self, request: Any) -> dict[str, Any]:
        with self._lock:
            return {
                "descriptors": [
                    {"name": name, "type": _number(self._values.get(name))}
                    for name in request.names
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
            for name, value in given.items():
                if name not in self._values:
                    return {"successful": False, "reason": f"{name} is no parameter of this node"}
                if _number(value) != _number(self._values[name]):
                    return {"successful": False, "reason": f"{name} has another type"}
            self._values.update(given)
        return {"successful": True}

"""Names of nodes, topics and types, and how they are spelled in keys and tokens (R2-301)."""

from __future__ import annotations

import re
from typing import Final

from elea.errors import InvalidValueError

_NAME: Final = re.compile(r"(?:/[A-Za-z_][A-Za-z0-9_]*)+")
_CHUNK: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:/[A-Za-z][A-Za-z0-9_]*){1,2}")
_DDS: Final = "dds_::"
HIDDEN: Final = "/_action/"


def mangled(text: str) -> str:
    """A name as one chunk of a token: every `/` is `%`, nothing at all is `%`.

    Example:
        >>> mangled("/robot1/chatter"), mangled("/"), mangled("")
        ('%robot1%chatter', '%', '%')
    """
    return text.replace("/", "%") or "%"


def demangled(chunk: str) -> str:
    """The name of such a chunk.

    Example:
        >>> demangled("%robot1%chatter"), demangled("%")
        ('/robot1/chatter', '/')
    """
    return chunk.replace("%", "/")


def dds_type(name: str) -> str:
    """A type in DDS form; a text that has that form already, or none of both, stays.

    Example:
        >>> dds_type("std_msgs/msg/String")
        'std_msgs::msg::dds_::String_'
    """
    parts = name.split("/")
    if len(parts) < 2:
        return name
    return "::".join((*parts[:-1], f"dds_::{parts[-1]}_"))


def ros_type(name: str) -> str:
    """A type in ROS form; a text without the marks of DDS is shown as it is.

    Example:
        >>> ros_type("std_msgs::msg::dds_::String_"), ros_type("Odd::Name")
        ('std_msgs/msg/String', 'Odd::Name')
    """
    if not name.endswith("_") or _DDS not in name:
        return name
    return name[:-1].replace(_DDS, "").replace("::", "/")


def long_type(name: str, kind: str = "msg") -> str:
    """`std_msgs/String` as `std_msgs/msg/String`; other forms as `ros_type` gives them.

    Raises:
        InvalidValueError: it is no name of a type.

    Example:
        >>> long_type("std_msgs/String")
        'std_msgs/msg/String'
    """
    name = ros_type(name)
    if _TYPE.fullmatch(name) is None:
        reason = f"expected a name such as std_msgs/msg/String, got {name[:80]!a}"
        raise InvalidValueError("ROS type", reason)
    package, _, rest = name.partition("/")
    return name if "/" in rest else f"{package}/{kind}/{rest}"


def is_name(text: str) -> bool:
    """Whether a text is a fully qualified name.

    Example:
        >>> is_name("/robot1/chatter"), is_name("/a b")
        (True, False)
    """
    return _NAME.fullmatch(text) is not None


def is_type(text: str) -> bool:
    """Whether a text is the name of a type in ROS form.

    Example:
        >>> is_type("std_msgs/msg/String"), is_type("Odd::Name")
        (True, False)
    """
    return _TYPE.fullmatch(text) is not None and text.count("/") == 2


def full_name(name: str, namespace: str = "/", node: str = "") -> str:
    """The fully qualified name of a topic or service, as a node of a namespace means it.

    Raises:
        InvalidValueError: it is none.

    Example:
        >>> full_name("chatter", "/robot1"), full_name("~/reset", "/robot1", "driver")
        ('/robot1/chatter', '/robot1/driver/reset')
    """
    if name.startswith("~"):
        rest = name[1:].removeprefix("/")
        text = f"{_joined(namespace, node)}/{rest}" if rest else _joined(namespace, node)
    elif name.startswith("/"):
        text = name
    else:
        text = _joined(namespace, name)
    if _NAME.fullmatch(text) is None:
        reason = f"expected chunks of letters, digits and _, got {name[:80]!a}"
        raise InvalidValueError("ROS name", reason)
    return text


def checked_namespace(text: str) -> str:
    """A namespace, absolute; nothing is the root.

    Raises:
        InvalidValueError: it is none.
    """
    text = text if text.startswith("/") else f"/{text}"
    if text != "/" and _NAME.fullmatch(text) is None:
        raise InvalidValueError("ROS namespace", f"expected a name such as /robot1, got {text!a}")
    return text


def checked_node(text: str) -> str:
    """A name of a node.

    Raises:
        InvalidValueError: it is none.
    """
    if _CHUNK.fullmatch(text) is None:
        raise InvalidValueError("node name", f"expected letters, digits and _, got {text!a}")
    return text


def _joined(namespace: str, name: str) -> str:
    return f"/{name}" if namespace in ("", "/") else f"{namespace}/{name}"

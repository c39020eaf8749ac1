"""Types that a configuration gives for endpoints that send none: layouts and ROS definitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.config.kinds import Value, unknown_key
from elea.decode.layout import layout_text
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.definitions import split_text
from elea.ros.formats.library import Library
from elea.ros.formats.names import long_type
from elea.ros.formats.shipped import shipped

_KEYS: Final = ("layout", "keys", "ros", "definitions")
_FORM: Final = (
    'expected {layout: "{...}", keys: [...]}, or {ros: "pkg/msg/Name", definitions: FILE}'
)


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The type of endpoints that send no type information (D-268)."""

    layout: str
    keys: tuple[str, ...] = ()
    ros_hash: str = ""  # RIHS01 of the definition that the layout is from


def declared_type(given: Value, path: str) -> DeclaredType:
    """Return what an entry of `types` says.

    Raises:
        ConfigError: naming what is wrong.
    """
    if not isinstance(given, dict):
        raise ConfigError(path, _FORM)
    for name in given:
        if name not in _KEYS:
            raise unknown_key(f"{path}/{name}", [f"{path}/{one}" for one in _KEYS])
    layout, ros, file = given.get("layout"), given.get("ros"), given.get("definitions", "")
    listed = given.get("keys") or []
    keys = [listed] if isinstance(listed, str) else listed
    if not isinstance(keys, list) or not all(isinstance(one, str) for one in keys):
        raise ConfigError(f"{path}/keys", f"expected a text or several, got {listed!a}")
    found = tuple(str(one) for one in keys)
    if isinstance(layout, str) and ros is None and not file:
        return DeclaredType(layout, found)
    if not isinstance(ros, str) or layout is not None or not isinstance(file, str):
        raise ConfigError(path, _FORM)
    definition = ros_definition(ros, file, path)
    return DeclaredType(definition.layout, found, definition.hash)


@dataclass(frozen=True, slots=True)
class RosDefinition:
    """What a definition says of a type.

    Attributes:
        layout: Of its messages, as text.
        hash: RIHS01, to hold against what nodes announce.
    """

    layout: str
    hash: str


def ros_definition(name: str, file: str, path: str) -> RosDefinition:
    """Return the definition of a message type.

    Args:
        name: Such as `sensor_msgs/msg/Imu`.
        file: A `.msg` file, with `MSG:` parts behind it for types that ROS does not have; empty:
            what ROS itself defines.
        path: Of the setting, for errors.

    Raises:
        ConfigError: The file cannot be read, or does not define the type.
    """
    try:
        name = long_type(name)
        library = shipped()
        if file:
            text = Path(file).read_text(encoding="utf-8")
            if len(text) > DEFAULT_LIMITS.ros2_definition_len:
                raise ConfigError(path, f"{file} exceeds ros2_definition_len")
            library = Library({**library.files, **split_text(text, name)}, file)
        kind = library.message(name)
    except KeyError:
        raise ConfigError(path, f"no definition of {name}; give definitions: FILE") from None
    except (OSError, ValueError) as error:
        raise ConfigError(path, str(error)) from None
    return RosDefinition(layout_text(kind.layout), kind.hash)

"""Types that a configuration gives for endpoints that send none: layouts and ROS definitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elea.config.kinds import Text, Value, refuse
from elea.config.section import Section, Setting, Several
from elea.decode.layout import layout_text
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.definitions import split_text
from elea.ros.formats.library import Library
from elea.ros.formats.names import long_type
from elea.ros.formats.shipped import shipped

_FORM: Final = '{layout: "{...}", keys: [...]}, or {ros: "pkg/msg/Name", definitions: FILE}'
_SECTION: Final = Section(
    (
        Setting("layout", Text(), "of samples; none"),
        Setting("keys", Several(Text(), may_be_empty=True), "names of fields; none", default=()),
        Setting("ros", Text(), "the name of a type of ROS; none"),
        Setting("definitions", Text("a file"), "of types that ROS does not have; none", default=""),
    )
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
    found = _SECTION.read(given, path)
    layout, ros, file = found.get("layout"), found.get("ros"), found["definitions"]
    if layout is not None and ros is None and not file:
        return DeclaredType(layout, found["keys"])
    if ros is None or layout is not None:
        refuse(path, _FORM, given)
    definition = ros_definition(ros, file, path)
    return DeclaredType(definition.layout, found["keys"], definition.hash)


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

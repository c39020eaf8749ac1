"""The section `plugins/ros2` of a configuration: what `elea ros2` does without options (R2-801)."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, fields
from typing import Any, Final

from elea.choices import ROS_VIA
from elea.config.config import Config
from elea.errors import ConfigError
from elea.ros.formats.keys import checked_domain
from elea.ros.formats.names import checked_node
from elea.ros.formats.shipped import RELEASES

PATH: Final = "plugins/ros2"
VIA: Final = ROS_VIA
# Names, defaults as they are shown, and what each means.
KEYS: Final = (
    ("domain", "`ROS_DOMAIN_ID`, else 0", "the ROS domain, 0 to 232"),
    ("prefix", "none", "what stands before all keys of the fleet"),
    ("distro", "`ROS_DISTRO`, else jazzy", "whose definitions are taken for a name alone"),
    ("types", "[]", "files and directories of definitions"),
    ("ask_fleet", "true", "whether nodes are asked for definitions that are not known"),
    ("trust_names", "false", "whether a definition of another hash is used, and rows are marked"),
    ("node", "`elea_` and its id", "the name of the node that `elea ros2` is"),
    ("via", "any", "`rmw`, `bridge` or `any`"),
    ("hidden", "false", "whether `echo`, `hz` and `record` declare no subscription"),
    ("read_only", "false", "whether everything fails that publishes, calls or sets"),
)


@dataclass(frozen=True, slots=True)
class RosSettings:
    """What the section says."""

    domain: int | None = None
    prefix: str = ""
    distro: str | None = None
    types: tuple[str, ...] = ()
    ask_fleet: bool = True
    trust_names: bool = False
    node: str | None = None
    via: str = "any"
    hidden: bool = False
    read_only: bool = False

    @classmethod
    def read(cls, config: Config) -> RosSettings:
        """The section of a configuration.

        Raises:
            ConfigError: a key is unknown, naming the nearest, or a value is not legal.
        """
        told = json.loads(config.get_json("plugins")).get("ros2", {})
        if not isinstance(told, dict):
            raise ConfigError(PATH, f"expected an object, got {str(told)[:40]!a}")
        legal = {one.name for one in fields(cls)}
        for name in told:
            if name not in legal:
                near = difflib.get_close_matches(name, legal, n=1)
                hint = (
                    f"did you mean {near[0]}?" if near else f"legal are {', '.join(sorted(legal))}"
                )
                raise ConfigError(f"{PATH}/{name}", f"no such key; {hint}")
        return cls(**{name: _checked(name, value) for name, value in told.items()})


def _checked(name: str, value: Any) -> Any:
    if name in ("ask_fleet", "trust_names", "hidden", "read_only"):
        return _kind(name, value, bool, "true or false")
    if name == "domain":
        number = _kind(name, value, int, "a number from 0 to 232")
        try:
            return checked_domain(number)
        except ValueError as error:
            raise ConfigError(f"{PATH}/{name}", str(error)) from error
    if name == "types":
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ConfigError(f"{PATH}/types", f"expected a list of paths, got {value!a}")
        return tuple(value)
    text = _kind(name, value, str, "a text")
    choices = {"distro": RELEASES, "via": VIA}.get(name)
    if choices is not None and text not in choices:
        raise ConfigError(f"{PATH}/{name}", f"expected one of {', '.join(choices)}, got {text!a}")
    if name == "node":
        try:
            return checked_node(text)
        except ValueError as error:
            raise ConfigError(f"{PATH}/{name}", str(error)) from error
    return text.strip("/") if name == "prefix" else text


def _kind(name: str, value: Any, kind: type, legal: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{PATH}/{name}", f"expected {legal}, got {str(value)[:40]!a}")
    return value


def markdown() -> str:
    """The section of the page of the configuration."""
    text = (
        "\n## `plugins/ros2`\n\nWhat `elea ros2` does where its options say nothing"
        " ([ros2.md](../howto/ros2.md)).\n\n| key | default | meaning |\n| --- | --- | --- |\n"
    )
    return text + "".join(f"| `{name}` | {default} | {what} |\n" for name, default, what in KEYS)

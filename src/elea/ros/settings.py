"""The section `plugins/ros2` of a configuration: what `elea ros2` does without options (R2-801)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from elea.choices import ROS_VIA
from elea.config.config import Config
from elea.config.kinds import Bool, Choice, Integer, ListOf, Text
from elea.config.section import Converted, Section, Setting
from elea.ros.formats.keys import DOMAIN_MAX
from elea.ros.formats.names import checked_node
from elea.ros.formats.shipped import RELEASES

PATH: Final = "plugins/ros2"
SECTION: Final = Section(
    (
        Setting("domain", Integer(0, DOMAIN_MAX), "the ROS domain; `ROS_DOMAIN_ID`, else 0"),
        Setting(
            "prefix",
            Text(check=lambda text: text.strip("/")),
            "what stands before all keys of the fleet; none",
        ),
        Setting(
            "distro",
            Choice(RELEASES),
            "whose definitions are taken for a name alone; `ROS_DISTRO`, else jazzy",
        ),
        Setting(
            "types",
            Converted(ListOf(Text("a path")), tuple),
            "files and directories of definitions; none",
            legal="a list of paths",
        ),
        Setting(
            "ask_fleet", Bool(), "whether nodes are asked for definitions that are not known; true"
        ),
        Setting(
            "trust_names",
            Bool(),
            "whether a definition of another hash is used, and rows are marked; false",
        ),
        Setting(
            "node",
            Text("the name of a node", checked_node),
            "the name of the node that `elea ros2` is; `elea_` and its id",
            legal="letters, digits and _",
        ),
        Setting("via", Choice(ROS_VIA), "whose keys are used, rmw_zenoh's or a bridge's; any"),
        Setting(
            "hidden", Bool(), "whether `echo`, `hz` and `record` declare no subscription; false"
        ),
        Setting(
            "read_only", Bool(), "whether everything fails that publishes, calls or sets; false"
        ),
    )
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
        return cls(**SECTION.read(json.loads(config.get_json("plugins")).get("ros2", {}), PATH))


def markdown() -> str:
    """The section of the page of the configuration."""
    return (
        "\n## `plugins/ros2`\n\nWhat `elea ros2` does where its options say nothing"
        " ([ros2.md](../howto/ros2.md)).\n\n| key | meaning and default | legal |\n"
        "| --- | --- | --- |\n"
    ) + SECTION.rows()

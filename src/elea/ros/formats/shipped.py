"""The definitions that come with Elea: common packages of four releases (R2-322).

Made by `tools/gen_ros_types.py`; origin and licence are in `data/NOTICE`.
"""

from __future__ import annotations

import json
import lzma
from collections import ChainMap
from functools import cache
from importlib import resources
from typing import Final

from elea.choices import ROS_RELEASES
from elea.errors import ConfigError
from elea.ros.formats.library import Library

RELEASES: Final = ROS_RELEASES
DEFAULT_RELEASE: Final = "jazzy"


@cache
def shipped(release: str = DEFAULT_RELEASE) -> Library:
    """The library of a release.

    Raises:
        ConfigError: there is no such release.

    Example:
        >>> shipped("jazzy").hash("std_msgs/msg/String")[:23]
        'RIHS01_df668c740482bbd4'
    """
    if release not in RELEASES:
        legal = ", ".join(RELEASES)
        raise ConfigError("ros2/distro", f"expected one of {legal}, got {release!a}")
    told = _told()
    return Library(ChainMap(told[release], told["shared"]), f"shipped ({release})")


@cache
def _told() -> dict[str, dict[str, str]]:
    data = resources.files("elea.ros.formats").joinpath("data/interfaces.json.xz").read_bytes()
    told: dict[str, dict[str, str]] = json.loads(lzma.decompress(data))
    return told

"""The section `plugins/ros2`: what is legal, and that what is not is refused in the one form."""

from __future__ import annotations

import json

import pytest

from elea.config.config import Config
from elea.errors import ConfigError
from elea.json5 import Json
from elea.ros.settings import SECTION, RosSettings, markdown

line = pytest.mark.line


def _read(section: Json) -> RosSettings:
    config = Config()
    config.insert_json5("plugins", json.dumps({"ros2": section}))
    return RosSettings.read(config)


@line("R2-801")
def test_every_key_has_its_default_and_its_value() -> None:
    assert RosSettings.read(Config()) == _read({}) == RosSettings()
    said: Json = {
        "domain": 7,
        "prefix": "/fleet/a/",
        "distro": "jazzy",
        "types": ["a.msg", "b"],
        "ask_fleet": False,
        "trust_names": True,
        "node": "watcher",
        "via": "rmw",
        "hidden": True,
        "read_only": True,
    }
    found = RosSettings(
        7, "fleet/a", "jazzy", ("a.msg", "b"), False, True, "watcher", "rmw", True, True
    )
    assert _read(said) == found
    assert isinstance(said, dict)
    assert list(said) == [key.name for key in SECTION.keys]
    assert all(f"| `{name}` |" in markdown() for name in said)


@line("R2-801")
@pytest.mark.parametrize(
    ("section", "error"),
    [
        ([], "plugins/ros2: expected an object, got a list of 0"),
        (None, "plugins/ros2: expected an object, got null"),
        (
            {"domian": 1},
            "plugins/ros2/domian: unknown key; the nearest known one is plugins/ros2/domain",
        ),
        (
            {"domain": True},
            "plugins/ros2/domain: expected a whole number from 0 to 232, got true",
        ),
        (
            {"domain": 233},
            "plugins/ros2/domain: expected a whole number from 0 to 232, got the number 233",
        ),
        ({"prefix": 1}, "plugins/ros2/prefix: expected a text, got the number 1"),
        ({"types": "x"}, "plugins/ros2/types: expected a list of: a path, got the text 'x'"),
        ({"types": [1]}, "plugins/ros2/types/0: expected a path, got the number 1"),
        ({"hidden": 1}, "plugins/ros2/hidden: expected true or false, got the number 1"),
        (
            {"via": "dds"},
            'plugins/ros2/via: expected one of "any", "rmw", "bridge", got the text \'dds\'',
        ),
        (
            {"node": "a b"},
            "plugins/ros2/node: expected the name of a node, got the text 'a b': expected letters,"
            " digits and _, got 'a b'",
        ),
    ],
)
def test_what_is_not_legal_is_refused_in_the_one_form(section: Json, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _read(section)
    assert str(raised.value) == error

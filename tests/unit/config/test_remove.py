"""Keys set back to what they are by default."""

from __future__ import annotations

import pytest

from elea.config.config import Config
from elea.errors import ConfigError


def config() -> Config:
    return Config.from_mapping(
        {
            "scouting": {"timeout": 7, "multicast": {"enabled": False, "ttl": 2}},
            "plugins": {"a": {"b": {"c": 1}}, "d": 2},
            "metadata": 5,
        }
    )


def test_the_keys_that_are_set() -> None:
    assert config().paths() == (
        "metadata",
        "plugins",
        "scouting/multicast/enabled",
        "scouting/multicast/ttl",
        "scouting/timeout",
    )


def test_one_key_and_all_keys_below_one() -> None:
    one = config()
    one.remove("/scouting/timeout")
    assert one.value("scouting/timeout", int) == 3_000
    one.remove("scouting/multicast")
    assert one.paths() == ("metadata", "plugins")
    one.remove("metadata")  # which is set
    one.remove("metadata")  # and is not
    one.remove("")
    assert one == Config()


def test_a_part_of_a_value() -> None:
    one = config()
    one.remove("plugins/a/b")
    assert one.get_json("plugins") == '{"a":{},"d":2}'


@pytest.mark.parametrize("path", ["plugins/a/x", "plugins/d/x", "plugins/x", "no/such/key"])
def test_what_is_not_there(path: str) -> None:
    one = config()
    with pytest.raises(ConfigError):
        one.remove(path)
    assert one == config()

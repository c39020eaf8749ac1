"""Configurations of Eclipse Zenoh load: its defaults, spelled out in full, start every role."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zenoh

import elea
from elea.config.config import Config
from elea.config.schema import KEYS
from elea.node.settings import limits_of


def spelled_out() -> dict[str, Any]:
    """Every key of Eclipse's default configuration, with its value."""
    config = zenoh.Config()
    names = {key.path.partition("/")[0] for key in KEYS} - {"elea"}
    return {name: json.loads(config.get_json(name)) for name in names}


@pytest.mark.parametrize("mode", ["router", "peer", "client"])
def test_eclipse_defaults_spelled_out_are_not_refused(mode: str) -> None:
    with elea.open({"listen": {"endpoints": ["tcp/127.0.0.1:0"]}}) as there:
        driver = there._context.driver
        with driver.lock:
            [where] = driver.locators()[:1] or [""]
        config = elea.Config.from_json5(json.dumps(spelled_out()))
        for key, value in {
            "mode": mode,
            "listen/endpoints": [],
            "connect/endpoints": [where],
            "scouting/multicast/enabled": False,
        }.items():
            config.insert_json5(key, json.dumps(value))
        with elea.open(config) as session:
            assert session.info.zid()


def test_eclipse_defaults_spelled_out_have_the_effect_they_have_there() -> None:
    """What Elea does otherwise while a key is not set, it does as Eclipse once it is."""
    config = Config.from_json5(json.dumps(spelled_out()))
    assert limits_of(config).message_len == 1_073_741_824
    for key in KEYS:
        if key.here is not None and not isinstance(key.default, dict):
            assert config.get(key.path) == key.default != Config().get(key.path)

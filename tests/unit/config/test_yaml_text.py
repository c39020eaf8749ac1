from __future__ import annotations

import math
from dataclasses import replace

import pytest

from elea.config import Config
from elea.config.yaml_text import loads
from elea.errors import ConfigError, LimitError
from elea.ids import WhatAmI
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1\nb: [x, 'y', \"z\"]", {"a": 1, "b": ["x", "y", "z"]}),
        ("[~, null, '', 'null']", [None, None, "", "null"]),
        ("[true, False, yes, no, on]", [True, False, "yes", "no", "on"]),
        ("[0x1F, 0o17, -5, +5, 1_000]", [31, 15, -5, 5, "1_000"]),
        ("[1.5, .5, 1e3, '1', .inf, -.inf]", [1.5, 0.5, 1000.0, "1", math.inf, -math.inf]),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("a: &x 5\nb: *x", {"a": 5, "b": 5}),
        ("5: five", {"5": "five"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("9" * 100, "9" * 100),
        ("2024-07-01", "2024-07-01"),
        (r'"\ud83d\ude00"', "😀"),
    ],
)
def test_values(text: str, value: Json) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "line 1"),
        ("a: 1\n b: 2", "line 2"),
        ("a: 1\na: 2", "line 2, column 1: the name 'a' occurs twice"),
        ("a: !!python/object/apply:os.system ['true']", "tags are not legal"),
        ("!!str 5", "tags are not legal"),
        ("! 12", "tags are not legal"),
        ("--- 1\n--- 2", "one document"),
        ("? [a]\n: 1", "a name must be a text"),
        ("a: *x", "unknown or unfinished anchor"),
        ("a: &x [*x]", "unknown or unfinished anchor"),
        ("\x00", "no YAML"),
        ('"\\UFFFFFFFF"', "no YAML"),
        ("a:\tb: c", "line 1"),
        (r'"\ud83d"', "no YAML"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert reason in str(caught.value)


def test_an_alias_costs_what_it_stands_for() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 20)
    )
    with pytest.raises(LimitError, match="config_nodes_count"):
        loads(bomb)


@pytest.mark.parametrize("text", ["[" * 50_000, "{a: " * 50_000, "- " * 5_000 + "x"])
def test_deep_nesting_is_a_limit_not_a_recursion_error(text: str) -> None:
    with pytest.raises(LimitError, match="config_depth"):
        loads(text)


def test_length_is_bounded_before_it_is_read() -> None:
    with pytest.raises(LimitError, match="config_len"):
        loads("a" * 11, replace(DEFAULT_LIMITS, config_len=10))


def test_a_configuration_in_yaml() -> None:
    config = Config.from_yaml("mode: client\nconnect:\n  endpoints: [tcp/host:7447]\n")
    assert config.mode is WhatAmI.CLIENT
    assert config == Config.from_json5("{mode: 'client', connect: {endpoints: ['tcp/host:7447']}}")

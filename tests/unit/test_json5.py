from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from elea.errors import ConfigError, LimitError
from elea.json5 import Json, loads
from elea.limits import DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (" true\n", True),
        ("false", False),
        ("0", 0),
        ("-12", -12),
        ("+5", 5),
        ("0x1F", 31),
        ("-0XAb", -171),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("[]", []),
        ("[1,2,]", [1, 2]),
        ("[[],[[]]]", [[], [[]]]),
        ("{}", {}),
        ("{a:1,'b':2,\"c\":3,}", {"a": 1, "b": 2, "c": 3}),
        ("{$_é1:1,\\u0061b:2,true:3,Infinity:4}", {"$_é1": 1, "ab": 2, "true": 3, "Infinity": 4}),
        ("// one\n/* two\n * ** */1// three", 1),
        ("\ufeff\u00a0\u2028\t1\u3000", 1),
        (r"'\b\f\n\r\t\v\0\x41\u00e9\'\"\\\/\q'", "\b\f\n\r\t\v\0A\u00e9'\"\\/q"),
        ("'one\\\ntwo\\\r\nthree\\\u2028four'", "onetwothreefour"),
        ("'\u2028\t'", "\u2028\t"),
        (r"'\ud83d\ude00 😀'", "😀 😀"),
        ('"it\'s"', "it's"),
        ("'say \"hi\"'", 'say "hi"'),
    ],
)
def test_values(text: str, value: Json) -> None:
    assert loads(text) == value
    assert type(loads(text)) is type(value)


def test_not_a_number() -> None:
    value = loads("[NaN, -NaN]")
    assert isinstance(value, list)
    assert all(isinstance(item, float) and math.isnan(item) for item in value)


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "a value"),
        ("{", 1, 2, "a name"),
        ("{a}", 1, 3, "':'"),
        ("{a:}", 1, 4, "a value"),
        ("{a:1 b:2}", 1, 6, "',' or '}'"),
        ("{a:1,,}", 1, 6, "a name"),
        ("{1a:1}", 1, 2, "a name"),
        ("{\\u002d:1}", 1, 2, "a name"),
        ("{a:1,\n 'a':2}", 2, 2, "already there"),
        ("[1\n,,]", 2, 2, "a value"),
        ("[1 2]", 1, 4, "',' or ']'"),
        ("[", 1, 2, "a value"),
        ("1 2", 1, 3, "the end of the text"),
        ("01", 1, 2, "the end of the number"),
        ("1x", 1, 2, "the end of the number"),
        ("0x", 1, 2, "the end of the number"),
        ("+", 1, 1, "a value"),
        ("- 1", 1, 1, "a value"),
        ("nul", 1, 1, "a value"),
        ("True", 1, 1, "a value"),
        ("undefined", 1, 1, "a value"),
        ("٣", 1, 1, "a value"),
        ("'", 1, 2, "' at the end"),
        ("'a\nb'", 1, 3, "' at the end"),
        ("'\\", 1, 3, "an escape"),
        ("'\\1'", 1, 3, "an escape"),
        ("'\\01'", 1, 3, "an escape"),
        ("'\\x4'", 1, 4, "2 hexadecimal digits"),
        ("'\\u00_0'", 1, 4, "4 hexadecimal digits"),
        ("'\\ud800'", 1, 1, "no lone surrogate"),
        ("/* never", 1, 1, "'*/'"),
        ("/", 1, 1, "a value"),
        ("1" * 65, 1, 1, "at most 64 digits"),
        ("{a:'it''}", 1, 8, "',' or '}'"),
    ],
)
def test_refusals_say_where_and_why(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert f"line {line}, column {column}: saw " in str(caught.value)
    assert expected in str(caught.value)


def test_refusals_show_one_character_only() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("{password: hunter2}")
    assert "hunter2" not in str(caught.value)
    assert "saw 'h'" in str(caught.value)


def test_limits() -> None:
    limits = replace(DEFAULT_LIMITS, config_len=20, config_depth=3, config_nodes_count=5)
    assert loads("[[[1]]]", limits) == [[[1]]]
    for text, limit in (("[[[[1]]]]", "depth"), ("[1,1,1,1,1]", "nodes_count"), (" " * 21, "len")):
        with pytest.raises(LimitError) as caught:
            loads(text, limits)
        assert caught.value.limit == f"config_{limit}"


@pytest.mark.parametrize("opening", ["[", "{a:", "[{a:"])
def test_deep_nesting_is_a_limit_not_a_recursion_error(opening: str) -> None:
    with pytest.raises(LimitError, match="config_depth"):
        loads(opening * 100_000)


def test_it_reads_what_json_writes() -> None:
    value: Json = {
        "a": [
            1,
            -2.5,
            None,
            True,
            "é\n\u2028😀",
        ],
        "b c": {},
    }
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, ensure_ascii=False, indent=2)) == value

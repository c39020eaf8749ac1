"""Sections of services: one reader, one form of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elea.config.kinds import Bool, Integer, Text
from elea.config.section import (
    FOREIGN,
    Bounded,
    ByName,
    Converted,
    FilePath,
    Own,
    Section,
    Setting,
    Several,
)
from elea.config.shapes import KEY_EXPR, key_expr
from elea.errors import ConfigError
from elea.secret import Secret

PATH = "plugins/lamp"
LAMP = Section(
    (
        Setting("keys", Several(KEY_EXPR), "what it shines on; needed", needed=True),
        Setting(
            "watts", Converted(Integer(1, 100), (1_000).__mul__), "of power; 40", 40_000, field="mw"
        ),
        Setting("token_file", FilePath(), "who may switch it"),
        Setting(
            "names", ByName(Text(), "texts by key expression", key_expr), "of places", default={}
        ),
        Setting("timer", Section((Setting("seconds", Integer(1), "until it is dark; 9", 9),)), ""),
        Setting("odd", Own("what is odd", lambda value, path: (value, path)), "what it is"),
        Setting("dim", Bool(), "whether it is dim; false", legal="`true`"),
    ),
    FOREIGN,
)


def test_what_is_given_is_read_and_the_rest_has_its_default() -> None:
    assert LAMP.read({"keys": "a/*"}, PATH) == {"keys": ("a/*",), "mw": 40_000, "names": {}}
    section: dict[str, Any] = {
        "keys": ["a", "b/**"],
        "watts": 2,
        "token_file": Secret("/t"),
        "names": {"a/*": "here"},
        "timer": {},
        "odd": 1,
        "dim": None,
        "__required__": True,
    }
    assert LAMP.read(section, PATH) == {
        "keys": ("a", "b/**"),
        "mw": 2_000,
        "token_file": "/t",
        "names": {"a/*": "here"},
        "timer": {"seconds": 9},
        "odd": (1, "plugins/lamp/odd"),
    }


@pytest.mark.parametrize(
    ("section", "path", "reason"),
    [
        ([], "", "expected an object, got a list of 0"),
        ({}, "/keys", "expected a key expression, or several, got nothing"),
        ({"keys": None}, "/keys", "expected a key expression, or several, got nothing"),
        ({"keys": []}, "/keys", "expected a key expression, or several, got a list of 0"),
        ({"keys": ["a", 1]}, "/keys", "expected a key expression, or several, got a list of 2"),
        ({"keys": "a//b"}, "/keys", "expected a key expression, got the text 'a//b': "),
        ({"keys": ["a", "a//b"]}, "/keys/1", "expected a key expression, got the text 'a//b': "),
        ({"watts": 101}, "/watts", "expected a whole number from 1 to 100, got the number 101"),
        ({"wats": 1}, "/wats", "unknown key; the nearest known one is plugins/lamp/watts"),
        ({"token_file": ""}, "/token_file", "expected a path, got the text ''"),
        ({"token_file": "a\0b"}, "/token_file", "expected a path, got the text 'a\\x00b'"),
        ({"names": {"a//b": "x"}}, "/names", "got the name 'a//b': "),
        ({"names": {"a": 1}}, "/names/a", "expected a text, got the number 1"),
        ({"timer": {"second": 1}}, "/timer/second", "nearest known one is plugins/lamp/timer/sec"),
        ({"dim": "yes"}, "/dim", "expected true or false, got the text 'yes'"),
    ],
)
def test_what_is_refused_is_said_in_one_form(section: Any, path: str, reason: str) -> None:
    needed = {"keys": "a"} if isinstance(section, dict) and path not in ("/keys",) else {}
    with pytest.raises(ConfigError) as caught:
        LAMP.read({**needed, **section} if isinstance(section, dict) else section, PATH)
    assert caught.value.path == PATH + path
    assert reason in caught.value.reason


def test_the_table_is_the_reference() -> None:
    assert LAMP.rows("a/").splitlines()[0] == (
        "| `a/keys` | what it shines on; needed | a key expression, or several |"
    )
    assert "| `a/timer/seconds` | until it is dark; 9 | a whole number, 1 or more |" in (
        LAMP.rows("a/")
    )
    assert "| `dim` | whether it is dim; false | `true` |" in LAMP.rows()


def test_every_service_reads_its_section_by_a_table() -> None:
    """Nine modules had readers of texts, numbers and flags of their own."""
    source = Path(__file__).parents[3] / "src" / "elea"
    readers = (
        "def _flag(section",
        "def _text(section",
        "def _texts(section",
        "def _number(section",
    )
    own = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if any(one in path.read_text(encoding="utf-8") for one in readers)
    ]
    assert own == []


def test_a_section_without_keys_has_none() -> None:
    with pytest.raises(ConfigError, match=r"plugins/lamp/a: unknown key; there are none here"):
        Section(()).read({"a": 1}, PATH)


@pytest.mark.parametrize("value", [-1, 100.5, float("nan"), True, "5"])
def test_a_range_is_kept(value: Any) -> None:
    assert Bounded(0, 100).read(99.5, "a") == 99.5
    with pytest.raises(ConfigError, match="a: expected a number from 0 to 100, got"):
        Bounded(0, 100).read(value, "a")

"""KeyFormat: keys from fields, fields from keys."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies_keyexpr import key_texts, plain_chunks

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.template import KeyFormat


def test_build_parse_and_key_expr() -> None:
    fmt = KeyFormat("fleet/{robot}/{sensor}")
    assert fmt.fields == ("robot", "sensor")
    assert fmt.build(robot="r1", sensor="imu") == KeyExpr("fleet/r1/imu")
    assert fmt.parse("fleet/r1/imu") == {"robot": "r1", "sensor": "imu"}
    assert fmt.parse(KeyExpr("fleet/é/ ")) == {"robot": "é", "sensor": " "}
    assert fmt.key_expr == "fleet/*/*"


@pytest.mark.parametrize(
    ("text", "key_expr", "key", "values"),
    [
        ("a", "a", "a", {}),
        ("{x}", "*", "1", {"x": "1"}),
        ("${x:*}/b", "*/b", "1/b", {"x": "1"}),
        ("a/{path:**}", "a/**", "a", {"path": ""}),
        ("a/{path:**}", "a/**", "a/b/c", {"path": "b/c"}),
        ("a/{path:**}/z", "a/**/z", "a/z/z", {"path": "z"}),
        ("a/{path:**}/{name}", "a/*/**", "a/b/c", {"path": "b", "name": "c"}),
        ("a/{path:*/**}", "a/*/**", "a/b", {"path": "b"}),
        ("{id:r$*}/x", "r$*/x", "r17/x", {"id": "r17"}),
        ("{pair:a/*}/x", "a/*/x", "a/b/x", {"pair": "a/b"}),
        ("{kind:@adv}/x", "@adv/x", "@adv/x", {"kind": "@adv"}),
        ("{a:**}/x/{b:**}", "**/x/**", "1/x/2/x/3", {"a": "1", "b": "2/x/3"}),
        ("{{a}}/{b}", "{a}/*", "{a}/1", {"b": "1"}),
    ],
)
def test_formats(text: str, key_expr: str, key: str, values: dict[str, str]) -> None:
    fmt = KeyFormat(text)
    assert fmt.key_expr == key_expr
    assert fmt.parse(key) == values
    assert fmt.build(**values) == key
    assert fmt.key_expr.includes(key)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", 0, "empty"),
        ("a//b", 2, "empty"),
        ("a/", 2, "empty"),
        ("a/{b", 2, "no `}`"),
        ("a/${b", 3, "no `}`"),
        ("{}", 1, "named like a Python variable"),
        ("{1}", 1, "named like a Python variable"),
        ("{a}b", 3, "whole chunks"),
        ("b{a}", 1, "whole chunks"),
        ("a/}", 2, "whole chunks"),
        ("{a}/{a}", 4, "is there already"),
        ("{a:**}/{b:*/**}", 7, "of any length in a row"),
        ("a/*", 2, "no bare wildcard"),
        ("a/b$*", 4, "no bare wildcard"),
        ("x/{a:**/*}", 5, "is written `*/**`"),
        ("x/{a:}", 5, "empty"),
        ("x/y#", 3, "`#` is forbidden"),
    ],
)
def test_a_malformed_format_says_where_and_why(text: str, offset: int, words: str) -> None:
    with pytest.raises(KeyExprError) as caught:
        KeyFormat(text)
    assert caught.value.text == text
    assert caught.value.offset == offset
    assert words in caught.value.reason


@pytest.mark.parametrize("value", ["", "a/b", "*", "a$*", "@a", "a#", "a?", "/", "a\ud800", "**"])
def test_no_value_breaks_out_of_its_field(value: str) -> None:
    fmt = KeyFormat("fleet/{robot}/imu")
    with pytest.raises(KeyExprError):
        fmt.build(robot=value)
    with pytest.raises(KeyExprError):
        fmt.select(robot=value)


def test_a_value_has_to_fit_the_pattern() -> None:
    fmt = KeyFormat("{id:r$*}/{path:**}")
    with pytest.raises(KeyExprError, match="field 'id' takes what 'r\\$\\*' includes"):
        fmt.build(id="x1", path="")
    with pytest.raises(KeyExprError, match="field 'path'"):
        fmt.build(id="r1", path="a/@b")
    with pytest.raises(LimitError):
        fmt.build(id="r1", path="a" * 2_000)


def test_missing_and_unknown_fields_are_wrong_calls() -> None:
    fmt = KeyFormat("{a}/{b}")
    with pytest.raises(TypeError, match="no value for b"):
        fmt.build(a="1")
    with pytest.raises(TypeError, match="no field 'c'; its fields are: a, b"):
        fmt.build(a="1", b="2", c="3")


def test_values_that_would_be_read_back_differently_are_refused() -> None:
    fmt = KeyFormat("{a:**}/x/{b:**}")
    assert fmt.build(a="1", b="2/x/3") == "1/x/2/x/3"
    with pytest.raises(KeyExprError, match="read back"):
        fmt.build(a="1/x/2", b="3")


@pytest.mark.parametrize("key", ["fleet/r1", "fleet/r1/imu/x", "plant/r1/imu", "fleet/@r1/imu"])
def test_a_key_of_another_format_is_refused(key: str) -> None:
    with pytest.raises(KeyExprError, match=r"no key of the format 'fleet/\{robot\}"):
        KeyFormat("fleet/{robot}/{sensor}").parse(key)


def test_fields_are_read_out_of_one_key_only() -> None:
    with pytest.raises(KeyExprError, match="stands for many keys") as caught:
        KeyFormat("fleet/{robot}").parse("fleet/*")
    assert caught.value.offset == 6
    with pytest.raises(KeyExprError):
        KeyFormat("fleet/{robot}").parse("fleet//r1")


def test_select_leaves_the_other_fields_open() -> None:
    fmt = KeyFormat("fleet/{robot}/{path:**}")
    assert fmt.select() == fmt.key_expr == "fleet/*/**"
    assert fmt.select(robot="r1") == "fleet/r1/**"
    assert fmt.select(path="imu") == "fleet/*/imu"


def test_it_is_a_value() -> None:
    fmt = KeyFormat("fleet/{robot}")
    assert fmt == KeyFormat("fleet/{robot}")
    assert fmt != KeyFormat("fleet/{name}")
    assert fmt != "fleet/{robot}"
    assert hash(fmt) == hash(KeyFormat("fleet/{robot}"))
    assert str(fmt) == "fleet/{robot}"
    assert repr(fmt) == "KeyFormat('fleet/{robot}')"
    assert pickle.loads(pickle.dumps(fmt)).build(robot="r1") == "fleet/r1"


@given(plain_chunks, st.one_of(st.just(""), key_texts), plain_chunks)
def test_what_is_built_is_read_back(robot: str, path: str, name: str) -> None:
    fmt = KeyFormat("fleet/{robot}/{path:**}/{name}")
    values = {"robot": robot, "path": path, "name": name}
    if "@" in path and any(chunk.startswith("@") for chunk in path.split("/")):
        with pytest.raises(KeyExprError):
            fmt.build(**values)
    else:
        key = fmt.build(**values)
        assert fmt.parse(key) == values
        assert fmt.key_expr.includes(key)

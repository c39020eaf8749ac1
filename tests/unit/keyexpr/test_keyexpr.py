"""KeyExpr as a value, with the names and results of zenoh-python."""

from __future__ import annotations

import copy
import pickle

import pytest

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr, SetIntersectionLevel
from elea.limits import Limits


def test_it_is_a_value_equal_to_its_text() -> None:
    key = KeyExpr("a/**")
    assert str(key) == "a/**"
    assert repr(key) == "ke`a/**`"
    assert key == KeyExpr("a/**")
    assert key == "a/**"
    assert key != "a/*"
    assert key != 3
    assert hash(key) == hash("a/**")
    assert {key: 1}["a/**"] == 1  # type: ignore[index]  # equal and of equal hash


@pytest.mark.parametrize("name", ["_text", "other"])
def test_it_never_changes(name: str) -> None:
    key = KeyExpr("a")
    with pytest.raises(AttributeError, match="never changes"):
        setattr(key, name, "b")
    with pytest.raises(AttributeError, match="never changes"):
        delattr(key, name)
    assert key == "a"


def test_it_survives_pickling_and_copying() -> None:
    wide = KeyExpr("a" * 2_000, limits=Limits(keyexpr_len=2_000))
    for key in (KeyExpr("é/**"), wide):
        again = pickle.loads(pickle.dumps(key))
        assert again == key
        assert type(again) is KeyExpr
        assert copy.deepcopy(key) == key


def test_construction_takes_only_canonical_text() -> None:
    with pytest.raises(KeyExprError):
        KeyExpr("a/**/*")
    assert KeyExpr.autocanonize("a/**/*") == "a/*/**"
    with pytest.raises(LimitError):
        KeyExpr("a" * 2_000)
    with pytest.raises(LimitError):
        KeyExpr.autocanonize("a" * 2_000)
    assert KeyExpr(KeyExpr("a")) == "a"


@pytest.mark.parametrize("value", [3, b"a", None])
def test_another_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="given as str or KeyExpr"):
        KeyExpr(value)  # type: ignore[arg-type]  # what untyped programs do
    with pytest.raises(TypeError):
        KeyExpr("a").intersects(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        KeyExpr("a") / value  # type: ignore[operator]


def test_relations_take_text_or_value() -> None:
    key = KeyExpr("a/**")
    for other in ("a/b", KeyExpr("a/b")):
        assert key.intersects(other)
        assert key.includes(other)
        assert key.relation_to(other) is SetIntersectionLevel.INCLUDES
    assert not key.intersects("b")
    assert not KeyExpr("a/b").includes(key)
    with pytest.raises(KeyExprError):
        key.intersects("a//b")


def test_levels_are_numbered_and_print_as_in_zenoh_python() -> None:
    levels = list(SetIntersectionLevel)
    assert [int(level) for level in levels] == [0, 1, 2, 3]
    assert str(SetIntersectionLevel.EQUALS) == "SetIntersectionLevel.EQUALS"
    assert repr(SetIntersectionLevel.DISJOINT) == "SetIntersectionLevel.DISJOINT"


@pytest.mark.parametrize(
    ("a", "b", "joined", "concatenated"),
    [
        ("a", "b", "a/b", "ab"),
        ("a/**", "*", "a/*/**", None),
        ("a", "$*", "a/*", "a$*"),
        ("a/*", "/b", None, "a/*/b"),
        ("a/*", "*", "a/*/*", None),  # not `a/**`, another set than either side meant
        ("a$*", "$*", "a$*/*", None),
        ("a", "", None, "a"),
        ("a", "b/", None, None),
    ],
)
def test_join_and_concat(a: str, b: str, joined: str | None, concatenated: str | None) -> None:
    for combine, expected in ((KeyExpr(a).join, joined), (KeyExpr(a).concat, concatenated)):
        if expected is None:
            with pytest.raises(KeyExprError):
                combine(b)
        else:
            assert combine(b) == expected
    if joined is not None:
        assert KeyExpr(a) / b == joined


def test_join_takes_a_value_too() -> None:
    assert KeyExpr("a").join(KeyExpr("b")) == "a/b"
    assert KeyExpr("a").concat(KeyExpr("b")) == "ab"
    assert KeyExpr("a") / KeyExpr("b") == "a/b"


def test_a_join_over_the_limits_is_refused() -> None:
    with pytest.raises(LimitError):
        KeyExpr("a" * 600) / ("b" * 600)


def test_parts() -> None:
    assert KeyExpr("a/*/@b").chunks == ("a", "*", "@b")
    assert KeyExpr("a/*").is_wild
    assert KeyExpr("a$*").is_wild
    assert not KeyExpr("a/@b").is_wild
    key = KeyExpr("a")
    assert KeyExpr.of(key) is key
    assert KeyExpr.of("a") == key

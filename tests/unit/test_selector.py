from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from elea.errors import KeyExprError, SelectorError
from elea.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.parameters import Parameters
from elea.selector import Selector


@pytest.mark.parametrize(
    ("text", "key", "parameters", "shown"),
    [
        ("a/b?x=1", "a/b", "x=1", "a/b?x=1"),
        ("a/b", "a/b", "", "a/b"),
        ("a/b?", "a/b", "", "a/b"),
        ("a/b?x?y=1", "a/b", "x?y=1", "a/b?x?y=1"),
        ("a/b?x=1;;y;", "a/b", "x=1;;y", "a/b?x=1;;y"),
    ],
)
def test_first_question_mark_separates(text: str, key: str, parameters: str, shown: str) -> None:
    selector = Selector(text)
    assert str(selector.key_expr) == key
    assert str(selector.parameters) == parameters
    assert str(selector) == shown
    assert selector == Selector(shown) == pickle.loads(pickle.dumps(selector))
    assert len({selector, Selector(KeyExpr(key), parameters)}) == 1


@pytest.mark.parametrize("parameters", ["y=2", {"y": "2"}, Parameters("y=2")])
def test_key_and_parameters_apart(parameters: Parameters | dict[str, str] | str) -> None:
    assert str(Selector("a/*", parameters)) == "a/*?y=2"
    assert repr(Selector(KeyExpr("a/*"), parameters)) == "Selector('a/*?y=2')"


def test_a_whole_text_with_parameters_beside_it_is_no_key() -> None:
    with pytest.raises(KeyExprError):
        Selector("a/b?x=1", {"y": "2"})
    for text in ("", "?x", "a//b?x"):
        with pytest.raises(KeyExprError):
            Selector(text)


def test_parameters_are_a_copy() -> None:
    selector = Selector("a/b?x")
    selector.parameters.insert("y", "2")
    assert str(selector) == "a/b?x"


def test_both_parts_can_be_set() -> None:
    selector = Selector("a/b?x")
    selector.parameters = Parameters("y=2")
    selector.key_expr = KeyExpr("c/*")
    assert str(selector) == "c/*?y=2"
    selector.parameters, selector.key_expr = {"z": "3"}, "d"
    assert selector == Selector("d?z=3")
    assert selector != "d?z=3"
    with pytest.raises(KeyExprError):
        selector.key_expr = "d//"
    assert str(selector) == "d?z=3"


def test_length_is_bounded() -> None:
    limits = replace(DEFAULT_LIMITS, selector_len=10)
    Selector("a?" + "x" * 8, limits=limits)
    with pytest.raises(SelectorError, match="at most 10") as caught:
        Selector("a?" + "x" * 9, limits=limits)
    assert caught.value.offset == 10


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ("", None),
        ("x=1", None),
        ("x=1;_time=[now(-1h)..];y", "[now(-1h)..]"),
        ("_time=[now(-2h);1h]", "[now(-2h)..now(-1h)]"),
        ("_time=]now(-2h);1h[;x=1", "]now(-2h)..now(-1h)["),
        ("_time=[..];_time=nonsense", "[..]"),
    ],
)
def test_time_range(parameters: str, shown: str | None) -> None:
    time_range = Selector("a", parameters).time_range()
    assert (None if time_range is None else str(time_range)) == shown


@pytest.mark.parametrize("parameters", ["_time", "_time=", "_time=now()", "_time=[now();x=1"])
def test_time_range_that_is_none(parameters: str) -> None:
    with pytest.raises(SelectorError):
        Selector("a", parameters).time_range()

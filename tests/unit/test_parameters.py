from __future__ import annotations

import pytest

from elea.errors import SelectorError
from elea.parameters import Parameters


@pytest.mark.parametrize(
    ("text", "pairs", "sent"),
    [
        ("", [], ""),
        ("x", [("x", "")], "x"),
        ("x=1;y=2", [("x", "1"), ("y", "2")], "x=1;y=2"),
        ("x=1;;y=2;", [("x", "1"), ("y", "2")], "x=1;;y=2"),
        ("x=1&y=2", [("x", "1&y=2")], "x=1&y=2"),
        ("x=1=2", [("x", "1=2")], "x=1=2"),
        ("=v", [("", "v")], "=v"),
        ("l=a|b|c", [("l", "a|b|c")], "l=a|b|c"),
        ("p=v;|=", [("p", "v")], "p=v"),
        ("a;a=1", [("a", ""), ("a", "1")], "a;a=1"),
        (" a = 1 ", [(" a ", " 1 ")], " a = 1 "),
    ],
)
def test_pairs_and_what_is_sent(text: str, pairs: list[tuple[str, str]], sent: str) -> None:
    parameters = Parameters(text)
    assert list(parameters) == pairs
    assert str(parameters) == sent
    assert (bool(parameters), parameters.is_empty()) == (bool(sent), not sent)


def test_first_of_a_name_counts() -> None:
    parameters = Parameters("b=1;a=2|3;b=3;c")
    assert parameters.get("b") == parameters["b"] == "1"
    assert (parameters.get("z"), parameters["z"], parameters.get("z", "d")) == (None, None, "d")
    assert parameters.values("a") == ["2", "3"]
    assert (parameters.values("c"), parameters.values("z")) == ([""], [])
    assert "c" in parameters
    assert "z" not in parameters


def test_changes_rewrite_the_list() -> None:
    parameters = Parameters("x=1;;b=1;=q;b=3")
    assert parameters.insert("b", "9") == "1"
    assert str(parameters) == "x=1;b=9"
    assert parameters.insert("new", "") is None
    assert str(parameters) == "x=1;b=9;new"
    assert parameters.remove("x") == "1"
    assert parameters.remove("x") is None
    assert str(parameters) == "b=9;new"


@pytest.mark.parametrize("added", ["a=2;a=3;z", Parameters("a=2;a=3;z")])
def test_extend_replaces_names_that_are_in_both(added: Parameters | str) -> None:
    parameters = Parameters("b=1;a=1")
    parameters.extend(added)
    assert str(parameters) == "b=1;a=2;a=3;z"
    parameters.extend({"b": "7"})
    assert str(parameters) == "a=2;a=3;z;b=7"


def test_from_a_mapping() -> None:
    assert str(Parameters({"b": "1", "a": "", "": "x"})) == "b=1;a"
    assert str(Parameters(Parameters("a=1"))) == "a=1"


@pytest.mark.parametrize(("name", "offset"), [("a;b", 1), ("=", 0)])
def test_a_name_cannot_hold_a_separator(name: str, offset: int) -> None:
    for make in (lambda: Parameters({name: "x"}), lambda: Parameters().insert(name, "x")):
        with pytest.raises(SelectorError, match="cannot hold") as caught:
            make()
        assert caught.value.offset == offset


def test_order_and_equality() -> None:
    assert Parameters("a;a=1;b").is_ordered()
    assert not Parameters("b;a").is_ordered()
    assert Parameters("a=;b") == Parameters("a;b")
    assert Parameters("a;b") != Parameters("b;a")
    assert Parameters("a") != "a"
    assert repr(Parameters("é")) == "Parameters('\\xe9')"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Parameters())


def test_many_parameters_cost_linear_time() -> None:
    parameters = Parameters(";".join(f"k{i}=v" for i in range(20_000)))
    parameters.extend(";".join(f"k{i}=w" for i in range(20_000)))
    assert parameters.get("k19999") == "w"

"""KeyExprTree: a dictionary that can be asked by match."""

from __future__ import annotations

import gc
import re

import pytest

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree

KEYS = [
    *("a", "a/b", "a/@b", "a/*", "a/**", "**", "**/b", "*/**", "a$*/b", "$*a/b"),
    *("a/b$*", "a/$*b", "@a/**", "@a$*/b", "a/**/b/**", "a/$*b$*", "*/b"),
]


def tree_of(*keys: str) -> KeyExprTree[str]:
    tree: KeyExprTree[str] = KeyExprTree()
    for key in keys:
        tree.insert(key, key)
    return tree


def test_insert_get_replace_remove() -> None:
    tree: KeyExprTree[int] = KeyExprTree()
    tree.insert("a/**", 1)
    tree.insert(KeyExpr("a/**"), 2)
    tree.insert("a", 3)
    assert len(tree) == 2
    assert tree.get("a/**") == 2
    assert tree.get(KeyExpr("a")) == 3
    assert tree.get("a/b") is None
    assert tree.get("b") is None
    assert "a/**" in tree
    assert KeyExpr("a") in tree
    assert "a/b" not in tree
    assert tree.remove("a/**") == 2
    assert tree.remove(KeyExpr("a")) == 3
    assert len(tree) == 0
    assert tree.items() == []


@pytest.mark.parametrize("key", ["a", "a/b/c", "x", "a/*", "a/b$*"])
def test_removing_what_is_not_there_says_so(key: str) -> None:
    tree = tree_of("a/b")
    with pytest.raises(KeyError, match=re.escape(key)):
        tree.remove(key)
    assert tree.items() == [("a/b", "a/b")]


def test_none_is_a_value_like_any_other() -> None:
    tree: KeyExprTree[None] = KeyExprTree()
    tree.insert("a", None)
    assert "a" in tree
    assert tree.intersecting("a") == [None]
    assert tree.remove("a") is None
    assert "a" not in tree


def test_only_valid_keys_get_in() -> None:
    tree: KeyExprTree[int] = KeyExprTree()
    with pytest.raises(KeyExprError):
        tree.insert("a/**/*", 1)
    with pytest.raises(LimitError):
        tree.insert("a" * 2_000, 1)
    assert len(tree) == 0
    assert tree.intersecting("**") == []


def test_a_plain_key_finds_the_expressions_it_belongs_to() -> None:
    tree = tree_of("fleet/*/pose", "fleet/r1/**", "fleet/r$*/pose", "**/pose", "plant/**")
    tree.insert("@fleet/**", "verbatim")
    assert sorted(tree.intersecting("fleet/r1/pose")) == [
        *("**/pose", "fleet/*/pose", "fleet/r$*/pose", "fleet/r1/**"),
    ]
    assert tree.intersecting(KeyExpr("@fleet/x")) == ["verbatim"]
    assert tree.intersecting("other") == []


def test_the_three_questions_differ() -> None:
    tree = tree_of("a/b", "a/*", "a/**", "*/b")
    assert sorted(tree.intersecting("a/*")) == ["*/b", "a/*", "a/**", "a/b"]
    assert sorted(tree.included_by("a/*")) == ["a/*", "a/b"]
    assert sorted(tree.including("a/*")) == ["a/*", "a/**"]


def test_a_value_is_found_once_however_many_ways_lead_to_it() -> None:
    tree = tree_of("**/a/**/a/**", "**/a$*/**")
    assert sorted(tree.intersecting("a/a/a/a/a")) == ["**/a$*/**", "**/a/**/a/**"]
    assert sorted(tree.intersecting("**/a/**/a/**")) == ["**/a$*/**", "**/a/**/a/**"]


def test_removing_prunes_every_node_that_nothing_needs() -> None:
    tree = tree_of(*KEYS)
    assert nodes_count(tree) > len(KEYS)
    for key in KEYS:
        tree.remove(key)
        assert key not in tree
    assert len(tree) == 0
    assert nodes_count(tree) == 1  # the root


def nodes_count(tree: object) -> int:
    """How many nodes a tree keeps alive."""
    seen = {id(tree)}
    todo = [tree]
    count = 0
    while todo:
        for item in gc.get_referents(todo.pop()):
            if id(item) not in seen and not isinstance(item, type):
                seen.add(id(item))
                todo.append(item)
                count += type(item).__name__ == "Node"
    return count


def test_removing_one_leaves_its_neighbours() -> None:
    for removed in KEYS:
        tree = tree_of(*KEYS)
        tree.remove(removed)
        left = sorted(key for key in KEYS if key != removed)
        assert sorted(tree) == left
        assert sorted(key for key, _ in tree.items()) == left


def test_a_tree_as_deep_as_a_key_can_be() -> None:
    deep = "/".join(["a"] * 64)
    tree = tree_of(deep, "**")
    assert sorted(tree.intersecting(deep)) == ["**", deep]
    assert tree.included_by("/".join(["*"] * 64)) == [deep]
    assert tree.remove(deep) == deep


def test_a_hostile_expression_visits_each_node_once() -> None:
    """Sixteen `**` against a deep tree of `**`: a walk over paths would not end."""
    tree = tree_of(*("/".join(["**/a"] * count) for count in range(1, 17)))
    hostile = "/".join(["**/a$*"] * 16)
    assert len(tree.intersecting(hostile)) == 16
    assert len(tree.included_by(hostile)) == 1
    assert len(tree.intersecting("/".join(["a"] * 64))) == 16
    assert tree.intersecting(hostile + "/b") == []


def test_many_keys_at_a_time_are_found_as_one_by_one() -> None:
    tree = tree_of(*KEYS)
    keys = ["a/b", "a", "a/@b", "b", "@a/b", "a/x/b/y", "a/b/b/b", "a/*", "**", "a/b"]
    ends, found = tree.intersecting_each(keys)
    starts = [0, *ends[:-1]]
    for key, start, end in zip(keys, starts, ends, strict=True):
        assert sorted(found[start:end]) == sorted(tree.intersecting(key)), key

"""Columns of keys against key expressions: the matcher, the SQL functions and shapes, no Spark."""

from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies_keyexpr import expression_texts, key_texts

from elea.errors import InvalidValueError, KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.spark.functions import vectors
from elea.spark.functions.matcher import Matcher
from elea.spark.functions.shapes import Shaped, shaped


def pairs_of(matcher: Matcher, keys: list[str | None] | pa.Array) -> set[tuple[int, int]]:
    rows, places = matcher.match_many(keys)
    found = list(zip(rows.to_pylist(), places.to_pylist(), strict=True))
    assert found == sorted(set(found)), "in order, each once"
    return set(found)


@given(
    st.lists(expression_texts, max_size=12),
    st.lists(st.one_of(key_texts, expression_texts), min_size=1, max_size=20),
)
def test_the_matcher_answers_as_key_expressions_do(exprs: list[str], keys: list[str]) -> None:
    for relation, holds in (("intersects", KeyExpr.intersects), ("includes", KeyExpr.includes)):
        expected = {
            (row, place)
            for row, key in enumerate(keys)
            for place, text in enumerate(exprs)
            if holds(KeyExpr(text), KeyExpr(key))
        }
        matcher = Matcher(exprs, relation=relation)  # type: ignore[arg-type]
        assert pairs_of(matcher, list(keys)) == expected
        assert pairs_of(matcher, pa.array(keys).dictionary_encode()) == expected


@given(st.lists(expression_texts, min_size=1, max_size=12), st.lists(key_texts, max_size=12))
def test_shapes_answer_as_key_expressions_do(exprs: list[str], keys: list[str]) -> None:
    for text in exprs:
        found = shaped(text)
        for key in keys:
            assert shape_matches(found, key) == KeyExpr(text).intersects(KeyExpr(key)), (text, key)


def shape_matches(found: Shaped, key: str) -> bool:
    """What the join in the JVM does with one pair."""
    chunks, shape = key.split("/"), found.shape
    if len(chunks) < shape.least or (shape.exact and len(chunks) > shape.least):
        return False
    literal = [chunks[at] for at in shape.head] + [chunks[-back] for back in shape.tail]
    if "/".join(literal) != found.literal:
        return False
    if found.is_exact and "/@" not in f"/{key}":
        return True
    return re.search(found.regex, f"/{key}") is not None


def test_nulls_and_texts_that_are_no_keys_belong_to_nothing() -> None:
    matcher = Matcher(["**", "a/**", "@a/**"])
    bad = ["", "/a", "a/", "a//b", "a#", "a?b", "a$b", "a/**/**", "a" * 2_000, "a/*/**/*/"]
    lists = matcher.match_lists(pa.array([None, "a", *bad]))
    assert lists.to_pylist() == [None, [0, 1], *([] for _ in bad)]
    assert len("@" * DEFAULT_LIMITS.keyexpr_len) == DEFAULT_LIMITS.keyexpr_len
    assert matcher.match_lists(pa.array([], pa.string())).to_pylist() == []
    assert Matcher([]).match_lists(pa.array(["a"])).to_pylist() == [[]]


def test_an_expression_that_is_given_twice_is_found_twice() -> None:
    assert pairs_of(Matcher(["a", "b", "a"]), ["a", "b"]) == {(0, 0), (0, 2), (1, 1)}


def test_a_matcher_travels() -> None:
    matcher = pickle.loads(pickle.dumps(Matcher(["a/*", "a/*/b"], relation="includes")))
    assert pairs_of(matcher, ["a/b"]) == {(0, 0)}


def test_what_is_no_expression_or_relation_is_refused() -> None:
    with pytest.raises(KeyExprError):
        Matcher(["a//b"])
    with pytest.raises(InvalidValueError, match="legal is intersects or includes"):
        Matcher(["a"], relation="equals")  # type: ignore[arg-type]


def test_chunked_columns_and_large_texts() -> None:
    matcher = Matcher(["a/*"])
    keys = pa.chunked_array([["a/b"], ["b", "a/c"]])
    assert matcher.match_lists(keys).to_pylist() == [[0], [], [0]]
    assert matcher.match_lists(pa.array(["a/b"], pa.large_string())).to_pylist() == [[0]]


@given(st.lists(st.tuples(expression_texts, expression_texts), max_size=20))
def test_relations_of_columns(rows: list[tuple[str, str]]) -> None:
    a = pa.array([first for first, _ in rows], pa.string())
    b = pa.array([second for _, second in rows], pa.string())
    assert vectors.ke_intersects(a, b).to_pylist() == [
        KeyExpr(first).intersects(KeyExpr(second)) for first, second in rows
    ]
    assert vectors.ke_includes(a, b).to_pylist() == [
        KeyExpr(first).includes(KeyExpr(second)) for first, second in rows
    ]


def test_a_bad_text_is_an_error_or_a_null() -> None:
    a, b = pa.array(["a/*", None, "a//b"]), pa.array(["a/b", "a", "a"])
    with pytest.raises(KeyExprError, match="a//b"):
        vectors.ke_includes(a, b)
    assert vectors.ke_includes(a, b, lenient=True).to_pylist() == [True, None, None]
    assert vectors.ke_intersects(b, a, lenient=True).to_pylist() == [True, None, None]


def test_fields_of_keys() -> None:
    keys = pa.array(["fleet/r1/imu", "plant/r1", None, "fleet/*/imu", "fleet//"])
    templates = pa.array(["fleet/{robot}/{sensor}"] * 5)
    found = vectors.ke_fields(keys, templates).to_pylist()
    assert found == [[("robot", "r1"), ("sensor", "imu")], None, None, None, None]
    with pytest.raises(KeyExprError):
        vectors.ke_fields(keys, pa.array(["fleet/{robot"] * 5))

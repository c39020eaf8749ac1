"""Names and keys, as a table, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.dds.mapping import (
    KEY_LEN_MAX,
    Names,
    checked_key,
    concrete_of,
    escape_name,
    is_pattern,
    pattern_matches,
    unescape_name,
)
from elea.errors import InvalidValueError
from elea.keyexpr.keyexpr import KeyExpr

line = pytest.mark.line


@line("D-101", "D-103")
@pytest.mark.parametrize(
    ("scope", "partition", "topic", "key"),
    [
        ("", "", "T", "T"),
        ("", "p1", "T", "p1/T"),
        ("robot7", "p1", "T", "robot7/p1/T"),
        ("robot7", "", "rt/chatter", "robot7/rt/chatter"),
        ("", "a.b", "T", "a.b/T"),
    ],
)
def test_keys_of_topics(scope: str, partition: str, topic: str, key: str) -> None:
    names = Names(scope)
    assert names.key(partition, topic) == key
    assert names.partition_of(key, topic) == partition


@line("D-104")
def test_a_separator_splits_partitions() -> None:
    names = Names(separator=".")
    assert names.key("a.b", "T") == "a/b/T"
    assert names.partition_of("a/b/T", "T") == "a.b"


@line("D-105")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("/a", "%2F/a"),
        ("a/", "a/%2F"),
        ("a//b", "a/%2F/b"),
        ("a#b$c?d*e", "a%23b%24c%3Fd%2Ae"),
        ("@a/b@c", "%40a/b@c"),
        ("100%41", "100%2541"),
        ("100%", "100%"),
        ("%2F", "%252F"),
        ("a\x01b", "a%01b"),
    ],
)
def test_characters_that_keys_cannot_carry(name: str, key: str) -> None:
    assert escape_name(name) == key
    assert unescape_name(key) == name
    assert str(KeyExpr(key)) == key


@line("D-105", "D-935")
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
def test_escaping_is_a_bijection(name: str) -> None:
    key = escape_name(name)
    assert unescape_name(key) == name
    assert str(KeyExpr(key)) == key


@line("D-107")
@pytest.mark.parametrize(
    ("partition", "expressions"),
    [
        ("", ("T",)),
        ("p", ("p/T",)),
        ("a*", ("a$*/**/T",)),
        ("*", ("**/T",)),
        ("a?c", ("a$*c/T", "a/c/T")),
        ("x/*", ("x/**/T",)),
    ],
)
def test_expressions_of_readers(partition: str, expressions: tuple[str, ...]) -> None:
    assert Names().selectors(partition, "T") == expressions


@line("D-107", "D-935")
@given(st.from_regex(r"[ab/?*]{1,5}", fullmatch=True), st.from_regex(r"[ab/]{1,5}", fullmatch=True))
def test_expressions_include_every_partition_of_a_pattern(pattern: str, partition: str) -> None:
    names = Names()
    if is_pattern(pattern) and pattern_matches(pattern, partition):
        key = names.key(partition, "T")
        assert any(KeyExpr(one).includes(key) for one in names.selectors(pattern, "T"))
    assert pattern_matches(pattern, concrete_of(pattern))


@line("D-109")
def test_names_that_make_no_key_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="exceeds 1024 bytes"):
        Names().key("", "x" * (KEY_LEN_MAX + 1))
    with pytest.raises(InvalidValueError, match="no key"):
        Names().key("", "a\ud800")
    with pytest.raises(InvalidValueError, match="wildcard"):
        checked_key("a/*")
    assert Names("s").partition_of("t/T", "T") is None
    assert Names().partition_of("a/U", "T") is None

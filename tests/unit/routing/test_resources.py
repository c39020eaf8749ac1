"""Aliases of one face."""

from __future__ import annotations

import pytest

from elea.routing.resources import AliasAnswer, Aliases, plain_prefix
from elea.wire.fields import WireExpr


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        ("a/b", "a/b"),
        ("a/b/**", "a/b"),
        ("a/b$*/c", "a"),
        ("*/a", ""),
        ("**", ""),
        ("a$*", ""),
        ("@x/*", "@x"),
    ],
)
def test_the_plain_prefix(key: str, prefix: str) -> None:
    assert plain_prefix(key) == prefix


def test_the_smallest_number_that_neither_side_uses() -> None:
    aliases = Aliases(10)
    aliases.declared(2, "theirs")
    assert [aliases.assign(text) for text in ("a", "b", "c")] == [1, 3, 4]


def test_a_text_has_one_number() -> None:
    aliases = Aliases(10)
    aliases.declared(2, "theirs")
    assert aliases.assign("a") == 1
    assert aliases.assign("a") is None
    assert aliases.assign("theirs") is None


def test_numbers_end() -> None:
    aliases = Aliases(100_000)
    assert aliases.count_max == 65_535
    for number in range(1, 65_536):
        aliases.declared(number, str(number))
    assert aliases.assign("one more") is None


def test_two_numbers_of_the_neighbour_for_one_text() -> None:
    aliases = Aliases(10)
    assert aliases.declared(1, "a") is AliasAnswer.STORED
    assert aliases.declared(2, "a") is AliasAnswer.STORED
    assert aliases.express("a/b") == WireExpr(2, "/b", False)
    assert aliases.undeclared(1)
    assert aliases.express("a/b") == WireExpr(2, "/b", False)
    assert aliases.undeclared(2)
    assert not aliases.undeclared(2)
    assert aliases.express("a/b") == WireExpr(0, "a/b")


def test_only_whole_chunks_are_abbreviated() -> None:
    aliases = Aliases(10)
    aliases.declared(1, "a/b")
    assert aliases.express("a/bc") == WireExpr(0, "a/bc")
    assert aliases.express("a/b") == WireExpr(1, "", False)


def test_what_is_expressed_resolves_at_the_other_end() -> None:
    here, there = Aliases(10), Aliases(10)
    number = here.assign("a/b")
    assert number is not None
    there.declared(number, "a/b")
    there_number = there.assign("c")
    assert there_number is not None
    here.declared(there_number, "c")
    for key in ("a/b", "a/b/*", "c/d", "e"):
        assert there.resolve(here.express(key)) == key
        assert here.resolve(there.express(key)) == key
    assert here.resolve(WireExpr(77)) is None

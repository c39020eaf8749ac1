"""Validity, its reasons, canonical form and limits. Spec: wire.md 10.1 and 10.3."""

from __future__ import annotations

import pytest

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import canonize, validate
from elea.limits import Limits

# (text, offset, words of the reason): the grammar's rules, one reason each.
UNGRAMMATICAL = [
    ("", 0, "empty; a key expression has at least one chunk"),
    ("/", 0, "starts with `/`"),
    ("/a", 0, "starts with `/`"),
    ("a/", 1, "ends with `/`"),
    ("a//b", 2, "a chunk is empty"),
    ("a/b?c", 3, "`?` is forbidden"),
    ("a#b", 1, "`#` is forbidden"),
    ("a$b", 1, "`$` is legal only before `*`"),
    ("ab/c$", 4, "`$` is legal only before `*`"),
    ("$$*", 0, "`$` is legal only before `*`"),
    ("a*", 1, "`*` is legal as the whole chunk"),
    ("x/*b", 2, "`*` is legal as the whole chunk"),
    ("***", 0, "`*` is legal as the whole chunk"),
    ("a/$**", 4, "`*` is legal as the whole chunk"),
    ("a/**$*", 2, "`*` is legal as the whole chunk"),
    ("é/\ud800", 2, "lone surrogate"),
]

# (text, offset, words of the reason, canonical form): right grammar, wrong spelling.
UNCANONICAL = [
    ("x/a$*$*bc", 3, "`$*$*` is written `$*`", "x/a$*bc"),
    ("$*$*", 0, "`$*$*` is written `$*`", "*"),
    ("a/$*/b", 2, "only `$*` is written `*`", "a/*/b"),
    ("a/**/**", 2, "`**/**` is written `**`", "a/**"),
    ("**/*", 0, "`**/*` is written `*/**`", "*/**"),
    ("a/**/*/b", 2, "`**/*` is written `*/**`", "a/*/**/b"),
    ("a/**/*/**", 2, "`**/*` is written `*/**`", "a/*/**"),
    ("a/$*/**/*/b", 2, "only `$*` is written `*`", "a/*/*/**/b"),
    ("**/a/**/*/**", 5, "`**/*` is written `*/**`", "**/a/*/**"),
]

VALID = [
    *("a", "a/b", "*", "**", "*/**", "a$*", "$*a", "a$*b$*", "@", "@/x", "a/@b", "@$*", "a@b"),
    *("a b", "a/./b", "a/../b", "é/中/😀", "a\0b", "a\nb", "{x}", "\\", '"'),
]


@pytest.mark.parametrize(("text", "offset", "words"), UNGRAMMATICAL)
def test_what_breaks_the_grammar_is_refused_with_a_reason(
    text: str, offset: int, words: str
) -> None:
    for check in (validate, canonize):
        with pytest.raises(KeyExprError) as caught:
            check(text)
        assert caught.value.text == text
        assert caught.value.offset == offset
        assert words in caught.value.reason


@pytest.mark.parametrize(("text", "offset", "words", "canonical"), UNCANONICAL)
def test_another_spelling_is_refused_as_is_and_canonised(
    text: str, offset: int, words: str, canonical: str
) -> None:
    with pytest.raises(KeyExprError) as caught:
        validate(text)
    assert caught.value.offset == offset
    assert words in caught.value.reason
    assert repr(canonical) in caught.value.reason
    assert canonize(text) == canonical


@pytest.mark.parametrize("text", VALID)
def test_canonical_texts_pass_unchanged(text: str) -> None:
    validate(text)
    assert canonize(text) == text


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a/b$*$*$*c", "a/b$*c"),  # a run of three inside a chunk
        ("b$*$*/b$*$*/x", "b$*/b$*/x"),  # another `$*` two octets behind the run
        ("a$*$*é$*", "a$*é$*"),  # octets, not characters
    ],
)
def test_runs_that_the_reference_refuses_are_refused_with_the_way_out(
    text: str, rules: str
) -> None:
    with pytest.raises(KeyExprError) as caught:
        canonize(text)
    assert repr(rules) in caught.value.reason
    assert canonize(rules) == rules


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a$*$*b", "a$*b"),  # the reference aborts: too few octets behind the run
        ("a$*$*", "a$*"),
        ("a$*$*/b$*$*c", "a$*/b$*c"),
        ("$*$*$*$*a", "$*a"),  # at the start of a chunk any run is collapsed
        ("a$*$*中$*b", "a$*中$*b"),  # three octets behind the run: no confusion
    ],
)
def test_runs_that_the_rules_collapse(text: str, canonical: str) -> None:
    assert canonize(text) == canonical


@pytest.mark.parametrize(
    ("text", "limit", "value"),
    [
        ("a" * 1_025, "keyexpr_len", 1_025),
        ("é" * 513, "keyexpr_len", 1_026),
        ("/".join("a" * 65), "keyexpr_chunks_count", 65),
        ("/a/".join(["**"] * 17), "keyexpr_double_wild_count", 17),
        ("x/" + "a$*" * 9, "keyexpr_sub_wild_count", 9),
    ],
)
def test_each_limit_is_named_when_it_is_hit(text: str, limit: str, value: int) -> None:
    for check in (validate, canonize):
        with pytest.raises(LimitError) as caught:
            check(text)
        assert (caught.value.limit, caught.value.value) == (limit, value)


@pytest.mark.parametrize(
    "text",
    ["a" * 1_024, "é" * 512, "/".join("a" * 64), "/a/".join(["**"] * 16), "a$*" * 8 + "/b$*"],
)
def test_each_limit_itself_is_allowed(text: str) -> None:
    validate(text)


def test_limits_are_the_callers_to_choose() -> None:
    with pytest.raises(LimitError):
        validate("abcd", Limits(keyexpr_len=3))
    validate("a" * 5_000, Limits(keyexpr_len=5_000))


def test_a_long_text_is_refused_by_its_length_whatever_it_holds() -> None:
    with pytest.raises(LimitError):
        canonize("$*" * 1_000_000)

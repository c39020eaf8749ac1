"""Laws of validity, canonical form and matching, on drawn expressions."""

from __future__ import annotations

from hypothesis import given, settings
from tests.property import keyexpr_rules as rules
from tests.strategies_keyexpr import expression_texts, key_texts, raw_texts, related_pairs

from elea.errors import KeyExprError
from elea.keyexpr.canon import canonize, validate
from elea.keyexpr.keyexpr import KeyExpr, SetIntersectionLevel
from elea.keyexpr.match import includes, intersects, relation


def refusal(text: str) -> KeyExprError | None:
    try:
        validate(text)
    except KeyExprError as error:
        return error
    return None


def is_valid(text: str) -> bool:
    return refusal(text) is None


def canonical(text: str) -> str | None:
    try:
        return canonize(text)
    except KeyExprError:
        return None


@settings(max_examples=400)
@given(related_pairs())
def test_intersects_is_what_the_rules_say(pair: tuple[str, str]) -> None:
    assert intersects(*pair) == rules.intersects(*pair)


@settings(max_examples=400)
@given(related_pairs())
def test_includes_is_what_the_rules_say(pair: tuple[str, str]) -> None:
    assert includes(*pair) == rules.includes(*pair)


@given(related_pairs())
def test_intersects_is_symmetric(pair: tuple[str, str]) -> None:
    a, b = pair
    assert intersects(a, b) == intersects(b, a)


@given(expression_texts)
def test_an_expression_equals_itself(text: str) -> None:
    assert intersects(text, text)
    assert includes(text, text)
    assert KeyExpr(text).relation_to(text) is SetIntersectionLevel.EQUALS


@given(related_pairs())
def test_relation_is_the_strongest_that_holds(pair: tuple[str, str]) -> None:
    a, b = pair
    level = SetIntersectionLevel(relation(a, b))
    assert (int(level) >= int(SetIntersectionLevel.INTERSECTS)) == intersects(a, b)
    assert (int(level) >= int(SetIntersectionLevel.INCLUDES)) == includes(a, b)
    assert (level == SetIntersectionLevel.EQUALS) == (a == b)


@given(related_pairs(), key_texts)
def test_a_key_of_the_included_is_a_key_of_the_including(pair: tuple[str, str], key: str) -> None:
    a, b = pair
    if includes(a, b) and intersects(b, key):
        assert intersects(a, key)


@given(key_texts, expression_texts)
def test_an_expression_includes_the_keys_it_intersects(key: str, text: str) -> None:
    assert includes(text, key) == intersects(text, key)


@given(raw_texts)
def test_canonical_form_is_valid_and_stays(text: str) -> None:
    result = canonical(text)
    if result is not None:
        assert is_valid(result)
        assert canonical(result) == result


@given(raw_texts)
def test_a_refusal_points_into_the_text(text: str) -> None:
    error = refusal(text)
    if error is not None:
        assert error.text == text
        assert 0 <= error.offset <= max(0, len(text) - 1)


@given(raw_texts)
def test_valid_means_canonical_already(text: str) -> None:
    assert is_valid(text) == (canonical(text) == text)


@given(expression_texts, expression_texts)
def test_join_is_the_canonical_form_of_both_with_a_slash(a: str, b: str) -> None:
    joined = KeyExpr(a).join(b)
    assert str(joined) == canonize(f"{a}/{b}")
    assert joined == KeyExpr(a) / b


@given(expression_texts, raw_texts)
def test_concat_gives_the_plain_text_or_refuses(a: str, b: str) -> None:
    seam_is_wild = a.endswith("*") and b.startswith("*")
    try:
        result = KeyExpr(a).concat(b)
    except KeyExprError:
        assert seam_is_wild or not is_valid(a + b)
    else:
        assert not seam_is_wild
        assert str(result) == a + b

"""Rewriting of keys, and moments as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError, KeyExprError
from elea.store.replay.moment import Span, moment_ns
from elea.store.replay.rewrite import Rewrite, Rewriter

CHUNK = st.text("abc0", min_size=1, max_size=3)
SPAN = Span(10 * 10**9, 70 * 10**9)


def test_the_first_rule_that_takes_a_key_changes_it() -> None:
    rewriter = Rewriter(["fleet/{x}/pose=sim/pose/{x}", "fleet/{rest:**}=rest/{rest:**}"])
    assert rewriter("fleet/r1/pose") == "sim/pose/r1"
    assert rewriter("fleet/r1/arm/1") == "rest/r1/arm/1"
    assert rewriter("fleet") == "rest"
    assert rewriter("other/r1") == "other/r1"
    assert rewriter("fleet/r1/pose") == "sim/pose/r1"
    assert Rewriter()("a/b") == "a/b"


@given(keys=st.sets(st.lists(CHUNK, min_size=2, max_size=5).map("/".join), max_size=20))
def test_two_keys_never_become_one(keys: set[str]) -> None:
    rule = Rewrite.parse("{a}/{rest:**}=x/{rest:**}/of/{a}")
    changed = {key: rule.apply(key) for key in keys}
    assert len(set(changed.values())) == len(keys)
    for key, new in changed.items():
        assert new is not None
        assert str(rule.source.build(**rule.target.parse(new))) == key


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("fleet/{x}", "saw 0 `=`"),
        ("a={x}=b", "saw 2 `=`"),
        ("fleet/{x}=sim", "saw x on one side only"),
        ("fleet/{x}/{y}=sim/{x}/{z}", "saw y, z on one side only"),
        ("fleet/{x=sim/{x}", "has no `}`"),
        ("fleet/**=sim/{x}", "no bare wildcard"),
    ],
)
def test_rules_that_are_none(rule: str, reason: str) -> None:
    with pytest.raises((InvalidValueError, KeyExprError), match=reason):
        Rewriter([rule])


def test_targets_that_meet_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="both may write the same key"):
        Rewriter(["a/{x}=c/{x}", "b/{x}=c/{x}"])


def test_what_cannot_be_undone_is_refused() -> None:
    rule = Rewrite.parse("a/{x:**}/b/{y}={x:**}/b/{y:**}/z")
    with pytest.raises(KeyExprError, match="read back"):
        rule.apply("a/1/b/2/b/3")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("start", 10 * 10**9),
        ("end", 70 * 10**9),
        ("start+1.5s", 11_500_000_000),
        ("start+10", 20 * 10**9),
        ("end-1m", 10 * 10**9),
        ("now(-2s)", 98 * 10**9),
        (" now() ", 100 * 10**9),
        ("1970-01-01T00:00:12.5Z", 12_500_000_000),
    ],
)
def test_moments(text: str, ns: int) -> None:
    assert moment_ns(text, SPAN, now_ns=100 * 10**9) == ns


@pytest.mark.parametrize("text", ["", "tomorrow", "start+", "start+1y", "end-..", "1970-01-01"])
def test_no_moments(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"legal are 2024-07-01T13:51:12Z, now\(-1h\)"):
        moment_ns(text, SPAN, now_ns=0)

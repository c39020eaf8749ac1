"""Relations rule by rule (wire.md 10.4), and the work they take, counted."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType

import pytest

import elea
from elea.keyexpr import canon
from elea.keyexpr.match import (
    DISJOINT,
    EQUALS,
    INCLUDES,
    INTERSECTS,
    includes,
    intersects,
    relation,
)

# (a, b, relation of a to b, relation of b to a)
RELATIONS = [
    ("a", "a", EQUALS, EQUALS),
    ("a", "b", DISJOINT, DISJOINT),
    ("a/b", "a", DISJOINT, DISJOINT),
    ("a/*", "a", DISJOINT, DISJOINT),
    ("a/*", "a/b", INCLUDES, INTERSECTS),
    ("*/a", "a/*", INTERSECTS, INTERSECTS),
    ("a/**", "a", INCLUDES, INTERSECTS),
    ("a/**", "ab", DISJOINT, DISJOINT),
    ("a/**", "ab/c", DISJOINT, DISJOINT),
    ("**/c", "a/c/b", DISJOINT, DISJOINT),
    ("a/**/c", "a/c", INCLUDES, INTERSECTS),
    ("a/**/b", "a/*/**", INTERSECTS, INTERSECTS),
    ("a/**", "a/*/**", INCLUDES, INTERSECTS),
    ("**", "*/**", INCLUDES, INTERSECTS),
    ("*/**", "**/a", INTERSECTS, INTERSECTS),  # by the rules, although each key of b is in a
    ("a/**/c/*/e/*", "a/b/b/b/c/d/d/c/d/e/f", INCLUDES, INTERSECTS),
    ("**/a/a/b/**", "a/a/a/b", INCLUDES, INTERSECTS),  # the piece starts again one chunk on
    ("**/a/**/a/**", "b/a/b", DISJOINT, DISJOINT),  # two pieces never share a chunk
    ("a/**/a", "a", DISJOINT, DISJOINT),
    ("**/x$*", "x", INCLUDES, INTERSECTS),
    # `$*`
    ("ab$*", "ab", INCLUDES, INTERSECTS),
    ("ab$*ba", "aba", DISJOINT, DISJOINT),  # head and tail must not overlap
    ("a$*b$*c", "acb", DISJOINT, DISJOINT),
    ("a$*b$*c", "abbc", INCLUDES, INTERSECTS),
    ("$*b$*b", "b", DISJOINT, DISJOINT),
    ("a$*", "a/b", DISJOINT, DISJOINT),
    ("a$*", "*", INTERSECTS, INCLUDES),
    ("x/$*abc", "x/abc$*", INTERSECTS, INTERSECTS),
    ("x/$*d", "x/$*e", DISJOINT, DISJOINT),
    ("x/d$*", "x/e$*", DISJOINT, DISJOINT),
    ("a$*b", "a$*c$*b", INCLUDES, INTERSECTS),
    ("é$*", "éa", INCLUDES, INTERSECTS),
    # verbatim chunks
    ("@a", "*", DISJOINT, DISJOINT),
    ("**", "a/@b", DISJOINT, DISJOINT),
    ("@$*", "@a", DISJOINT, DISJOINT),
    ("$*a", "@a", DISJOINT, DISJOINT),
    ("a/**/@b", "a/x/y/@b", INCLUDES, INTERSECTS),
    ("**/@x/**", "@x", INCLUDES, INTERSECTS),
    ("**/@x/**", "**/@x/a/**", INCLUDES, INTERSECTS),
    ("**/@x/**/@y", "a/@x/@y", INCLUDES, INTERSECTS),
    ("**/@x/**", "a/@x/@y", DISJOINT, DISJOINT),
    ("a@b", "a$*", INTERSECTS, INCLUDES),
]


@pytest.mark.parametrize(("a", "b", "forth", "back"), RELATIONS)
def test_relation_both_ways(a: str, b: str, forth: int, back: int) -> None:
    canon.validate(a)
    canon.validate(b)
    assert relation(a, b) == forth
    assert relation(b, a) == back


@pytest.mark.parametrize("function", [intersects, includes])
def test_texts_far_over_the_limits_are_still_answered(
    function: Callable[[str, str], bool],
) -> None:
    """Matching takes any valid text: bounds are for whoever lets texts in."""
    pattern = "/".join(["**/a$*a"] * 300)
    assert function(pattern + "/**", "/".join(["aaa"] * 2_000))
    assert not function(pattern + "/z", "/".join(["aaa"] * 2_000))


# The worst pair that a search inside the default limits found; bench/match.py times it.
WORST = (
    "**/" + "/".join(["a$*a$*aa$*aa$*aa$*aa$*aa$*a$*"] * 31) + "/z/**",
    "/".join(["aaaaaaaaaaaaaaa"] * 64),
)


@pytest.mark.parametrize("name", ["intersects", "includes"])
def test_the_worst_pair_takes_bounded_work(name: str) -> None:
    for text in WORST:
        canon.validate(text)
    # 32 chunks at 33 places, two dozen calls for each comparison of eight parts.
    assert calls_of(name, *WORST) < 32 * 32 * 33


@pytest.mark.parametrize("name", ["intersects", "includes"])
@pytest.mark.parametrize("shape", ["one long piece", "many pieces"])
def test_the_work_grows_with_the_product_of_the_lengths(name: str, shape: str) -> None:
    """Twice the length on both sides is four times the work at most, never its square."""

    def work(count: int) -> int:
        between = "/" if shape == "one long piece" else "/**/"
        pattern = "**/" + between.join(["a$*a"] * count) + "/z/**"
        return calls_of(name, pattern, "/".join(["aaa"] * 2 * count))

    assert work(16) > 100
    assert work(32) < 5 * work(16)
    assert work(64) < 5 * work(32)


def calls_of(name: str, a: str, b: str) -> int:
    """How many calls of any kind, also of built-in functions, the interpreted source makes."""
    function = getattr(SOURCE, name)
    count = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        function(a, b)
    finally:
        sys.setprofile(None)
    return count


def _load_source() -> ModuleType:
    """The source of the compiled module, whichever build is under test."""
    assert elea.__file__ is not None
    path = Path(elea.__file__).parent / "keyexpr" / "match.py"
    spec = importlib.util.spec_from_file_location("match_source", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = _load_source()

"""Three-valued logic, what compares with what, LIKE and functions."""

from __future__ import annotations

import itertools
import math

import pytest

from elea.errors import LimitError, UnsupportedPredicateError
from elea.limits import Limits
from elea.predicate import (
    STANDARD,
    Enumerator,
    Function,
    Kind,
    MappingFields,
    all_of,
    compile_predicate,
    parse,
)
from elea.predicate.model import ALWAYS, And, Call, Comparison, Field, Literal, Not, Or, Relation

ROW = {"t": 1, "f": 0, "u": None}
COLORS = {"RED": 1, "GREEN": 2, "BLUE": 4}


def verdict(text: str, **row: object) -> bool | None:
    return compile_predicate(parse(text))(MappingFields(row))


AND_TABLE = {
    ("t", "t"): True,
    ("t", "f"): False,
    ("t", "u"): None,
    ("f", "f"): False,
    ("f", "u"): False,
    ("u", "u"): None,
}
OR_TABLE = {
    ("t", "t"): True,
    ("t", "f"): True,
    ("t", "u"): True,
    ("f", "f"): False,
    ("f", "u"): None,
    ("u", "u"): None,
}


@pytest.mark.parametrize(("a", "b"), [*itertools.product("tfu", repeat=2)])
def test_and_or(a: str, b: str) -> None:
    pair = (a, b) if (a, b) in AND_TABLE else (b, a)
    assert verdict(f"{a} = 1 AND {b} = 1", **ROW) is AND_TABLE[pair]
    assert verdict(f"{a} = 1 OR {b} = 1", **ROW) is OR_TABLE[pair]


@pytest.mark.parametrize(("a", "expected"), [("t", False), ("f", True), ("u", None)])
def test_not(a: str, expected: bool | None) -> None:
    assert verdict(f"NOT {a} = 1", **ROW) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("1", "3", True),
        ("2", "2", True),
        ("3", "1", False),
        ("3", "u", False),  # false, whatever the other end is
        ("u", "1", False),
        ("1", "u", None),
        ("u", "3", None),
        ("u", "u", None),
    ],
)
def test_between(low: str, high: str, expected: bool | None) -> None:
    assert verdict(f"n BETWEEN {low} AND {high}", n=2, u=None) is expected
    contrary = None if expected is None else not expected
    assert verdict(f"n NOT BETWEEN {low} AND {high}", n=2, u=None) is contrary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE = TRUE", True),
        ("TRUE = 1", True),
        ("0 = FALSE", True),
        ("FALSE < TRUE", True),
        ("TRUE = 2", None),
        ("TRUE = 1.0", None),
        ("TRUE = 'TRUE'", None),
        ("1 = 1.0", True),
        ("1 < 1.5", True),
        ("1.5 > 1", True),
        ("1 = '1'", None),
        ("'a' < 'b'", True),
        ("'B' < 'a'", True),
        ("'a' = 'a '", False),
        ("9007199254740993 = 9007199254740992.0", True),  # as floats
        ("9007199254740993 = 9007199254740992", False),  # exactly
        ("-0.0 = 0", True),
        ("+5 = 0x5", True),
        (".5 = 0.5", True),
        ("'a' LIKE 'A'", False),
        ("1 LIKE '1'", None),
        ("'1' LIKE 1", None),
        ("nan = nan", False),
        ("nan <> nan", True),
        ("nan < 1", False),
        ("inf > 1", True),
        ("huge > 1.5", True),
        ("huge < inf", False),  # as a float it is infinite, too
        ("-1e308 > minus_huge", True),
        ("list = list", None),
        ("list[0] = 1", True),
        ("list[1] = 1", None),
        ("list[0][0] = 1", None),
        ("list.x = 1", None),
        ("numbered[3] = 'three'", True),
        ("octets = 'a'", None),
        ("color = 'RED'", True),
        ("'RED' = color", True),
        ("color < 'BLUE'", True),
        ("'BLUE' > color", True),
        ("color >= 1", True),
        ("color = 'PINK'", None),
        ("color = 1.0", None),
        ("color = TRUE", None),
        ("color = color", True),
        ("color = shape", None),
        ("color LIKE 'R%'", None),
    ],
)
def test_what_compares_with_what(text: str, expected: bool | None) -> None:
    row = {
        "nan": math.nan,
        "inf": math.inf,
        "huge": 10**400,
        "minus_huge": -(10**400),
        "list": [1],
        "numbered": {3: "three"},
        "octets": b"a",
        "color": Enumerator(1, COLORS),
        "shape": Enumerator(1, {"ROUND": 1}),
    }
    assert verdict(text, **row) is expected
    # The other way a comparison is compiled: against anything, instead of against a literal.
    comparison = parse(text)
    assert isinstance(comparison, Comparison)
    left, right = (
        side.value if isinstance(side, Literal) else MappingFields(row).field(side.path)
        for side in (comparison.left, comparison.right)
        if isinstance(side, (Literal, Field))
    )
    assert verdict(f"l {comparison.relation.value} r", l=left, r=right) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("%", "", True),
        ("%%", "a\nb", True),
        ("a", "ab", False),
        ("a%", "ab", True),
        ("%b", "ab", True),
        ("%a%", "bab", True),
        ("a%a", "a", False),  # the ends do not overlap
        ("a%a", "aa", True),
        ("a%b%c", "abbc", True),
        ("%a%b%", "ba", False),
        ("_", "\n", True),
        ("_", "", False),
        ("_%_", "a", False),
        ("_%_", "ab", True),
        ("%_a_%", "xaax", True),
        ("%_a_%_b", "xaxb", False),
        ("%_a_%_b", "xaxxb", True),
        ("a_%_c", "axxc", True),
        ("a_%_c", "bxxc", False),
        ("a_%_c", "axxd", False),
        ("a_%_c", "axc", False),
        ("a.b", "axb", False),
        ("[a]*?", "[a]x", True),
        ("\\%", "\\a", True),
    ],
)
def test_like(pattern: str, text: str, expected: bool) -> None:
    assert verdict("s LIKE %0".replace("%0", f"'{pattern}'"), s=text) is expected
    assert verdict("s LIKE p", s=text, p=pattern) is expected


def test_like_is_unknown_past_its_budget() -> None:
    limits = Limits(predicate_like_count=1_000)
    one, two = (
        compile_predicate(parse(text), limits=limits)
        for text in ("s LIKE '%a_b%'", "s LIKE '%a_b%' OR s LIKE '%c_d%'")
    )
    row = MappingFields({"s": "x" * 300 + "acb"})
    assert one(row) is True
    assert two(row) is None  # they share it
    assert compile_predicate(parse("s LIKE '%acb%'"), limits=limits)(row) is True  # linear
    long_pattern = MappingFields({"s": "a", "p": "%" * 5_000})
    assert compile_predicate(parse("s LIKE p"))(long_pattern) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("length(s) = 5", True),
        ("length(n) = 2", None),
        ("lower(s) = 'music'", True),
        ("lower(n) = '1'", None),
        ("abs(n) = 2", True),
        ("abs(s) = 2", None),
        ("abs(b) = 1", None),
        ("exists(s)", True),
        ("exists(missing)", False),
        ("NOT exists(none)", True),
        ("length(missing) = 1", None),
        ("inRange(here, there, 800)", True),
        ("inRange(here, there, 743.9)", False),
        ("inRange(here, there, '800')", None),
        ("inRange(here, there, -1)", False),
        ("inRange(flat, '0,4', 5)", True),
        ("inRange(flat, '0,4', 4.9)", False),
        ("inRange(flat, '0,4,0', 5)", None),  # two and three dimensions
        ("inRange(space, flat, 5)", None),
        ("inRange(space, '3,0,12', 13)", True),
        ("inRange(list, '3,4', 5)", True),
        ("inRange(list, here, 1e9)", True),  # the one that has names says what they are
        ("inRange(here, flat, 1e9)", None),
        ("inRange(here, '1,2,3', 1e9)", None),
        ("inRange(half, here, 1e9)", None),
        ("inRange(broken, here, 1e9)", None),
        ("inRange(n, here, 1e9)", None),
        ("inRange(s, here, 1e9)", None),
        ("inRange('1', here, 1e9)", None),
        ("inRange(endless, here, 1e9)", None),
        ("inRange(here, there, 800) = TRUE", True),
    ],
)
def test_functions(text: str, expected: bool | None) -> None:
    row = {
        "s": "MUSIC",
        "n": -2,
        "b": True,
        "none": None,
        "here": {"lat": 48.0, "lon": 2.0},
        "there": {"lat": 48.0, "lon": 2.01},
        "flat": {"x": 3.0, "y": 0},
        "space": {"x": 0, "y": 4, "z": 0},
        "list": [0, 0],
        "half": {"lat": 48.0},
        "broken": {"lat": 48.0, "lon": "2"},
        "endless": {"lat": math.inf, "lon": 0},
    }
    assert verdict(text, **row) is expected


def test_functions_of_yours() -> None:
    def fails(value: object) -> object:
        raise ZeroDivisionError

    mine = STANDARD.extended(
        fails=Function(fails, 1),
        first=Function(lambda text: text[0], 1, Kind.TEXT),
        either=Function(lambda a, b: a or b, 2, takes_missing=True),
    )
    row = MappingFields({"s": "abc", "n": 1, "yes": True})

    def said(text: str) -> bool | None:
        return compile_predicate(parse(text, functions=mine), functions=mine)(row)

    assert said("first(s) = 'a'") is True
    assert said("first(n) = 'a'") is None
    assert said("fails(s)") is None
    assert said("either(missing, yes)") is True
    assert said("either(missing, n)") is None  # 1 is no truth value
    with pytest.raises(UnsupportedPredicateError, match="there is no function 'first'"):
        compile_predicate(parse("first(s) = 'a'", functions=mine))
    assert len(mine) == 8


def test_and_stops_at_false_and_or_at_true() -> None:
    asked = []

    class Watched:
        def field(self, path: tuple[str | int, ...]) -> object:
            asked.append(path)
            return 1

    test = compile_predicate(parse("(a = 0 AND b = 1) OR (c = 1 OR d = 1)"))
    assert test(Watched()) is True
    assert asked == [("a",), ("c",)]


def test_the_empty_predicate_is_true() -> None:
    assert verdict("") is True
    assert verdict("  \n") is True
    assert all_of([]) == ALWAYS == parse("")


def test_trees_made_by_hand_have_the_same_bounds() -> None:
    leaf = parse("a = 1")
    tree = leaf
    for _ in range(33):
        tree = Not(tree)
    with pytest.raises(LimitError, match="predicate_depth allows 32, got 33"):
        compile_predicate(tree)
    with pytest.raises(LimitError, match="predicate_nodes_count allows 4096"):
        compile_predicate(Or((leaf,) * 1_366))
    compile_predicate(Or((*(leaf,) * 1_364, Not(parse("exists(a)")))))  # 4096 nodes


@pytest.mark.parametrize(
    "build",
    [
        lambda: Literal(math.inf),
        lambda: Literal(math.nan),
        lambda: Literal(b"a"),  # type: ignore[arg-type]
        lambda: Field(()),
        lambda: Field((1, "a")),
        lambda: And((parse("a = 1"),)),
        lambda: Or(()),
        lambda: Or((parse("a = 1"), ALWAYS)),
        lambda: Not(ALWAYS),
    ],
)
def test_what_cannot_be_written_cannot_be_built(build: object) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match=r"a literal|a field|junction|empty"):
        build()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1and b  =2", "a = 1 AND b = 2"),
        ("((a = 1 AND (b = 2 AND c = 3)))", "a = 1 AND b = 2 AND c = 3"),
        ("a = 1 OR (b = 2 AND c = 3)", "a = 1 OR b = 2 AND c = 3"),
        ("(a = 1 OR b = 2) AND c = 3", "(a = 1 OR b = 2) AND c = 3"),
        ("not not (a != 0x10)", "NOT NOT a <> 16"),
        ("a not between +1 and 1.50", "a NOT BETWEEN 1 AND 1.5"),
        ('"a b".c = true', '"a b".c = TRUE'),
        ('"a" = 1', "a = 1"),
        ("a.like = 'it''s'", "a.\"like\" = 'it''s'"),
        ('"x""y"[007] = false', '"x""y"[7] = FALSE'),
        ("a liKe 'x'", "a LIKE 'x'"),
        ("lıke = 1", '"lıke" = 1'),  # no keyword, though Python's upper() makes it one
        ("exists( a.b )", "exists(a.b)"),
        ("inRange(a,%0,%07)", "inRange(a, %0, %7)"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_literals_of_different_kinds_differ() -> None:
    assert len({Literal(1), Literal(1.0), Literal(True), Literal("1")}) == 4
    assert Call("exists", (Field(("a",), at=3),)) == Call("exists", (Field(("a",)),), at=9)
    assert Comparison(Field(("a",)), Relation.EQUAL, Literal(1)) == parse("a = 1")

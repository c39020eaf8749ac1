"""Laws of predicates: canonical text, three-valued logic, SQLite and Arrow agree."""

from __future__ import annotations

import contextlib
import math
import pickle
import random
import re
import sqlite3
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies_predicate import (
    FLOATS,
    INTEGERS,
    LITERALS,
    RELATIONS,
    TEXTS,
    any_predicates,
    comparisons,
    predicates,
)

from elea.errors import LimitError, UnsupportedPredicateError
from elea.predicate import MappingFields, compile_predicate, parse, split, to_arrow
from elea.predicate.like import matcher
from elea.predicate.model import (
    And,
    Between,
    Call,
    Comparison,
    Field,
    Literal,
    Not,
    Or,
    Predicate,
    Relation,
    depth_of,
)


@given(any_predicates())
def test_the_canonical_text_reads_back(predicate: Predicate) -> None:
    text = str(predicate)
    if depth_of(predicate) > 32 or len(text.encode("utf-8", "surrogatepass")) > 4_096:
        with pytest.raises(LimitError):
            parse(text)
        return
    again = parse(text)
    assert again == predicate
    assert str(again) == text
    assert hash(again) == hash(predicate)
    assert pickle.loads(pickle.dumps(predicate)) == predicate


@given(st.text(st.sampled_from("ab %_*?.'\"()[]<>=!,0123x-eANDORT"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        predicate = parse(text)
    except ValueError:
        return
    assert parse(str(predicate)) == predicate


# --- the logic, against its definition ------------------------------------------------------------

TRUTH = {True: 1.0, None: 0.5, False: 0.0}
VERDICT = {number: verdict for verdict, number in TRUTH.items()}
FLAGS = {"t": 1, "f": 0, "u": None}


def lukasiewicz(predicate: Predicate) -> float:
    """Truth as a number: AND is the least, OR the greatest, NOT what is left to one."""
    match predicate:
        case And():
            return min(map(lukasiewicz, predicate.terms))
        case Or():
            return max(map(lukasiewicz, predicate.terms))
        case Not():
            return 1 - lukasiewicz(predicate.term)
        case Comparison(left=Field() as field):
            flag = FLAGS[str(field)]
            return TRUTH[None if flag is None else flag == 1]
    raise AssertionError(predicate)


@given(
    predicates(
        st.sampled_from("tfu").map(
            lambda name: Comparison(Field((name,)), Relation.EQUAL, Literal(1))
        )
    )
)
def test_three_valued_logic(predicate: Predicate) -> None:
    verdict = compile_predicate(predicate)(MappingFields(FLAGS))
    assert verdict is VERDICT[lukasiewicz(predicate)]


@given(TEXTS, TEXTS)
def test_like_is_what_a_regular_expression_says(pattern: str, text: str) -> None:
    expression = "".join(".*" if c in "%*" else "." if c in "_?" else re.escape(c) for c in pattern)
    expected = re.fullmatch(expression, text, re.DOTALL) is not None
    assert matcher(pattern, 10**6)(text) is expected


# --- SQLite ---------------------------------------------------------------------------------------

SQLITE_VALUES: dict[str, list[object]] = {
    "i": [None, -3, 0, 1, 2, 2**53 + 1, -(2**62)],
    "j": [None, -3, 0, 1, 2],
    "x": [None, 0.0, -1.5, 0.5, 2.0, 1e22],
    "s": [None, "", "a", "ab", "Ab", "aab", "é\n", "a%b", "a*", "\\"],
    "t": [None, "", "a", "ab", "a%", "_b", "%é_", "b%b"],
}


def rows_of(values: dict[str, list[object]], count: int) -> list[dict[str, object]]:
    """Rows in which every value meets many others, the same each time."""
    chance = random.Random(1)
    return [{name: chance.choice(some) for name, some in values.items()} for _ in range(count)]


SQLITE_ROWS = rows_of(SQLITE_VALUES, 60)


def fields(*names: str) -> st.SearchStrategy[Field]:
    return st.sampled_from([Field((name,)) for name in names])


def sqlite_predicates() -> st.SearchStrategy[Predicate]:
    """What means the same to SQLite: kinds do not mix, LIKE has `%` and `_` alone."""
    integers = fields("i", "j") | INTEGERS.map(Literal)
    floats = fields("x") | FLOATS.map(Literal)
    texts = fields("s", "t") | st.sampled_from(["", "a", "ab", "it's", "é"]).map(Literal)
    patterns = st.text(st.sampled_from("%_ab"), max_size=5).map(Literal)
    likes = st.builds(Comparison, fields("s", "t"), st.just(Relation.LIKE), patterns | fields("t"))
    lengths = st.builds(lambda field: Call("length", (field,)), fields("s", "t"))
    return predicates(
        st.one_of(comparisons(integers | lengths), comparisons(floats), comparisons(texts), likes)
    )


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")
        connection.execute("CREATE TABLE r (i INTEGER, j INTEGER, x REAL, s TEXT, t TEXT)")
        connection.executemany("INSERT INTO r VALUES (:i, :j, :x, :s, :t)", SQLITE_ROWS)
        yield connection


@given(sqlite_predicates())
def test_sqlite_agrees(database: sqlite3.Connection, predicate: Predicate) -> None:
    found = [row[0] for row in database.execute(f"SELECT {predicate} FROM r ORDER BY rowid")]
    test = compile_predicate(predicate)
    verdicts = [test(MappingFields(row)) for row in SQLITE_ROWS]
    assert verdicts == [None if one is None else bool(one) for one in found]


# --- Arrow ----------------------------------------------------------------------------------------

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "k": pa.int8(),
        "u": pa.uint64(),
        "x": pa.float64(),
        "y": pa.float32(),
        "b": pa.bool_(),
        "s": pa.string(),
        "d": pa.dictionary(pa.int32(), pa.string()),
        "l": pa.large_string(),
        "n": pa.null(),
        "c": pa.struct({"s": pa.string(), "i": pa.int32()}),
        "a": pa.list_(pa.int64()),
        "o": pa.binary(),
    }
)
_FLOATS: list[object] = [None, 0.0, -0.0, -1.5, 0.5, 2.0, math.nan, math.inf, 2.0**53]
_TEXTS: list[object] = [None, "", "a", "ab", "aab", "é\n", "a%b", "a*", "\\", "\\%", "\0a", "_"]
ARROW_TABLE = pa.Table.from_pylist(
    rows_of(
        {
            "i": [None, -3, 0, 1, 2, 2**53 + 1, -(2**63), 2**63 - 1],
            "k": [None, -3, 0, 1, 2, -128],
            "u": [None, 0, 1, 2, 2**64 - 1],
            "x": _FLOATS,
            "y": _FLOATS,
            "b": [None, True, False],
            "s": _TEXTS,
            "d": _TEXTS,
            "l": _TEXTS,
            "n": [None],
            "c": [None, {"s": None, "i": 1}, {"s": "ab", "i": None}, {"s": "a", "i": 2}],
            "a": [None, [], [1], [None, 2]],
            "o": [None, b"a"],
        },
        60,
    ),
    SCHEMA,
)
ARROW_ROWS = ARROW_TABLE.to_pylist()  # a float32 is what the column holds, not what was given
ARROW_FIELDS = st.sampled_from(
    [
        *((name,) for name in SCHEMA.names),
        *(("c", "s"), ("c", "i"), ("c", "z"), ("s", "z"), ("a", 0), ("missing",), ("c", "s", "z")),
    ]
).map(Field)


def arrow_predicates() -> st.SearchStrategy[Predicate]:
    called = st.builds(
        lambda name, field: Call(name, (field,)),
        st.sampled_from(["length", "abs", "lower"]),
        ARROW_FIELDS,
    )
    numbers = st.sampled_from([2**53, 2**53 + 1, 2**63, -(2**63), 2**64, 10**400]).map(Literal)
    operands = st.one_of(ARROW_FIELDS, ARROW_FIELDS, LITERALS, LITERALS, called, numbers)
    likes = st.builds(Comparison, operands, st.just(Relation.LIKE), operands)
    exists = ARROW_FIELDS.map(lambda field: Call("exists", (field,)))
    between = st.builds(Between, operands, operands, operands, st.booleans())
    return predicates(st.one_of(comparisons(operands, RELATIONS), between, likes, exists))


def selected(predicate: Predicate) -> dict[bool | None, list[int]]:
    """Row numbers by verdict, as Arrow has them."""
    numbers = pa.array(range(ARROW_TABLE.num_rows))
    table = ARROW_TABLE.append_column("row", numbers)
    expression = to_arrow(predicate, SCHEMA)
    true = table.filter(expression)["row"].to_pylist()
    false = table.filter(~expression)["row"].to_pylist()
    rows = set(range(table.num_rows))
    return {True: true, False: false, None: sorted(rows - {*true} - {*false})}


def expected(predicate: Predicate) -> dict[bool | None, list[int]]:
    """The same, row by row."""
    test = compile_predicate(predicate)
    found: dict[bool | None, list[int]] = {True: [], False: [], None: []}
    for number, row in enumerate(ARROW_ROWS):
        found[test(MappingFields(row))].append(number)
    return found


@given(arrow_predicates())
def test_arrow_agrees(predicate: Predicate) -> None:
    parts = split(predicate, SCHEMA)
    assert selected(parts.arrow) == expected(parts.arrow)
    both = {*expected(parts.arrow)[True]} & {*expected(parts.rest)[True]}
    assert sorted(both) == expected(predicate)[True]
    try:
        to_arrow(predicate, SCHEMA)
    except UnsupportedPredicateError:
        assert str(parts.rest)
    else:
        assert parts.arrow == predicate

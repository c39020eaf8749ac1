"""Hypothesis strategies for predicates, over the fields that each test has."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from elea.predicate.model import (
    ALWAYS,
    And,
    Between,
    Call,
    Comparison,
    Field,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    Relation,
)

TEXTS = st.text(st.sampled_from("ab%_*?'\\é\n. \x00"), max_size=6)
INTEGERS = st.integers(-3, 3)
FLOATS = st.sampled_from([0.0, -1.5, 0.5, 2.0, 1e22])
LITERALS = st.one_of(st.booleans(), INTEGERS, FLOATS, TEXTS).map(Literal)
RELATIONS = [relation for relation in Relation if relation is not Relation.LIKE]


def comparisons(
    operands: st.SearchStrategy[Operand], relations: Sequence[Relation] = RELATIONS
) -> st.SearchStrategy[Predicate]:
    """Comparisons and ranges of these operands."""
    compared = st.builds(Comparison, operands, st.sampled_from(relations), operands)
    between = st.builds(Between, operands, operands, operands, st.booleans())
    return st.one_of(compared, compared, between)


def predicates(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    """Trees over these leaves."""

    def combined(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        terms = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.one_of(st.builds(Not, inner), st.builds(And, terms), st.builds(Or, terms))

    return st.recursive(leaves, combined, max_leaves=8)


_CHARACTERS = st.sampled_from("aZ_9 .'\"%\\éıΣ²\n\0\ud800\U0001f600")
_NAMES = st.sampled_from(["a", "and", "Like", "select", "x.y"]) | st.text(
    _CHARACTERS, min_size=1, max_size=4
)
_STEPS = st.lists(_NAMES | st.integers(0, 99), max_size=3)
_VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(_CHARACTERS, max_size=6),
)


@st.composite
def any_operands(draw: st.DrawFn, depth: int = 2) -> Operand:
    """Fields, literals, and calls of both and of calls."""
    choice = draw(st.integers(0, 4 if depth else 3))
    if choice < 2:
        return Field((draw(_NAMES), *draw(_STEPS)))
    if choice < 4:
        return Literal(draw(_VALUES))
    name = draw(st.sampled_from(["length", "abs", "lower", "exists", "inRange"]))
    inner = any_operands(depth - 1)
    return Call(name, tuple(draw(inner) for _ in range(3 if name == "inRange" else 1)))


def any_predicates() -> st.SearchStrategy[Predicate]:
    """Whatever can be written."""
    operands = any_operands()
    conditions = st.builds(Call, st.sampled_from(["exists", "abs"]), st.tuples(operands))
    leaves = st.one_of(comparisons(operands, list(Relation)), conditions)
    return st.one_of(st.just(ALWAYS), predicates(leaves), predicates(leaves))

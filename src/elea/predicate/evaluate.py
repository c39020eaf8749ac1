"""From a tree to a function that says true, false or unknown of some data.

The tree is turned into closures once; then a sample costs a look-up and a comparison per node that
matters. Unknown is None. It comes from what is missing, what is null, and comparisons between kinds
that do not compare; NOT, AND and OR treat it as three-valued logic does. Nothing raises on data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from elea.decode.paths import Path, follow
from elea.decode.values import Enumerator
from elea.errors import LimitError, PredicateError, UnsupportedPredicateError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.functions import STANDARD, Functions
from elea.predicate.like import cached_matcher, matcher
from elea.predicate.model import (
    And,
    Between,
    Call,
    Comparison,
    Field,
    Literal,
    Not,
    Operand,
    Or,
    Parameter,
    Predicate,
    Relation,
    depth_of,
    walk,
)


class Fields(Protocol):
    """What a predicate looks at: values by their path; None for what is not there."""

    def field(self, path: Path) -> object:
        """The value there: bool, int, float, str, Enumerator, dict, list; or anything else."""


Verdict: TypeAlias = bool | None
Test: TypeAlias = Callable[[Fields], Verdict]
_Getter: TypeAlias = Callable[[Fields], object]

_NUMBERS: Final[dict[Relation, Callable[[float, float], bool]]] = {
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
    Relation.LESS: operator.lt,
    Relation.LESS_OR_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_OR_EQUAL: operator.ge,
}
_TEXTS: Final[dict[Relation, Callable[[str, str], bool]]] = {
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
    Relation.LESS: operator.lt,
    Relation.LESS_OR_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_OR_EQUAL: operator.ge,
}
_MIRRORED: Final = {
    Relation.EQUAL: Relation.EQUAL,
    Relation.UNEQUAL: Relation.UNEQUAL,
    Relation.LESS: Relation.GREATER,
    Relation.LESS_OR_EQUAL: Relation.GREATER_OR_EQUAL,
    Relation.GREATER: Relation.LESS,
    Relation.GREATER_OR_EQUAL: Relation.LESS_OR_EQUAL,
}


@dataclass(frozen=True, slots=True)
class MappingFields:
    """The fields of a mapping, such as a row: every root is one of its names.

    Example:
        >>> MappingFields({"loc": {"lat": 48.0}, "tags": ["a", "b"]}).field(("tags", 1))
        'b'
    """

    mapping: Mapping[str, object]

    def field(self, path: Path) -> object:
        """The value there, or None."""
        root = path[0]
        assert isinstance(root, str)
        value = self.mapping.get(root)
        return value if len(path) == 1 else follow(value, path[1:])


def compile_predicate(
    predicate: Predicate, *, functions: Functions = STANDARD, limits: Limits = DEFAULT_LIMITS
) -> Test:
    """A function from fields to true, false or None for unknown.

    Raises:
        PredicateError: a parameter has no value.
        UnsupportedPredicateError: a function is not in the registry.
        LimitError: the tree has too many nodes, or is too deep.

    Example:
        >>> from elea.predicate.parser import parse
        >>> test = compile_predicate(parse("temp > 20 AND room LIKE 'mu%'"))
        >>> test(MappingFields({"temp": 21, "room": "music"})), test(MappingFields({"temp": 21}))
        (True, None)
    """
    nodes = list(walk(predicate))
    if len(nodes) > limits.predicate_nodes_count:
        raise LimitError("predicate_nodes_count", len(nodes), limits.predicate_nodes_count)
    depth = depth_of(predicate)
    if depth > limits.predicate_depth:
        raise LimitError("predicate_depth", depth, limits.predicate_depth)
    likes = sum(isinstance(n, Comparison) and n.relation is Relation.LIKE for n in nodes)
    budget = limits.predicate_like_count // max(likes, 1)
    for node in nodes:
        if isinstance(node, Parameter):
            raise PredicateError(str(predicate), 0, f"{node} has no value; give it when parsing")
        if isinstance(node, Call) and node.name not in functions:
            reason = f"there is no function {node.name!a}; there are {', '.join(sorted(functions))}"
            raise UnsupportedPredicateError(str(predicate), 0, reason)
    return _Compiler(functions, budget, limits.predicate_len).test(predicate)


def compare(relation: Relation, left: object, right: object) -> Verdict:
    """How two values stand to each other; None if their kinds do not compare. Not for LIKE.

    Example:
        >>> compare(Relation.LESS, 1, 1.5), compare(Relation.LESS, 1, "a")
        (True, None)
    """
    if isinstance(left, bool) or isinstance(right, bool):
        # A boolean compares with booleans, and with the integers 0 and 1.
        if isinstance(left, int) and isinstance(right, int) and {left, right} <= {0, 1}:
            return _NUMBERS[relation](left, right)
        return None
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if isinstance(left, int) and isinstance(right, int):
            return _NUMBERS[relation](left, right)
        return _NUMBERS[relation](_as_float(left), _as_float(right))
    if isinstance(left, str) and isinstance(right, str):
        return _TEXTS[relation](left, right)
    if isinstance(left, Enumerator):
        number = _enumerated(left, right)
        return None if number is None else _NUMBERS[relation](left.number, number)
    if isinstance(right, Enumerator):
        return compare(_MIRRORED[relation], right, left)
    return None


def _enumerated(left: Enumerator, right: object) -> int | None:
    """The other side of a comparison with an enumerator, as a number of the same enumeration."""
    if isinstance(right, Enumerator):
        return right.number if right.members == left.members else None
    return left.members.get(right) if isinstance(right, str) else _integer(right)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _as_float(number: float) -> float:
    """An integer as a float; one that is larger than all of them is infinite."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


class _Compiler:
    """Closures for nodes."""

    __slots__ = ("_budget", "_functions", "_pattern_len_max")

    def __init__(self, functions: Functions, budget: int, pattern_len_max: int) -> None:
        self._functions = functions
        self._budget = budget
        self._pattern_len_max = pattern_len_max

    def test(self, predicate: Predicate) -> Test:
        match predicate:
            case And():
                return _conjunction([self.test(term) for term in predicate.terms])
            case Or():
                return _disjunction([self.test(term) for term in predicate.terms])
            case Not():
                return _negation(self.test(predicate.term))
            case Between():
                operand, low, high = predicate.operand, predicate.low, predicate.high
                inside = _conjunction(
                    [
                        self._comparison(Comparison(operand, Relation.GREATER_OR_EQUAL, low)),
                        self._comparison(Comparison(operand, Relation.LESS_OR_EQUAL, high)),
                    ]
                )
                return _negation(inside) if predicate.negated else inside
            case Comparison():
                return self._comparison(predicate)
            case Call():
                return _truth(self._getter(predicate))

    def _comparison(self, comparison: Comparison) -> Test:
        left, relation, right = comparison.left, comparison.relation, comparison.right
        if relation is Relation.LIKE:
            return self._like(left, right)
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, relation, right = right, _MIRRORED[relation], left
        get = self._getter(left)
        if isinstance(right, Literal):
            return _against_literal(get, relation, right.value)
        get_other = self._getter(right)
        return lambda fields: compare(relation, get(fields), get_other(fields))

    def _like(self, left: Operand, right: Operand) -> Test:
        get, budget, len_max = self._getter(left), self._budget, self._pattern_len_max
        if isinstance(right, Literal):
            if not isinstance(right.value, str):
                return lambda fields: None
            is_like = matcher(right.value, budget)

            def test(fields: Fields) -> Verdict:
                text = get(fields)
                return is_like(text) if isinstance(text, str) else None

            return test
        get_pattern = self._getter(right)

        def test_pattern(fields: Fields) -> Verdict:
            text, pattern = get(fields), get_pattern(fields)
            if not isinstance(text, str) or not isinstance(pattern, str):
                return None
            return cached_matcher(pattern, budget)(text) if len(pattern) <= len_max else None

        return test_pattern

    def _getter(self, operand: Operand) -> _Getter:
        match operand:
            case Field():
                path = operand.path
                return lambda fields: fields.field(path)
            case Literal():
                value = operand.value
                return lambda fields: value
            case Call():
                return self._call(operand)
            case Parameter():
                raise AssertionError("looked for before")

    def _call(self, call: Call) -> _Getter:
        function = self._functions[call.name]
        invoke, takes_missing = function.call, function.takes_missing
        getters = [self._getter(argument) for argument in call.arguments]

        def result(fields: Fields) -> object:
            arguments = [get(fields) for get in getters]
            if not takes_missing and any(argument is None for argument in arguments):
                return None
            try:
                return invoke(*arguments)
            except (ValueError, TypeError, ArithmeticError, LookupError):
                return None

        return result


def _against_literal(get: _Getter, relation: Relation, literal: bool | int | float | str) -> Test:
    """The usual comparison, without asking again what the literal is."""
    if isinstance(literal, str):
        as_text, text = _TEXTS[relation], literal

        def test_text(fields: Fields) -> Verdict:
            value = get(fields)
            return as_text(value, text) if type(value) is str else compare(relation, value, text)

        return test_text
    as_number = _NUMBERS[relation]
    floated = _as_float(literal)
    if type(literal) is int:
        integer = literal

        def test_integer(fields: Fields) -> Verdict:
            value = get(fields)
            if type(value) is int:
                return as_number(value, integer)
            if type(value) is float:
                return as_number(value, floated)
            return compare(relation, value, integer)

        return test_integer

    def test_other(fields: Fields) -> Verdict:
        value = get(fields)
        if type(value) is float and type(literal) is float:
            return as_number(value, floated)
        return compare(relation, value, literal)

    return test_other


def _conjunction(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def test(fields: Fields) -> Verdict:
        verdict: Verdict = True
        for one in tests:
            found = one(fields)
            if found is False:
                return False
            if found is None:
                verdict = None
        return verdict

    return test


def _disjunction(tests: list[Test]) -> Test:
    def test(fields: Fields) -> Verdict:
        verdict: Verdict = False
        for one in tests:
            found = one(fields)
            if found:
                return True
            if found is None:
                verdict = None
        return verdict

    return test


def _negation(test: Test) -> Test:
    def negated(fields: Fields) -> Verdict:
        found = test(fields)
        return None if found is None else not found

    return negated


def _truth(get: _Getter) -> Test:
    def test(fields: Fields) -> Verdict:
        value = get(fields)
        return value if isinstance(value, bool) else None

    return test

"""Predicates over the columns of Arrow tables, with the same verdicts.

`to_arrow` translates a predicate where Arrow's kernels give exactly what the closures of
`evaluate` give, unknown included; `split` cuts a conjunction into a part that can be translated and
a rest. What cannot: subscripts, `inRange`, `lower`, comparisons between columns of kinds that only
rows can tell, numbers that a column's type does not hold. pyarrow is loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.decode.paths import Path
from elea.decode.values import Kind
from elea.errors import MissingDependencyError, UnsupportedPredicateError
from elea.predicate.evaluate import MappingFields, compile_predicate
from elea.predicate.functions import STANDARD, Functions
from elea.predicate.like import canonical_pattern
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
    all_of,
    walk,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_UINT64_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Split:
    """A predicate in two: selected is what both parts are true for."""

    arrow: Predicate  # `to_arrow` takes it
    rest: Predicate  # for `compile_predicate`, row by row


def to_arrow(
    predicate: Predicate, schema: pa.Schema, *, functions: Functions = STANDARD
) -> pc.Expression:
    """The predicate as an expression over the columns of a schema; null is unknown.

    A field that is no column is unknown in every row.

    Raises:
        UnsupportedPredicateError: Arrow cannot do it with the same verdicts.
        MissingDependencyError: pyarrow is not installed.

    Example:
        >>> import pyarrow as pa
        >>> from elea.predicate.parser import parse
        >>> table = pa.table({"temp": [19, 21, None], "room": ["a", "music", "music"]})
        >>> test = to_arrow(parse("temp > 20 AND room LIKE 'mu%'"), table.schema)
        >>> table.filter(test).to_pylist()
        [{'temp': 21, 'room': 'music'}]
    """
    try:
        return _Translator(schema, functions).test(predicate)
    except _NoExpression as error:
        raise UnsupportedPredicateError(str(predicate), 0, str(error)) from None


def split(predicate: Predicate, schema: pa.Schema, *, functions: Functions = STANDARD) -> Split:
    """Cut a predicate into what Arrow can do and what is left to do row by row.

    Raises:
        MissingDependencyError: pyarrow is not installed.

    Example:
        >>> import pyarrow as pa
        >>> from elea.predicate.parser import parse
        >>> schema = pa.schema({"temp": pa.int64(), "tags": pa.list_(pa.string())})
        >>> parts = split(parse("temp > 20 AND tags[0] = 'a'"), schema)
        >>> str(parts.arrow), str(parts.rest)
        ('temp > 20', "tags[0] = 'a'")
    """
    translator = _Translator(schema, functions)
    done: list[Predicate] = []
    rest: list[Predicate] = []
    for term in predicate.terms if isinstance(predicate, And) else (predicate,):
        try:
            translator.test(term)
        except _NoExpression:
            rest.append(term)
        else:
            done.append(term)
    return Split(all_of(done), all_of(rest))


class _NoExpression(Exception):  # noqa: N818 - caught in this module
    """Arrow has no expression with the same verdicts; why."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, or a member of one: how to get it, and what it is."""

    expression: pc.Expression
    kind: Kind
    unsigned: bool = False  # of 64 bits: not every value fits in an int64


class _Translator:
    """Expressions for nodes."""

    __slots__ = ("_functions", "_pa", "_pc", "_schema")

    def __init__(self, schema: pa.Schema, functions: Functions) -> None:
        try:
            # Late: predicates work without pyarrow.
            import pyarrow as pa
            import pyarrow.compute as pc
        except ImportError:
            raise MissingDependencyError("predicates over Arrow tables", "arrow") from None
        self._pa, self._pc = pa, pc
        self._schema = schema
        self._functions = functions

    def test(self, predicate: Predicate) -> pc.Expression:
        if predicate == ALWAYS or not any(isinstance(node, Field) for node in walk(predicate)):
            return self._constant(predicate)
        match predicate:
            case And():
                return self._fold(predicate.terms, lambda a, b: a & b)
            case Or():
                return self._fold(predicate.terms, lambda a, b: a | b)
            case Not():
                return ~self.test(predicate.term)
            case Between():
                low = Comparison(predicate.operand, Relation.GREATER_OR_EQUAL, predicate.low)
                high = Comparison(predicate.operand, Relation.LESS_OR_EQUAL, predicate.high)
                inside = self.test(low) & self.test(high)
                return ~inside if predicate.negated else inside
            case Comparison():
                return self._comparison(predicate)
            case Call():
                return self._condition(predicate)

    def _fold(
        self,
        terms: tuple[Predicate, ...],
        combine: Callable[[pc.Expression, pc.Expression], pc.Expression],
    ) -> pc.Expression:
        """Halves of halves: a chain of a thousand terms would be a thousand levels deep."""
        if len(terms) == 1:
            return self.test(terms[0])
        middle = len(terms) // 2
        return combine(self._fold(terms[:middle], combine), self._fold(terms[middle:], combine))

    def _constant(self, predicate: Predicate) -> pc.Expression:
        verdict = compile_predicate(predicate, functions=self._functions)(MappingFields({}))
        return self._pc.scalar(self._pa.scalar(verdict, self._pa.bool_()))

    def _unknown(self) -> pc.Expression:
        return self._pc.scalar(self._pa.scalar(None, self._pa.bool_()))

    def _condition(self, call: Call) -> pc.Expression:
        [argument] = call.arguments if len(call.arguments) == 1 else [None]
        if self._functions.get(call.name) is STANDARD["exists"] and isinstance(argument, Field):
            found = self._resolve(argument.path)
            if found is None:
                return self._pc.scalar(False)
            return found[0].is_valid()
        raise _NoExpression(f"{call.name}() is done row by row")

    def _comparison(self, comparison: Comparison) -> pc.Expression:
        left, right = self._operand(comparison.left), self._operand(comparison.right)
        if left is None or right is None:
            return self._unknown()
        if comparison.relation is Relation.LIKE:
            return self._like(left, right)
        return self._compare(comparison.relation, left, right)

    def _compare(
        self, relation: Relation, left: _Column | Literal, right: _Column | Literal
    ) -> pc.Expression:
        kinds = {left.kind, right.kind}
        if kinds == {Kind.INTEGER, Kind.FLOAT}:
            return self._apply(relation, self._floats(left), self._floats(right))
        if kinds == {Kind.BOOLEAN, Kind.INTEGER}:
            return self._apply(relation, self._booleans(left), self._booleans(right))
        if len(kinds) > 1 or kinds & {Kind.STRUCTURE, Kind.LIST, Kind.BYTES}:
            return self._unknown()
        if kinds == {Kind.INTEGER}:
            unsigned = any(isinstance(side, _Column) and side.unsigned for side in (left, right))
            return self._apply(
                relation, self._integers(left, unsigned), self._integers(right, unsigned)
            )
        return self._apply(relation, self._same(left), self._same(right))

    def _apply(
        self, relation: Relation, left: pc.Expression, right: pc.Expression
    ) -> pc.Expression:
        match relation:
            case Relation.EQUAL:
                return left == right
            case Relation.UNEQUAL:
                return left != right
            case Relation.LESS:
                return left < right
            case Relation.LESS_OR_EQUAL:
                return left <= right
            case Relation.GREATER:
                return left > right
            case _:
                return left >= right

    def _like(self, left: _Column | Literal, right: _Column | Literal) -> pc.Expression:
        if left.kind is not Kind.TEXT or right.kind is not Kind.TEXT:
            return self._unknown()
        if isinstance(right, _Column) or isinstance(left, Literal):
            raise _NoExpression("a pattern that is a column is done row by row")
        assert isinstance(right.value, str)
        pattern = canonical_pattern(right.value).replace("\\", "\\\\")
        self._same(right)  # a text that Arrow cannot hold is refused there
        return self._pc.match_like(left.expression, pattern)

    def _operand(self, operand: Operand) -> _Column | Literal | None:
        match operand:
            case Literal():
                return operand
            case Field():
                found = self._resolve(operand.path)
                return None if found is None else self._column(*found)
            case Call():
                return self._call(operand)
            case _:
                raise _NoExpression(f"{operand} has no value; give it when parsing")

    def _call(self, call: Call) -> _Column | None:
        [argument] = call.arguments if len(call.arguments) == 1 else [None]
        function = self._functions.get(call.name)
        if not isinstance(argument, Field):
            raise _NoExpression(f"{call.name}() of this is done row by row")
        inner = self._operand(argument)
        if inner is None and function in (STANDARD["length"], STANDARD["abs"]):
            return None
        if not isinstance(inner, _Column):
            raise _NoExpression(f"{call.name}() of this is done row by row")
        if function is STANDARD["length"]:
            if inner.kind is not Kind.TEXT:
                return None
            return _Column(self._pc.utf8_length(inner.expression), Kind.INTEGER)
        # Of integers, the smallest has no positive counterpart of its type.
        if function is STANDARD["abs"] and inner.kind is Kind.FLOAT:
            return _Column(self._pc.abs(inner.expression), Kind.FLOAT)
        raise _NoExpression(f"{call.name}() of this is done row by row")

    def _resolve(self, path: Path) -> tuple[pc.Expression, pa.DataType] | None:
        """The column, or member of a struct, at a path; None if there is none."""
        names: list[str] = []
        fields = list(self._schema)
        data_type: pa.DataType | None = None
        for step in path:
            if isinstance(step, int):
                raise _NoExpression("subscripts are done row by row")
            if data_type is not None:
                if not self._pa.types.is_struct(data_type):
                    if self._pa.types.is_map(data_type):
                        raise _NoExpression("maps are looked into row by row")
                    return None
                fields = [data_type.field(index) for index in range(data_type.num_fields)]
            found = [field.type for field in fields if field.name == step]
            if len(found) > 1:
                raise _NoExpression(f"{len(found)} columns are named {step!a}")
            if not found:
                return None
            names.append(step)
            data_type = found[0]
        return self._pc.field(*names), data_type

    def _column(self, expression: pc.Expression, data_type: pa.DataType) -> _Column | None:
        pa, types = self._pa, self._pa.types
        if types.is_dictionary(data_type):
            data_type = data_type.value_type
            expression = expression.cast(data_type)
        if types.is_boolean(data_type):
            return _Column(expression, Kind.BOOLEAN)
        if types.is_uint64(data_type):
            return _Column(expression, Kind.INTEGER, unsigned=True)
        # No cast where none is needed: with one, files are read whose statistics rule them out.
        if types.is_integer(data_type):
            return _Column(expression, Kind.INTEGER)
        if types.is_float64(data_type):
            return _Column(expression, Kind.FLOAT)
        if types.is_float32(data_type):  # or the literal would be rounded
            return _Column(expression.cast(pa.float64()), Kind.FLOAT)
        if types.is_string(data_type) or types.is_large_string(data_type):
            return _Column(expression, Kind.TEXT)
        if types.is_null(data_type):
            return None
        if types.is_struct(data_type):
            return _Column(expression, Kind.STRUCTURE)
        raise _NoExpression(f"columns of type {data_type} are done row by row")

    def _floats(self, side: _Column | Literal) -> pc.Expression:
        if isinstance(side, Literal):
            assert isinstance(side.value, (int, float))
            try:
                return self._pc.scalar(float(side.value))
            except OverflowError:
                raise _NoExpression(f"{side} is larger than any float") from None
        if side.kind is Kind.FLOAT:
            return side.expression
        # As Python does: the nearest float, where an integer has more than 53 bits.
        return side.expression.cast(self._pa.float64(), safe=False)

    def _booleans(self, side: _Column | Literal) -> pc.Expression:
        if isinstance(side, Literal) and side.value in (0, 1):
            return self._pc.scalar(bool(side.value))
        if side.kind is Kind.BOOLEAN and isinstance(side, _Column):
            return side.expression
        raise _NoExpression("a boolean compares with 0 and 1 only; others are told row by row")

    def _integers(self, side: _Column | Literal, unsigned: bool) -> pc.Expression:
        low, high = (0, _UINT64_MAX) if unsigned else (_INT64_MIN, _INT64_MAX)
        if isinstance(side, _Column):
            if side.unsigned != unsigned:
                raise _NoExpression("signed and unsigned columns are compared row by row")
            return side.expression
        assert isinstance(side.value, int)
        if not low <= side.value <= high:
            raise _NoExpression(f"{side} does not fit into the column")
        kind = self._pa.uint64() if unsigned else self._pa.int64()
        return self._pc.scalar(self._pa.scalar(side.value, kind))

    def _same(self, side: _Column | Literal) -> pc.Expression:
        if isinstance(side, _Column):
            return side.expression
        try:
            return self._pc.scalar(side.value)
        except UnicodeEncodeError:
            raise _NoExpression(f"{side!a} is no UTF-8") from None

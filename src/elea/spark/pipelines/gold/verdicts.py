"""A predicate as a column of Spark: true, false, or null for unknown, as everywhere else.

What Spark's SQL says in the same way is SQL; the rest is done row by row in Python workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from elea.decode.paths import Path
from elea.decode.values import Kind
from elea.errors import ConfigError
from elea.predicate import MappingFields, Predicate, compile_predicate
from elea.predicate.like import canonical_pattern
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
    Relation,
    walk,
)

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_LONG_MAX: Final = 2**63


class _NoSqlError(Exception):
    """This is done row by row."""


def verdict(predicate: Predicate, schema: StructType, where: str) -> Column:
    """The predicate as a column.

    Raises:
        ConfigError: a column is not there.
    """
    roots = {node.path[0] for node in walk(predicate) if isinstance(node, Field)}
    missing = sorted(str(root) for root in roots if root not in schema.names)
    if missing:
        legal = ", ".join(schema.names)
        raise ConfigError(where, f"there is no column {', '.join(missing)}; legal are {legal}")
    try:
        return _Translator(schema).test(predicate)
    except _NoSqlError:
        return _row_by_row(predicate, sorted(str(root) for root in roots))


class _Translator:
    """Columns for nodes."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def test(self, predicate: Predicate) -> Column:
        from pyspark.sql import functions as sql

        match predicate:
            case And() | Or():
                found = [self.test(term) for term in predicate.terms]
                result = found[0] if found else sql.lit(True)
                for one in found[1:]:
                    result = result & one if isinstance(predicate, And) else result | one
                return result
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
                return self._call(predicate)

    def _call(self, call: Call) -> Column:
        [argument] = call.arguments if len(call.arguments) == 1 else [None]
        if call.name != "exists" or not isinstance(argument, Field):
            raise _NoSqlError
        column, _ = self._column(argument.path)
        return column.isNotNull()

    def _comparison(self, comparison: Comparison) -> Column:
        from pyspark.sql import functions as sql

        left, left_kind = self._operand(comparison.left)
        right, right_kind = self._operand(comparison.right)
        relation = comparison.relation
        if relation is Relation.LIKE:
            pattern = comparison.right
            if left_kind is not Kind.TEXT or not isinstance(pattern, Literal):
                raise _NoSqlError
            if not isinstance(pattern.value, str):
                raise _NoSqlError
            return left.like(canonical_pattern(pattern.value).replace("\\", "\\\\"))
        if left_kind is not right_kind:
            if {left_kind, right_kind} != {Kind.INTEGER, Kind.FLOAT}:
                raise _NoSqlError  # unknown, or booleans and numbers
            left, right = left.cast("double"), right.cast("double")
        found = _RELATIONS[relation](left, right)
        if Kind.FLOAT not in (left_kind, right_kind):
            return found
        # To Spark NaN is equal to itself and above all others; by IEEE 754 it is not.
        is_number = ~(sql.isnan(left.cast("double")) | sql.isnan(right.cast("double")))
        known = left.isNotNull() & right.isNotNull()
        if relation is Relation.UNEQUAL:
            return sql.when(known, found | ~is_number)
        return sql.when(known, found & is_number)

    def _operand(self, operand: Operand) -> tuple[Column, Kind]:
        from pyspark.sql import functions as sql

        if isinstance(operand, Field):
            return self._column(operand.path)
        if not isinstance(operand, Literal):
            raise _NoSqlError
        if isinstance(operand.value, int) and abs(operand.value) >= _LONG_MAX:
            raise _NoSqlError
        if isinstance(operand.value, float):
            return sql.lit(operand.value).cast("double"), Kind.FLOAT
        if operand.kind is Kind.INTEGER:
            return sql.lit(operand.value).cast("bigint"), Kind.INTEGER
        return sql.lit(operand.value), operand.kind

    def _column(self, path: Path) -> tuple[Column, Kind]:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import StructType

        at: DataType = self._schema
        names = []
        for step in path:
            if not isinstance(at, StructType) or not isinstance(step, str) or step not in at.names:
                raise _NoSqlError
            at = at[step].dataType
            names.append(f"`{step.replace('`', '``')}`")
        column = sql.col(".".join(names))
        name = at.typeName()
        kind = _KINDS.get(name)
        if kind is None:
            raise _NoSqlError
        return (column.cast("double") if name == "float" else column), kind


def _row_by_row(predicate: Predicate, names: list[str]) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # not in its stub

    test = compile_predicate(predicate)

    def over(rows: pa.Array) -> pa.Array:
        return pa.array([test(MappingFields(row)) for row in rows.to_pylist()], pa.bool_())

    column: Column = arrow_udf(over, "boolean")(sql.struct(*(f"`{name}`" for name in names)))
    return column


_KINDS: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.INTEGER),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    "string": Kind.TEXT,
    "boolean": Kind.BOOLEAN,
}
_RELATIONS: Final[dict[Relation, Callable[[Column, Column], Column]]] = {
    Relation.EQUAL: lambda left, right: left == right,
    Relation.UNEQUAL: lambda left, right: left != right,
    Relation.LESS: lambda left, right: left < right,
    Relation.LESS_OR_EQUAL: lambda left, right: left <= right,
    Relation.GREATER: lambda left, right: left > right,
    Relation.GREATER_OR_EQUAL: lambda left, right: left >= right,
}

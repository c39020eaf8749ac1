"""`ke_join`: rows of a DataFrame with the key expressions that their keys belong to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from elea import pure
from elea.errors import InvalidValueError
from elea.keyexpr.keyexpr import KeyExpr
from elea.spark.functions.matcher import RELATIONS, Matcher, Relation
from elea.spark.functions.shapes import Shape, shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Engine: TypeAlias = Literal["python", "compiled", "sql"]
ENGINES: Final = get_args(Engine)

_REST: Final = "(_exact and not contains({key}, '/@')) or {key} rlike _regex"


def ke_join(
    df: DataFrame,
    exprs: Sequence[str] | DataFrame,
    *,
    key: str = "key",
    expr: str = "expr",
    relation: Relation = "intersects",
    engine: Engine = "python",
    distinct: bool = False,
) -> DataFrame:
    """Each row once for every key expression that its key belongs to; an inner join.

    The distinct keys of each batch, on its way through a worker, are matched with a tree of all
    expressions, which travels to the workers once. Streams may be joined, too.

    Args:
        df: Any DataFrame with a column of keys. Rows whose key is null, or none, are left out.
        exprs: Key expressions, or a DataFrame with a column `expr`, whose other columns come along.
        key: The column of keys.
        expr: The column of the expression, in the result and in `exprs`.
        relation: See `Matcher`; it makes a difference only where keys have wildcards.
        engine: `python` matches in Python workers, by compiled code where Elea is compiled;
            `compiled` insists on that; `sql` stays in the JVM, and takes plain keys only.
        distinct: True if keys repeat often and `df` is no stream: its distinct keys are found
            first, matched, and joined back, by two shuffles; rows themselves go to no worker. `df`
            is read twice: cache it if that is dear.

    Raises:
        KeyExprError: one of `exprs` is no key expression.
        InvalidValueError: no such engine or relation, or a column is missing.
    """
    _check(df, key, expr, relation, engine)
    texts, others = _expressions(exprs, expr)
    keys = df.select(key).where(df[key].isNotNull()).distinct() if distinct else df
    if engine == "sql":
        pairs = _by_sql(keys, texts, key, expr)
    else:
        pairs = _by_matcher(keys, texts, key, expr, relation, compiled=engine == "compiled")
    joined = df.join(pairs, key) if distinct else pairs
    if others is None:
        return joined
    return joined.join(others, expr)


def _check(df: DataFrame, key: str, expr: str, relation: str, engine: str) -> None:
    if engine not in ENGINES:
        raise InvalidValueError("engine", f"saw {engine!a}; legal are {', '.join(ENGINES)}")
    if relation not in RELATIONS:
        raise InvalidValueError("relation", f"saw {relation!a}; legal are {', '.join(RELATIONS)}")
    if key not in df.columns:
        raise InvalidValueError("key", f"no column {key!a}; there are {', '.join(df.columns)}")
    if expr in df.columns:
        raise InvalidValueError("expr", f"{expr!a} is a column already; name another by expr=")


def _expressions(exprs: Sequence[str] | DataFrame, expr: str) -> tuple[list[str], DataFrame | None]:
    """The distinct expressions, checked; and what else there is to know of them."""
    if isinstance(exprs, str):
        raise InvalidValueError("exprs", "one text is no list of key expressions; write [text]")
    others = None
    if isinstance(exprs, Sequence):
        given: Sequence[object] = exprs
    else:
        if expr not in exprs.columns:
            raise InvalidValueError(
                "exprs", f"no column {expr!a}; there are {', '.join(exprs.columns)}"
            )
        given = [row[0] for row in exprs.select(expr).distinct().collect() if row[0] is not None]
        others = exprs if len(exprs.columns) > 1 else None
    return list(dict.fromkeys(str(KeyExpr(str(text))) for text in given)), others


def _by_matcher(
    keys: DataFrame, texts: list[str], key: str, expr: str, relation: Relation, *, compiled: bool
) -> DataFrame:
    """One row per pair, matched in Python workers."""
    from pyspark.sql import functions as sql

    known = tuple(texts)  # in the closure: Spark broadcasts one that is large

    def places(column: pa.Array) -> pa.Array:
        if compiled and not pure.is_compiled("elea.keyexpr.tree"):
            raise InvalidValueError(
                "engine", "saw 'compiled', and Elea is not compiled here; use engine='python'"
            )
        return _matcher(known, relation).match_lists(column)

    match = sql.arrow_udf(places, "array<int>")  # type: ignore[attr-defined]  # not in its stub
    # Workers answer with numbers, which are short.
    table = keys.sparkSession.createDataFrame(
        list(enumerate(texts)), f"_place int, `{expr}` string"
    )
    # Keys beside one another share chunks, which the matcher then reads once. Of whole rows, which
    # are dear to sort, those of one batch have to do.
    near = keys.sortWithinPartitions(key) if keys.columns == [key] else keys
    matched = near.select("*", sql.explode(match(sql.col(key))).alias("_place"))
    return matched.join(sql.broadcast(table), "_place").drop("_place")


@lru_cache(maxsize=4)
def _matcher(texts: tuple[str, ...], relation: Relation) -> Matcher:
    """Workers are used again, for one batch after the other: the tree is built once in each."""
    return Matcher(texts, relation=relation)


def _by_sql(keys: DataFrame, texts: list[str], key: str, expr: str) -> DataFrame:
    """One row per pair, by a hash join on the literal chunks of each shape."""
    from pyspark.sql import functions as sql

    rows = [(text, shaped(text)) for text in texts]
    shapes = sorted({found.shape for _, found in rows})
    numbers = {shape: number for number, shape in enumerate(shapes)}
    table = keys.sparkSession.createDataFrame(
        [
            (text, numbers[found.shape], found.literal, found.is_exact, found.regex)
            for text, found in rows
        ],
        f"`{expr}` string, _shape int, _literal string, _exact boolean, _regex string",
    )
    plain = keys.where(~sql.col(key).rlike(r"[*$#?]|^$|^/|//|/$"))
    chunks = plain.withColumn("_chunks", sql.split(sql.col(key), "/"))
    masked = chunks.select(*keys.columns, sql.explode(_literals(shapes)).alias("_mask"))
    return (
        masked.select(*keys.columns, "_mask.*")
        .join(sql.broadcast(table), ["_shape", "_literal"])
        .where(sql.expr(_REST.format(key=f"concat('/', `{key}`)")))
        .select(*keys.columns, expr)
    )


def _literals(shapes: list[Shape]) -> Column:
    """What each shape makes of a key: its number and the literal chunks; those that can match."""
    from pyspark.sql import functions as sql

    chunks = sql.col("_chunks")
    found = []
    for number, shape in enumerate(shapes):
        picked = [
            *(sql.get(chunks, sql.lit(at)) for at in shape.head),
            *(sql.try_element_at(chunks, sql.lit(-back)) for back in shape.tail),
        ]
        size = sql.size(chunks)
        fits = size == shape.least if shape.exact else size >= shape.least
        literal = sql.concat_ws("/", *picked) if picked else sql.lit("")
        pair = sql.struct(sql.lit(number).alias("_shape"), literal.alias("_literal"))
        found.append(sql.when(fits, pair))
    if not found:
        return sql.array().cast("array<struct<_shape:int,_literal:string>>")
    return sql.array_compact(sql.array(*found))

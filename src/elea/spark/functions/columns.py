"""The functions in Spark: by name in SQL after `register`, and as functions of columns in Python.

| function | result | |
| --- | --- | --- |
| `ke_intersects(a, b)` | BOOLEAN | some key belongs to both key expressions |
| `ke_includes(a, b)` | BOOLEAN | every key of `b` belongs to `a` |
| `try_ke_intersects(a, b)`, `try_ke_includes(a, b)` | BOOLEAN | the same; null for a bad text |
| `ke_fields(key, template)` | MAP<STRING, STRING> | as `KeyFormat` reads it; null: does not fit |
| `ke_chunk(key, n)` | STRING | chunk number `n` from 0, or from the end as -1 is the last |
| `ros_points(cloud)` | ARRAY<MAP<STRING, DOUBLE>> | points of a PointCloud2; null: bad geometry |
| `hlc_time(hlc)` | TIMESTAMP | the time of the 64 bits of a timestamp |
| `ros_time(sec, nanosec)` | TIMESTAMP | the time of a ROS stamp, to the microsecond |
| `ros_quat_yaw(q)` | DOUBLE | the heading of a quaternion, in radians |

`ke_chunk` and the last three are SQL expressions, and rows never leave the JVM for them. The others
take columns as Arrow batches into Python workers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from elea.keyexpr.template import KeyFormat
from elea.spark.functions import ros, vectors

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    ColumnOrName: TypeAlias = "Column | str"

# Spark's types are texts here, so that naming a function does not import Spark.
_VECTORS: Final[dict[str, tuple[Callable[[pa.Array, pa.Array], pa.Array], str]]] = {
    "ke_intersects": (vectors.ke_intersects, "boolean"),
    "ke_includes": (vectors.ke_includes, "boolean"),
    "try_ke_intersects": (lambda a, b: vectors.ke_intersects(a, b, lenient=True), "boolean"),
    "try_ke_includes": (lambda a, b: vectors.ke_includes(a, b, lenient=True), "boolean"),
    "ke_fields": (vectors.ke_fields, "map<string,string>"),
}
_SINGLE: Final[dict[str, tuple[Callable[[pa.Array], pa.Array], str]]] = {
    "ros_points": (ros.ros_points, "array<map<string,double>>"),
}
_YAW: Final = "atan2(2 * ({0}.w * {0}.z + {0}.x * {0}.y), 1 - 2 * ({0}.y * {0}.y + {0}.z * {0}.z))"
_ROS_TIME: Final = "timestamp_micros({0} * 1000000L + {1} div 1000)"
_CHUNK: Final = "try_element_at(split({0}, '/'), if({1} < 0, {1}, {1} + 1))"
_HLC: Final = (
    "timestamp_micros(shiftrightunsigned({0}, 32) * 1000000"
    " + shiftrightunsigned(({0} & 4294967295L) * 1000000, 32))"
)
_EXPRESSIONS: Final = {
    "ke_chunk": ("key STRING, n INT", "STRING", _CHUNK.format("ke_chunk.key", "ke_chunk.n")),
    "hlc_time": ("hlc BIGINT", "TIMESTAMP", _HLC.format("hlc_time.hlc")),
    "ros_time": (
        "sec BIGINT, nanosec BIGINT",
        "TIMESTAMP",
        _ROS_TIME.format("ros_time.sec", "ros_time.nanosec"),
    ),
    "ros_quat_yaw": (
        "q STRUCT<x: DOUBLE, y: DOUBLE, z: DOUBLE, w: DOUBLE>",
        "DOUBLE",
        _YAW.format("ros_quat_yaw.q"),
    ),
}


def register(spark: SparkSession) -> None:
    """Make all functions known to the SQL of a session.

    Then, for one: `spark.sql("select * from samples where ke_includes('fleet/*/imu', key)")`.
    """
    for name in (*_VECTORS, *_SINGLE):
        spark.udf.register(name, _udf(name))
    for name, (parameters, result, expression) in _EXPRESSIONS.items():
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters})"
            f" RETURNS {result} RETURN {expression}"
        )


def ke_intersects(a: ColumnOrName, b: ColumnOrName) -> Column:
    """Whether some key belongs to both key expressions; a bad one fails the query."""
    return _call("ke_intersects", a, b)


def ke_includes(a: ColumnOrName, b: ColumnOrName) -> Column:
    """Whether every key of `b` belongs to `a`; a bad key expression fails the query."""
    return _call("ke_includes", a, b)


def try_ke_intersects(a: ColumnOrName, b: ColumnOrName) -> Column:
    """As `ke_intersects`; a bad key expression is a null."""
    return _call("try_ke_intersects", a, b)


def try_ke_includes(a: ColumnOrName, b: ColumnOrName) -> Column:
    """As `ke_includes`; a bad key expression is a null."""
    return _call("try_ke_includes", a, b)


def ke_fields(key: ColumnOrName, template: str) -> Column:
    """The fields of a key by a template such as `fleet/{robot}/{sensor}`, as a map.

    Raises:
        KeyExprError: the template is none; here, before any row is read.
    """
    from pyspark.sql.functions import lit

    KeyFormat(template)
    return _call("ke_fields", key, lit(template))


def ke_chunk(key: ColumnOrName, n: int) -> Column:
    """One chunk of a key, counted from 0, or from the end by a negative number."""
    from pyspark.sql import functions as sql

    return sql.try_element_at(sql.split(key, "/"), sql.lit(n if n < 0 else n + 1))


def hlc_time(hlc: ColumnOrName) -> Column:
    """The time of a timestamp's 64 bits, to the microsecond; right after 2038, too."""
    from pyspark.sql import functions as sql

    bits = sql.col(hlc) if isinstance(hlc, str) else hlc
    below = bits.bitwiseAND(sql.lit(0xFFFF_FFFF)) * 1_000_000
    return sql.timestamp_micros(
        sql.shiftrightunsigned(bits, 32) * 1_000_000 + sql.shiftrightunsigned(below, 32)
    )


def ros_points(cloud: ColumnOrName) -> Column:
    """The points of a PointCloud2, a structure of its members, as maps; null: bad geometry."""
    column: Column = _udf("ros_points")(cloud)
    return column


def _call(name: str, a: ColumnOrName, b: ColumnOrName) -> Column:
    column: Column = _udf(name)(a, b)
    return column


@cache
def _udf(name: str) -> Callable[..., Column]:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # not in its stub

    if name in _SINGLE:
        return _named_udf(name, *_SINGLE[name])
    function, result = _VECTORS[name]

    def over(a: pa.Array, b: pa.Array) -> pa.Array:
        return function(a, b)

    over.__name__ = name
    udf: Callable[..., Column] = arrow_udf(over, result)
    return udf


def _named_udf(
    name: str, function: Callable[[pa.Array], pa.Array], result: str
) -> Callable[..., Column]:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # not in its stub

    def over(a: pa.Array) -> pa.Array:
        return function(a)

    over.__name__ = name
    udf: Callable[..., Column] = arrow_udf(over, result)
    return udf

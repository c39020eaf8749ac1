"""The functions of SQL and `ke_join`, in Spark."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from elea import pure
from elea.errors import InvalidValueError, KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.spark import functions
from elea.spark.functions import ke_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HLC = 7386690599959157260
ENGINES = ("python", "sql", *(["compiled"] if pure.is_compiled("elea.keyexpr.tree") else []))


def test_functions_of_sql(spark: SparkSession) -> None:
    functions.register(spark)
    row = spark.sql(
        "select ke_intersects('a/*', '*/b'), ke_includes('a/*', '*/b'), ke_includes(null, 'a'),"
        " try_ke_includes('a//b', 'a'), try_ke_intersects('a', 'a'),"
        " ke_fields('fleet/r1/imu', 'fleet/{robot}/{sensor}'), ke_fields('x', 'fleet/{robot}'),"
        " ke_chunk('a/b/c', 0), ke_chunk('a/b/c', -1), ke_chunk('a/b/c', 3),"
        f" hlc_time({HLC}), hlc_time(-1), hlc_time(null)"
    ).collect()[0]
    assert tuple(row) == (
        *(True, False, None, None, True, {"robot": "r1", "sensor": "imu"}, None),
        *("a", "c", None),
        datetime(2024, 7, 1, 15, 32, 6, 860479, tzinfo=UTC).replace(tzinfo=None),
        datetime(2106, 2, 7, 6, 28, 15, 999999, tzinfo=UTC).replace(tzinfo=None),
        None,
    )


@pytest.mark.line("R2-755")
def test_functions_for_ros(spark: SparkSession) -> None:
    functions.register(spark)
    row = spark.sql(
        "select ros_time(-1, 1500000000L), ros_time(1, null),"
        " ros_quat_yaw(named_struct('x', 0D, 'y', 0D, 'z', sin(0.25D), 'w', cos(0.25D)))"
    ).collect()[0]
    assert row[0] == datetime(1970, 1, 1, 0, 0, 0, 500_000)
    assert row[1] is None
    assert row[2] == pytest.approx(0.5)
    kind = "struct<name: string, offset: bigint, datatype: smallint, count: bigint>"
    cloud = f"height bigint, width bigint, fields array<{kind}>, is_bigendian boolean"
    df = spark.createDataFrame(
        [
            (
                (
                    1,
                    2,
                    [("x", 0, 7, 1), ("y", 4, 2, 1)],
                    False,
                    8,
                    16,
                    bytes.fromhex("0000803f07") + bytes(11),
                ),
            )
        ],
        f"cloud struct<{cloud}, point_step bigint, row_step bigint, data binary>",
    )
    [points] = df.select(functions.ros_points("cloud")).collect()[0]
    assert points == [{"x": 1.0, "y": 7.0}, {"x": 0.0, "y": 0.0}]


def test_a_bad_expression_fails_the_query(spark: SparkSession) -> None:
    functions.register(spark)
    with pytest.raises(Exception, match="a//b"):
        spark.sql("select ke_includes('a//b', 'a')").collect()


def test_functions_of_columns(spark: SparkSession) -> None:
    from pyspark.sql import functions as sql

    df = spark.createDataFrame([("fleet/r1/imu", HLC), ("plant/p", None)], "key string, hlc bigint")
    wanted = sql.lit("fleet/*/imu")
    rows = df.select(
        functions.ke_includes(wanted, "key"),
        functions.ke_intersects("key", wanted),
        functions.try_ke_includes(wanted, "key"),
        functions.try_ke_intersects("key", wanted),
        functions.ke_fields("key", "fleet/{robot}/{sensor}").getItem("robot"),
        functions.ke_chunk("key", 1),
        functions.ke_chunk("key", -1),
        functions.hlc_time("hlc").cast("string"),
    ).collect()
    assert tuple(rows[0]) == (
        True,
        True,
        True,
        True,
        "r1",
        "r1",
        "imu",
        "2024-07-01 15:32:06.860479",
    )
    assert tuple(rows[1]) == (False, False, False, False, None, "p", "p", None)
    with pytest.raises(KeyExprError):
        functions.ke_fields("key", "fleet/{robot")


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_join_finds_what_key_expressions_say(
    spark: SparkSession, engine: str, distinct: bool
) -> None:
    rng = random.Random(5)
    words = ["a", "b", "ab", "@a", "é", "a.b"]
    wild = [*words, "*", "**", "a$*", "$*b", "a$*b$*"]
    keys = sorted({"/".join(rng.choices(words, k=rng.randint(1, 4))) for _ in range(150)})
    exprs = sorted(
        {
            str(KeyExpr.autocanonize("/".join(rng.choices(wild, k=rng.randint(1, 4)))))
            for _ in range(80)
        }
    )
    rows = [(key, number) for number, key in enumerate([*keys, keys[0]])]
    df = spark.createDataFrame([*rows, (None, -1), ("no//key", -2)], "key string, n int")
    found = ke_join(df, exprs, engine=engine, distinct=distinct).collect()  # type: ignore[arg-type]
    expected = {
        (key, number, text)
        for key, number in rows
        for text in exprs
        if KeyExpr(text).intersects(KeyExpr(key))
    }
    assert len(found) == len(expected)
    assert {(row.key, row.n, row.expr) for row in found} == expected


def test_a_stream_is_joined(spark: SparkSession, checkpoint: str) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    keys = rows.selectExpr("concat('fleet/r', value % 2, '/imu') as key", "value")
    query = (
        ke_join(keys, ["fleet/r1/**", "*/*/imu"])
        .writeStream.format("memory")
        .queryName("joined")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = {
        row.expr: row.n
        for row in spark.sql("select expr, count(*) n from joined group by expr").collect()
    }
    assert found == {"fleet/r1/**": 5, "*/*/imu": 10}


def test_a_join_with_a_table_of_expressions(spark: SparkSession) -> None:
    df = spark.createDataFrame([("fleet/r1/imu",), ("x",)], "topic string")
    rules = spark.createDataFrame(
        [("fleet/**", 5), ("fleet/**", 6), ("y", 7)], "rule string, n int"
    )
    joined = ke_join(df, rules, key="topic", expr="rule")
    assert sorted(map(tuple, joined.collect())) == [
        ("fleet/**", "fleet/r1/imu", 5),
        ("fleet/**", "fleet/r1/imu", 6),
    ]
    assert ke_join(df, [], key="topic").collect() == []
    assert ke_join(df, [], key="topic", engine="sql").collect() == []


def test_keys_with_wildcards_and_both_relations(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a/*",), ("**",)], "key string")
    meets = ke_join(df, ["a/b", "a/**"]).collect()
    inside = ke_join(df, ["a/b", "a/**"], relation="includes").collect()
    assert len(meets) == 4
    assert [(row.key, row.expr) for row in inside] == [("a/*", "a/**")]


def test_a_join_that_cannot_be(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1)], "key string, expr int")
    for arguments, complaint in (
        ({"exprs": ["a"]}, "is a column already"),
        ({"exprs": ["a"], "expr": "e", "key": "k"}, "no column 'k'"),
        ({"exprs": ["a"], "expr": "e", "engine": "gpu"}, "legal are python, compiled, sql"),
        ({"exprs": ["a"], "expr": "e", "relation": "is"}, "legal are intersects, includes"),
        ({"exprs": "a", "expr": "e"}, "write"),
        ({"exprs": df, "expr": "e"}, "no column 'e'"),
    ):
        with pytest.raises(InvalidValueError, match=complaint):
            ke_join(df, **arguments)
    with pytest.raises(KeyExprError):
        ke_join(df, ["a//b"], expr="e")

"""A pipeline tried on Spark without rows: SQL that does not parse, columns that no table has.

Tables of the log are empty frames with the columns that the file declares; gold tables and views
are made of those, in their order. Spark analyses every query and runs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from elea.errors import ConfigError
from elea.spark.pipelines import graph
from elea.spark.pipelines.definition import BAD, Archive, Decoded, Gold, Pipeline, Table, View
from elea.spark.pipelines.gold import KINDS
from elea.spark.pipelines.problems import Problem
from elea.spark.pipelines.silver import BAD_COLUMNS, Silver
from elea.spark.pipelines.supervision import OF_USER, told
from elea.store.tables.layout import COLUMNS, DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
_NO_QUERIES: Final = ("Command", "ParsedStatement")  # as SHOW and DROP, and as INSERT


def needs_spark(pipeline: Pipeline) -> bool:
    """Whether anything in it is only known to Spark."""
    return any(
        isinstance(one, Gold) or (isinstance(one, View) and one.sql) for one in pipeline.tables
    )


def problems_on_spark(spark: SparkSession, pipeline: Pipeline) -> list[Problem]:
    """What Spark would refuse of a pipeline that is fine otherwise."""
    frames: dict[str, DataFrame] = {}
    found: list[Problem] = []
    for table in graph.ordered(pipeline):
        try:
            frames |= _frames(spark, pipeline, table, frames)
        except OF_USER as error:  # whatever Spark, or a kind, raises of a definition
            place = f"tables.{table.name}.sql" if isinstance(table, View) else _place(table)
            found.append(Problem(place, _reason(error, table, pipeline)))
            continue
        if isinstance(table, Gold | View) and table.name in frames:
            found.extend(_unpublished(table, frames[table.name].columns))
    return found


def _unpublished(table: Gold | View, columns: list[str]) -> Iterator[Problem]:
    """Fields of the key under which rows are published that no column gives: no row would be."""
    publish = table.publish
    missing = () if publish is None else [one for one in publish.fields if one not in columns]
    for name in missing:
        reason = f"there is no column {name}; legal are {', '.join(columns)}"
        yield Problem(f"tables.{table.name}.publish", reason)


def _frames(
    spark: SparkSession, pipeline: Pipeline, table: Table, known: dict[str, DataFrame]
) -> dict[str, DataFrame]:
    """The tables that one definition makes, without rows; none if that cannot be told."""
    match table:
        case Archive():
            return {table.name: _empty(spark, COLUMNS)}
        case Decoded():
            return {
                table.name: _empty(spark, Silver(table).columns),
                table.name + BAD: _empty(spark, BAD_COLUMNS),
            }
        case Gold() if all(source in known for source in table.sources):
            inputs = {str(at): known[source] for at, source in enumerate(table.sources)}
            made = KINDS[table.kind].apply(spark, inputs, table.options)
            _ = made.schema  # analysed by now
            return {table.name: made}
        case View(sql=str(text)):
            _check_query(spark, text)
            sources = graph.sources_of(pipeline, table)
            if any(source not in known for source in sources):  # of functions, of what is wrong
                return {}
            for source in sources:
                known[source].createOrReplaceTempView(source)
            try:
                return {table.name: spark.sql(text)}
            finally:
                for source in sources:
                    spark.catalog.dropTempView(source)
    return {}


def _check_query(spark: SparkSession, text: str) -> None:
    """Refuse what is no query: Spark runs commands as it analyses them."""
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    assert spark._jvm is not None  # a session of Spark that runs
    kinds = spark._jvm.java.lang.Class
    if any(kinds.forName(f"{_PLANS}.{one}").isInstance(plan) for one in _NO_QUERIES):
        raise ConfigError("", "is a command of SQL; a query is legal: SELECT ... FROM a table")


def _empty(spark: SparkSession, columns: pa.Schema) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    dated = columns if DATE in columns.names else columns.append(pa.field(DATE, pa.date32()))
    return spark.createDataFrame([], from_arrow_schema(dated))


def _place(table: Table) -> str:
    place = f"tables.{table.name}"
    return f"{place}.{table.kind}" if isinstance(table, Gold) else place


def _reason(error: BaseException, table: Table, pipeline: Pipeline) -> str:
    """Spark's message in a line; where columns may come with payloads, how to declare one."""
    text = told(error)
    is_column = "UNRESOLVED_COLUMN" in text or "FIELD_NOT_FOUND" in text
    declared = [
        one.name
        for one in pipeline.tables
        if isinstance(one, Decoded) and one.name in graph.sources_of(pipeline, table)
    ]
    if is_column and declared:
        text += f"; if payloads bring it, declare it in tables.{declared[0]}.schema"
    return text

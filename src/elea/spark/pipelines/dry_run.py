"""A pipeline tried on Spark without rows: SQL that does not parse, columns that no table has.

Tables of the log are empty frames with the columns that the file declares; gold tables and views
are made of those, in their order. Spark analyses every query and runs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from elea.spark.pipelines import graph
from elea.spark.pipelines.definition import BAD, Archive, Decoded, Gold, Pipeline, Table, View
from elea.spark.pipelines.gold import KINDS
from elea.spark.pipelines.problems import Problem
from elea.spark.pipelines.silver import BAD_COLUMNS, Silver
from elea.spark.pipelines.supervision import told
from elea.store.tables.layout import COLUMNS, DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        except Exception as error:  # whatever Spark, or a kind, raises of a definition
            place = f"tables.{table.name}.sql" if isinstance(table, View) else _place(table)
            found.append(Problem(place, _reason(error, table, pipeline)))
    return found


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
            sources = graph.sources_of(pipeline, table)
            if any(source not in known for source in sources):  # of functions, of what is wrong
                spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
                return {}
            for source in sources:
                known[source].createOrReplaceTempView(source)
            try:
                return {table.name: spark.sql(text)}
            finally:
                for source in sources:
                    spark.catalog.dropTempView(source)
    return {}


def _empty(spark: SparkSession, columns: pa.Schema) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    dated = columns if DATE in columns.names else columns.append(pa.field(DATE, pa.date32()))
    return spark.createDataFrame([], from_arrow_schema(dated))


def _place(table: Table) -> str:
    place = f"tables.{table.name}"
    return f"{place}.{table.kind}" if isinstance(table, Gold) else place


def _reason(error: Exception, table: Table, pipeline: Pipeline) -> str:
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

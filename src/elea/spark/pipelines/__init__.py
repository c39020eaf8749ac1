"""Pipelines: tables of a log, each declared once, kept up to date by Spark."""

from elea.spark.pipelines.definition import Pipeline
from elea.spark.pipelines.problems import Problem
from elea.spark.pipelines.reading import check, load
from elea.spark.pipelines.runner import Run, run
from elea.spark.pipelines.state import Status, TableStatus
from elea.spark.pipelines.verbs import (
    append_flow,
    bronze,
    create_sink,
    create_streaming_table,
    defined,
    definition,
    gold,
    materialized_view,
    pipeline,
    silver,
    table,
    temporary_view,
)

__all__ = [
    "Pipeline",
    "Problem",
    "Run",
    "Status",
    "TableStatus",
    "append_flow",
    "bronze",
    "check",
    "create_sink",
    "create_streaming_table",
    "defined",
    "definition",
    "gold",
    "load",
    "materialized_view",
    "pipeline",
    "run",
    "silver",
    "table",
    "temporary_view",
]

"""`downsample`: one row per step in place of many, with the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import Spans, closed
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.window import (
    BY,
    DEVICE,
    DEVICES_MAX,
    DRIFT,
    END,
    LATE,
    START,
    identity,
    windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HOW: Final = {"mean": "avg", "first": "first", "last": "last", "min": "min", "max": "max"}


def steps(rows: DataFrame, options: Options) -> DataFrame:
    """All steps of rows."""
    how = _HOW[cast("str", options["how"])]
    columns = cast("Sequence[str]", options["columns"])
    wanted = dict.fromkeys(columns, (how,))
    by = cast("Sequence[str]", options["by"])
    made = windows(rows, {**options, "values": wanted})
    named = [f"`{name.replace('.', '_')}_{how}` as `{name.replace('.', '_')}`" for name in columns]
    return made.selectExpr(*(f"`{name}`" for name in by), START, END, *named, "count")


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    return steps(next(iter(frames.values())), options)


def _refresh(round: Round) -> Changes:
    every = cast("int", round.options["every"])
    return closed(round, Spans(every, every), lambda rows: steps(rows, round.options))


DOWNSAMPLE: Final = Kind(
    name="downsample",
    help="one row per step in place of many, with the same columns",
    options=(
        Option("every", values.some_time, "how long a step is"),
        Option("columns", values.some_names, "columns that are wanted"),
        Option("how", values.choice(*_HOW), f"what is taken of a step: {', '.join(_HOW)}", "mean"),
        BY,
        LATE,
        DRIFT,
        DEVICE,
        DEVICES_MAX,
    ),
    mode="append",
    identity=identity,
    apply=_apply,
    refresh=_refresh,
    sources=(1, 2),
    time=START,
)

"""`latency`: how long samples took from their timestamp to the log, by key expressions.

The timestamp is of the clock that made it, reception is of the recorder's: what their clocks differ
by is in the figures, and may make them negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import Spans, closed
from elea.spark.pipelines.gold.frames import puts, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.window import DEVICES_MAX, DRIFT, END, LATE, START, windows
from elea.spark.scan import pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELAY: Final = "delay_ms"
_WANTED: Final = ("p50", "p95", "p99", "max", "avg")
_OTHERS: Final = "**"


def delays(rows: DataFrame, options: Options) -> DataFrame:
    """All windows of rows with timestamps, by the first key expression that has their key."""
    from pyspark.sql import functions as sql

    require(rows, ("key", "ts", "recv_ts"), "from")
    rows = puts(rows).where("ts is not null")
    matched = sql.lit(_OTHERS)
    for expr in reversed(cast("Sequence[str]", options["keys"])):
        is_of = sql.col("key").rlike(rf"\A(?:{pattern(expr)})\z")
        matched = sql.when(is_of, sql.lit(expr)).otherwise(matched)
    delay = (sql.unix_micros("recv_ts") - sql.unix_micros("ts")) / sql.lit(1_000.0)
    rows = rows.select(matched.alias("keyexpr"), delay.alias(_DELAY), "ts", "hlc")
    wanted = {**options, "by": ("keyexpr",), "values": {_DELAY: _WANTED}}
    made = windows(rows, wanted)
    named = [f"{_DELAY}_{one} as {one}_ms" for one in _WANTED]
    return made.selectExpr("keyexpr", START, END, "count", *named)


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    return delays(next(iter(frames.values())), options)


def _refresh(round: Round) -> Changes:
    every = cast("int", round.options["every"])
    return closed(round, Spans(every, every), lambda rows: delays(rows, round.options))


LATENCY: Final = Kind(
    name="latency",
    help="how long samples took from their timestamp to the log: p50, p95, p99, max, avg",
    options=(
        Option("every", values.some_time, "how long a window is", 60 * values.SECOND),
        Option("keys", values.key_exprs, "key expressions; rows of none are `**`", (_OTHERS,)),
        LATE,
        DRIFT,
        DEVICES_MAX,
    ),
    mode="append",
    identity=lambda options: ("keyexpr", START),
    apply=_apply,
    refresh=_refresh,
    time=START,
)

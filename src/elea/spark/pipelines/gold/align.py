"""`align`: for each row of the first table, the row of each other one that was in force then.

`backward` takes the last row at that time or before, `nearest` the one that is nearest to it;
either within `tolerance`. A row is made once all tables have passed its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import CLOSED, Spans, advance, set_back
from elea.spark.pipelines.gold.frames import PLACE, collected, moment, puts, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.window import BY, DEVICES_MAX, DRIFT, LATE
from elea.store.log.schema import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

AT: Final = "at"
_SAMPLE: Final = {*SCHEMA.names, *PLACE, "date", "kp", "decode_error"}  # of rows, not of payloads


def aligned(frames: Sequence[DataFrame], options: Options) -> DataFrame:
    """All rows of the first; columns of others that it has, too, are `NAME_2`, `NAME_3`."""
    from pyspark.sql import functions as sql

    by = cast("Sequence[str]", options["by"])
    left = puts(frames[0])
    require(left, by, "align.by")
    own = [name for name in left.columns if name not in _SAMPLE and name not in by]
    found = left.select(
        *(sql.col(f"`{name}`") for name in by),
        moment(left).alias(AT),
        *(sql.col(f"`{name}`") for name in own),
    )
    for number, frame in enumerate(frames[1:], start=2):
        found = _joined(found, puts(frame), options, number)
    return found


def _joined(left: DataFrame, right: DataFrame, options: Options, number: int) -> DataFrame:
    """One sort of both: each row of the left one looks to its neighbours of the right one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    by = list(cast("Sequence[str]", options["by"]))
    require(right, by, f"align.by, table {number}")
    taken = {name for name in right.columns if name in left.columns}
    mine = [name for name in right.columns if name not in _SAMPLE and name not in by]
    names = {name: f"{name}_{number}" if name in taken else name for name in mine}
    row = sql.struct(
        moment(right).alias("_at"),
        *(sql.col(f"`{name}`").alias(as_) for name, as_ in names.items()),
    )
    keys = [sql.col(f"`{name}`") for name in by]
    both = left.select(
        *keys, sql.col(AT).alias("_at"), sql.lit(1).alias("_side"), sql.struct("*").alias("_left")
    ).unionByName(
        right.select(
            *keys, moment(right).alias("_at"), sql.lit(0).alias("_side"), row.alias("_right")
        ),
        allowMissingColumns=True,
    )
    ordered = Window.partitionBy(*by).orderBy("_at", "_side")
    earlier = sql.last("_right", ignorenulls=True).over(
        ordered.rowsBetween(Window.unboundedPreceding, 0)
    )
    chosen: Column = _within(earlier, options)
    if options["how"] == "nearest":
        later = sql.first("_right", ignorenulls=True).over(
            ordered.rowsBetween(0, Window.unboundedFollowing)
        )
        is_nearer = _distance(later) < _distance(earlier)
        chosen = _within(sql.when(is_nearer | earlier.isNull(), later).otherwise(earlier), options)
    found = both.select("_side", "_left", chosen.alias("_found")).where("_side = 1")
    columns = [sql.col(f"_found.`{name}`") for name in names.values()]
    delay = (sql.unix_micros("_left.at") - sql.unix_micros("_found._at")) / sql.lit(1_000.0)
    return found.select("_left.*", *columns, delay.alias(f"age_{number}_ms"))


def _within(row: Column, options: Options) -> Column:
    from pyspark.sql import functions as sql

    return sql.when(_distance(row) <= cast("int", options["tolerance"]), row)


def _distance(row: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.abs(sql.unix_micros("_at") - sql.unix_micros(row["_at"]))


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    return aligned(list(frames.values()), options)


def _refresh(round: Round) -> Changes:
    from pyspark.sql import functions as sql

    options = round.options
    by = cast("Sequence[str]", options["by"])
    tolerance = cast("int", options["tolerance"])
    round, gone = set_back(round, AT, 1)
    before = round.mark.get(CLOSED)
    # Each table of each group is one who sends: all have to have passed a row.
    seen = advance(round, round.inputs, by, Spans(1, 1), lives={}, is_apart=True)
    upto = seen.closed_us - (tolerance if options["how"] == "nearest" else 0)
    if round.is_final and seen.positions:
        upto = max(upto, seen.last_us + 1)
    step = seen.step(upto, round.mark, values.SECOND)
    after = step.after_us
    mark = seen.mark(round.mark, step, (-tolerance, tolerance + 1))
    names = ("_table", *by)
    if after == before or not seen.positions:
        return seen.changes(None, mark, names, is_partial=False, removed=gone)
    others = [
        one.rows(None if before is None else before - tolerance, after + tolerance)
        for one in round.inputs[1:]
    ]
    found = aligned([round.inputs[0].rows(before, after), *others], options)
    at = sql.unix_micros(sql.col(AT))
    found = found.where(at < after)
    return seen.changes(collected(found), mark, names, is_partial=after < upto, removed=gone)


ALIGN: Final = Kind(
    name="align",
    help="for each row of the first table, the rows of the others that were in force then",
    options=(
        BY,
        Option("how", values.choice("backward", "nearest"), "which row is in force", "backward"),
        Option("tolerance", values.duration, "how far apart rows may be", values.SECOND),
        LATE,
        DRIFT,
        DEVICES_MAX,
    ),
    mode="append",
    identity=lambda options: (*cast("Sequence[str]", options["by"]), AT),
    apply=_apply,
    refresh=_refresh,
    sources=(2, 8),
    time=AT,
)

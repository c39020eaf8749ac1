"""`window`: aggregates over spans of event time. `downsample` and `latency` are windows too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS
from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import Spans, closed
from elea.spark.pipelines.gold.frames import moment, order, puts, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.watermark import DRIFT_US

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

START: Final = "window_start"
END: Final = "window_end"

LATE: Final = Option(
    "late", values.duration, "how long a device that is silent is waited for", 10 * values.SECOND
)
DRIFT: Final = Option(
    "drift",
    values.duration,
    "how far ahead of its reception the timestamp of a row is believed",
    DRIFT_US,
    defines=False,
)
DEVICES_MAX: Final = Option(
    "devices_max",
    values.count,
    "how many devices are remembered; of more the latest ones, and it is told",
    DEFAULT_LIMITS.gold_devices_count,
    defines=False,
)
DEVICE: Final = Option(
    "device", values.names, "columns that tell who sends; else `by`, else the publisher", ()
)
BY: Final = Option("by", values.names, "columns that tell groups apart", ())


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    return windows(next(iter(frames.values())), options)


def windows(rows: DataFrame, options: Options) -> DataFrame:
    """All windows of rows, whether closed or not."""
    from pyspark.sql import functions as sql

    by = cast("Sequence[str]", options["by"])
    wanted = cast("Mapping[str, Sequence[str]]", options["values"])
    rows = puts(rows)
    require(rows, [*by, *(column.partition(".")[0] for column in wanted)], "window")
    _require_numbers(rows, wanted)
    every, slide = spans_of(options)
    grouped = rows.groupBy(
        *(sql.col(f"`{name}`") for name in by),
        sql.window(moment(rows), f"{every} microseconds", f"{slide} microseconds"),
    )
    found = [
        aggregate(column, one, order(rows)).alias(f"{column}_{one}".replace(".", "_"))
        for column, chosen in wanted.items()
        for one in chosen
    ]
    names = [sql.col(f"`{name}`") for name in by]
    made = grouped.agg(sql.count(sql.lit(1)).alias("count"), *found)
    ends = (sql.col("window.start").alias(START), sql.col("window.end").alias(END))
    rest = [f"`{name}`" for name in made.columns if name not in (*by, "window")]
    return made.select(*names, *ends, *rest)


def _require_numbers(rows: DataFrame, wanted: Mapping[str, Sequence[str]]) -> None:
    """Refuse sums, means and percentiles of texts: Spark would try to read each as a number.

    Raises:
        ConfigError: naming the column and what is legal of it.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType, StringType

    for column, chosen in wanted.items():
        numeric = [one for one in chosen if one not in values.OF_ANY_TYPE]
        if not numeric:
            continue
        kind = rows.select(sql.col(column)).schema.fields[0].dataType
        if isinstance(kind, (BinaryType, StringType)):
            legal = ", ".join(values.OF_ANY_TYPE)
            reason = f"{numeric[0]} of {column} needs numbers, it is of the type"
            raise ConfigError(
                "window",
                f"{reason} {kind.simpleString()}; legal are {legal}, or declare it as a number",
            )


def aggregate(column: str, wanted: str, sorts: Column) -> Column:
    """One aggregate of a column."""
    from pyspark.sql import functions as sql

    one = sql.col(column)
    fraction = values.percentage(wanted)
    if fraction is not None:
        return sql.percentile(one, fraction)
    by_name: dict[str, Callable[[Column], Column]] = {
        "count": sql.count,
        "min": sql.min,
        "max": sql.max,
        "avg": sql.avg,
        "sum": sql.sum,
        "stddev": sql.stddev_samp,
        "first": lambda one: sql.min_by(one, sorts),
        "last": lambda one: sql.max_by(one, sorts),
    }
    return by_name[wanted](one)


def spans_of(options: Options) -> tuple[int, int]:
    """How long a window is, and how far apart two begin."""
    every = cast("int", options["every"])
    return every, cast("int", options.get("slide") or every)


def _refresh(round: Round) -> Changes:
    return closed(round, Spans(*spans_of(round.options)), lambda rows: windows(rows, round.options))


def identity(options: Options) -> tuple[str, ...]:
    """One row for each group and window."""
    return (*cast("Sequence[str]", options["by"]), START)


WINDOW: Final = Kind(
    name="window",
    help="aggregates over spans of event time, closed when all who are alive have passed them",
    options=(
        Option("every", values.some_time, "how long a window is"),
        Option("slide", values.some_time, "how far apart windows begin; else `every`", None),
        BY,
        Option("values", values.aggregates, "columns, and what is wanted of each", {}),
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

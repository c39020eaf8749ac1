"""`latest`: the last value of each key, or of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import here_us
from elea.spark.pipelines.gold.frames import collected, moment, order, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.store.log.schema import RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELETED: Final = "deleted"
_AT: Final = "at"
_HLC: Final = "hlc"
_NOW: Final = "now_us"
_PLACE: Final = ("shard", "seq", "log", "date", "kp")  # of the row in a log: nothing of its value


def last_rows(rows: DataFrame, options: Options) -> DataFrame:
    """The last row of each group; one that is a deletion has no values, and says so."""
    from pyspark.sql import functions as sql

    by = _by(options)
    require(rows, by, "latest.by")
    if "kind" in rows.columns:
        rows = rows.where(f"kind in ({int(RowKind.PUT)}, {int(RowKind.DELETE)})")
        gone = sql.col("kind") == int(RowKind.DELETE)
    else:
        gone = sql.lit(False)
    wanted = cast("Sequence[str]", options["columns"])
    require(rows, wanted, "latest.columns")
    kept = [name for name in (wanted or rows.columns) if name not in (*by, *_PLACE, "kind", _HLC)]
    stamps = [name for name in (_HLC,) if name in rows.columns]  # it counts for deletions, too
    rows = rows.select(
        *(sql.col(f"`{name}`") for name in by),
        sql.struct(
            moment(rows).alias(_AT),
            *stamps,
            gone.alias(DELETED),
            *(sql.when(~gone, sql.col(f"`{name}`")).alias(name) for name in kept),
        ).alias("_row"),
        order(rows).alias("_order"),
    )
    found = rows.groupBy(*(sql.col(f"`{name}`") for name in by)).agg(
        sql.max_by("_row", "_order").alias("_row")
    )
    return found.select(*(sql.col(f"`{name}`") for name in by), "_row.*")


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    return last_rows(next(iter(frames.values())), options)


def _refresh(round: Round) -> Changes:
    found = collected(last_rows(round.inputs[0].fresh(), round.options))
    by = _by(round.options)
    # A clock that is ahead must not make deletions be forgotten.
    now_us = min(max([round.mark.get(_NOW, 0), *_micros(found)]), here_us(round))
    schema = round.table.schema()
    known = None
    if schema is not None:
        known = round.table.rows(
            [name for name in (*by, _AT, _HLC, DELETED) if name in schema.names]
        )
    if known is None:
        return Changes(found, mark={_NOW: now_us})
    older = dict(zip(_names(known, by), _times(known), strict=True))
    newer = [
        name not in older or time >= older[name]
        for name, time in zip(_names(found, by), _times(found), strict=True)
    ]
    changed = found.filter(pa.array(newer, pa.bool_()))
    replaced = set(_names(changed, by))
    forget_us = cast("int", round.options["forget"])
    is_old = pc.less(known[_AT].cast(pa.int64()), now_us - forget_us)
    old = known.filter(pc.and_(known[DELETED], is_old)).select(list(by))
    unused = pa.array([name not in replaced for name in _names(old, by)], pa.bool_())
    return Changes(changed, old.filter(unused), mark={_NOW: now_us})


def _names(rows: pa.Table, by: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in by), strict=True))


def _times(rows: pa.Table) -> list[tuple[int, int]]:
    """What tells which of two rows is later."""
    if _HLC not in rows.column_names:
        return [(at, 0) for at in _micros(rows)]
    return list(zip(_micros(rows), rows[_HLC].fill_null(0).to_pylist(), strict=True))


def _micros(rows: pa.Table) -> list[int]:
    return cast("list[int]", rows[_AT].cast(pa.int64()).to_pylist())


def _by(options: Options) -> tuple[str, ...]:
    return cast("tuple[str, ...]", options["by"])


LATEST: Final = Kind(
    name="latest",
    help="the last value of each key, or of each group, by its timestamp; deletions count",
    options=(
        Option("by", values.some_names, "columns that tell groups apart", ("key",)),
        Option("columns", values.names, "columns that are wanted; else all", ()),
        Option(
            "forget",
            values.duration,
            "how long a deletion stays, as a row with `deleted`, for values that come late",
            86_400 * values.SECOND,
        ),
    ),
    mode="update",
    identity=_by,
    apply=_apply,
    refresh=_refresh,
)

"""`presence`: from when to when somebody was there, by liveliness tokens.

A token that appears again while it is there opens nothing; one that vanishes and was not seen to
appear has an interval without a beginning that is known: `online_from` is then when it vanished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from elea.keyexpr.template import KeyFormat
from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.frames import collected, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.scan import pattern
from elea.store.log.schema import TIME, RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FROM: Final = "online_from"
TO: Final = "online_to"
_AT: Final = "at_us"


@dataclass(frozen=True, slots=True)
class Interval:
    """When a token was there.

    Args:
        end_us: None: it still is.
    """

    key: str
    start_us: int
    end_us: int | None


def intervals(
    known: Mapping[str, Interval], events: Iterable[tuple[str, bool, int]]
) -> list[Interval]:
    """The intervals that events open, and those that they close.

    Args:
        known: By key, the interval that is open.
        events: In their order: a key, whether its token appeared, and when.

    Example:
        >>> intervals({}, [("a", True, 1), ("a", True, 2), ("a", False, 5), ("a", True, 7)])
        [Interval(key='a', start_us=1, end_us=5), Interval(key='a', start_us=7, end_us=None)]
    """
    is_open = dict(known)
    found: dict[tuple[str, int], Interval] = {}
    for key, is_there, at_us in events:
        current = is_open.get(key)
        if is_there and current is None:
            made = is_open[key] = Interval(key, at_us, None)
        elif not is_there:
            start_us = at_us if current is None else current.start_us
            made = Interval(key, start_us, max(at_us, start_us))
            is_open.pop(key, None)
        else:
            continue
        found[(key, made.start_us)] = made
    return list(found.values())


def _events(rows: DataFrame, options: Options) -> list[tuple[str, bool, int]]:
    """Tokens that came and went, in the order in which they were recorded."""
    from pyspark.sql import functions as sql

    require(rows, ("key", "kind", "recv_ts"), "from")
    key = cast("KeyFormat | None", options["key"])
    tokens = rows.where(f"kind in ({int(RowKind.TOKEN_PUT)}, {int(RowKind.TOKEN_DELETE)})")
    if key is not None:
        tokens = tokens.where(sql.col("key").rlike(rf"\A(?:{pattern(str(key.key_expr))})\z"))
    found = collected(
        tokens.select("key", "kind", sql.unix_micros("recv_ts").alias(_AT), "shard", "seq")
    ).sort_by([(_AT, "ascending"), ("shard", "ascending"), ("seq", "ascending")])
    return [(row["key"], row["kind"] == RowKind.TOKEN_PUT, row[_AT]) for row in found.to_pylist()]


def _table(found: Sequence[Interval], options: Options) -> pa.Table:
    key = cast("KeyFormat | None", options["key"])
    names = _fields(options)
    told: list[Mapping[str, str]] = [
        {} if key is None else key.parse(one.key) or {} for one in found
    ]
    columns: dict[str, Any] = {"key": pa.array([one.key for one in found], pa.string())}
    for name in names:
        columns[name] = pa.array([one.get(name) for one in told], pa.string())
    columns[FROM] = pa.array([one.start_us for one in found], pa.int64()).cast(TIME)
    columns[TO] = pa.array([one.end_us for one in found], pa.int64()).cast(TIME)
    return pa.table(columns)


def _fields(options: Options) -> tuple[str, ...]:
    key = cast("KeyFormat | None", options["key"])
    return () if key is None else tuple(key.fields)


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    events = _events(next(iter(frames.values())), options)
    return spark.createDataFrame(_table(intervals({}, events), options))


def _refresh(round: Round) -> Changes:
    known = {
        row["key"]: Interval(row["key"], row["start_us"], None)
        for row in ([] if round.state is None else round.state.to_pylist())
    }
    found = intervals(known, _events(round.inputs[0].fresh(), round.options))
    is_open = known | {one.key: one for one in found}
    still = [one for one in is_open.values() if one.end_us is None]
    state = pa.table(
        {
            "key": pa.array([one.key for one in still], pa.string()),
            "start_us": pa.array([one.start_us for one in still], pa.int64()),
        }
    )
    return Changes(_table(found, round.options), state=state)


PRESENCE: Final = Kind(
    name="presence",
    help="from when to when somebody was there, by liveliness tokens",
    options=(
        Option(
            "key",
            values.template,
            "tokens of this form, whose fields become columns: `fleet/{robot}/alive`; else all",
            None,
        ),
    ),
    mode="update",
    identity=lambda options: ("key", FROM),
    apply=_apply,
    refresh=_refresh,
)

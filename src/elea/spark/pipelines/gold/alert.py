"""`alert`: events when a condition begins to hold and when it ends, by the rules of `rules.py`.

Whether conditions hold is SQL. Of each group only rows remain where that changes, those where
`when` holds if it has to hold for some time, and the last one; these few go through the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from elea.errors import EleaError
from elea.limits import DEFAULT_LIMITS
from elea.predicate import Predicate
from elea.predicate.model import Field, walk
from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.event_time import SET_BACK_US, here_us
from elea.spark.pipelines.gold.frames import collected, moment, puts, require
from elea.spark.pipelines.gold.late import LATE_COUNT
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.rules import AlertRule, Event, Group, Machine, State, scalar
from elea.spark.pipelines.gold.verdicts import verdict
from elea.spark.pipelines.gold.watermark import DRIFT_US
from elea.spark.pipelines.gold.window import DRIFT
from elea.store.log.schema import TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ORDER: Final = ("_received", "_shard", "_seq")  # as subscribers have them, more or less


def rule_of(options: Options) -> AlertRule:
    """The rule, as subscribers use it too."""
    clear = options["clear"]
    when = str(options["when"])
    return AlertRule(
        name=cast("str | None", options["name"]) or when,
        when=when,
        for_us=cast("int", options["for"]),
        clear=None if clear is None else str(clear),
        by=cast("Sequence[str]", options["by"]),
    )


def reduced(
    rows: DataFrame, options: Options, now_us: int, last: DataFrame | None = None
) -> tuple[DataFrame, int]:
    """The rows that matter, in no order; and how many columns are of the group.

    Args:
        now_us: The time of day: nothing was received later.
        last: By group, the time up to which rows were seen.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    rule = rule_of(options)
    require(rows, rule.by, "alert.by")
    rows = puts(rows)
    when = verdict(cast("Predicate", options["when"]), rows.schema, "alert.when")
    clear = sql.lit(None).cast("boolean")
    if options["clear"] is not None:
        clear = verdict(cast("Predicate", options["clear"]), rows.schema, "alert.clear")
    groups = [f"_g{at}" for at in range(len(rule.by))]
    at = sql.unix_micros(moment(rows))
    if "recv_ts" in rows.columns:  # else rows after one of a wrong clock would all be late
        received = sql.least(sql.unix_micros("recv_ts"), sql.lit(now_us))
        at = sql.least(at, received + cast("int", options.get("drift", DRIFT_US)))
    told = [_told(rows, path).alias(f"_v{at}") for at, path in enumerate(_paths(options))]
    found = rows.select(
        *(
            sql.coalesce(sql.col(f"`{name}`").cast("string"), sql.lit("")).alias(group)
            for name, group in zip(rule.by, groups, strict=True)
        ),
        at.alias("_at"),
        when.alias("_when"),
        clear.alias("_clear"),
        (sql.col("key") if "key" in rows.columns else sql.lit("")).alias("_key"),
        *told,
        *(
            (sql.col(name) if name in rows.columns else sql.lit(0)).alias(alias)
            for name, alias in zip(("recv_ts", "shard", "seq"), _ORDER, strict=True)
        ),
    ).where("_when is not null or _clear is not null")
    if last is not None:
        known = found.join(last, groups, "left") if groups else found.join(last)
    else:
        known = found.withColumn("_last", sql.lit(None).cast("bigint"))
    group = Window.partitionBy(*groups).orderBy(*_ORDER)
    before = group.rowsBetween(Window.unboundedPreceding, -1)
    newest = sql.greatest(sql.max("_at").over(before), "_last")
    known = known.withColumn("_late", sql.coalesce(sql.col("_at") < newest, sql.lit(False)))
    timely = Window.partitionBy(*groups, "_late").orderBy(*_ORDER)
    verdicts = sql.struct("_when", "_clear")
    changed = ~sql.lag(verdicts).over(timely).eqNullSafe(verdicts)
    is_last = sql.lead("_at").over(timely).isNull()
    wanted = changed | is_last | sql.col("_late")
    if rule.for_us:
        wanted = wanted | sql.coalesce(sql.col("_when"), sql.lit(False))
    return known.withColumn("_wanted", wanted).where("_wanted"), len(groups)


def _told(rows: DataFrame, path: Sequence[str | int]) -> Column:
    """What a rule looks at, as JSON would have it."""
    from pyspark.sql import functions as sql

    found = sql.col(f"`{path[0]}`")
    for step in path[1:]:
        found = found[step]
    return found


def _paths(options: Options) -> list[tuple[str | int, ...]]:
    found: dict[tuple[str | int, ...], None] = {}
    for name in ("when", "clear"):
        if options[name] is not None:
            for node in walk(cast("Predicate", options[name])):
                if isinstance(node, Field):
                    found[node.path] = None
    return list(found)


def events_of(rows: pa.Table, machine: Machine, groups_count: int) -> list[Event]:
    """Rows that matter through the machine, in the order in which they came."""
    names = machine.rule.columns()
    found = []
    for row in rows.sort_by([(name, "ascending") for name in _ORDER]).to_pylist():
        if row["_late"]:  # the machine cannot know: it does not see all rows
            machine.late_count += 1
            continue
        told = {name: scalar(row[f"_v{at}"]) for at, name in enumerate(names)}
        event = machine.see(
            tuple(row[f"_g{at}"] for at in range(groups_count)),
            row["_at"],
            row["_when"],
            row["_clear"],
            row["_key"],
            told,
        )
        if event is not None:
            found.append(event)
    return found


def _table(events: Sequence[Event], by: Sequence[str]) -> pa.Table:
    columns: dict[str, Any] = {
        "id": pa.array([one.id for one in events], pa.string()),
        "state": pa.array([one.state for one in events], pa.string()),
    }
    for at, name in enumerate(by):
        columns[name] = pa.array([one.group[at] for one in events], pa.string())
    columns["at"] = pa.array([one.at_us for one in events], pa.int64()).cast(TIME)
    columns["since"] = pa.array([one.since_us for one in events], pa.int64()).cast(TIME)
    columns["sample_key"] = pa.array([one.key for one in events], pa.string())
    columns["values"] = pa.array([one.values for one in events], pa.string())
    return pa.table(columns)


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    rows, count = reduced(next(iter(frames.values())), options, time.time_ns() // 1_000)
    machine = rule_of(options).machine()
    found = events_of(collected(rows), machine, count)
    return spark.createDataFrame(_table(found, machine.rule.by))


def _refresh(round: Round) -> Changes:
    now_us = here_us(round)
    states = _set_back(_states(round.state), now_us)
    rule = rule_of(round.options)
    machine = Machine(rule, states)
    last = _last(round.spark, states, len(rule.by)) if states else None
    rows, count = reduced(round.inputs[0].fresh(), round.options, now_us, last)
    found = events_of(collected(rows), machine, count)
    late_count = round.mark.get(LATE_COUNT, 0) + machine.late_count
    groups_max = cast("int", round.options.get("groups_max", DEFAULT_LIMITS.gold_groups_count))
    kept = _kept(machine.states, groups_max)
    return Changes(
        _table(found, rule.by),
        mark={LATE_COUNT: late_count},
        state=_state(kept),
        late_count=machine.late_count,
        forgotten_count=len(machine.states) - len(kept),
    )


def _set_back(states: Mapping[Group, State], now_us: int) -> dict[Group, State]:
    """States without times that are yet to come: this host's clock was ahead, and was set back."""
    found = {}
    for group, one in states.items():
        if one.last_us > now_us + SET_BACK_US:
            since_us = one.since_us if one.id is not None else None
            one = State(0, since_us, one.id)
        found[group] = one
    return found


def _kept(states: Mapping[Group, State], groups_max: int) -> Mapping[Group, State]:
    """The groups that are remembered: all for which the condition holds, and the latest others.

    Raises:
        EleaError: it holds for more than are remembered: some alerts would be raised twice, and
            never be cleared.
    """
    if len(states) <= groups_max:
        return states
    open_ = {group: one for group, one in states.items() if one.since_us is not None or one.id}
    if len(open_) > groups_max:
        raise EleaError(
            f"the condition holds for {len(open_)} groups, which exceeds groups_max"
            f" ({groups_max}): set `groups_max` of the alert higher"
        )
    idle = sorted(
        ((group, one) for group, one in states.items() if group not in open_),
        key=lambda item: -item[1].last_us,
    )
    return open_ | dict(idle[: groups_max - len(open_)])


def _last(spark: SparkSession, states: Mapping[Group, State], count: int) -> DataFrame:
    columns: dict[str, Any] = {
        f"_g{at}": pa.array([group[at] for group in states], pa.string()) for at in range(count)
    }
    columns["_last"] = pa.array([state.last_us for state in states.values()], pa.int64())
    return spark.createDataFrame(pa.table(columns))


def _state(states: Mapping[Group, State]) -> pa.Table:
    return pa.table(
        {
            "group": pa.array([json.dumps(list(group)) for group in states], pa.string()),
            "last_us": pa.array([one.last_us for one in states.values()], pa.int64()),
            "since_us": pa.array([one.since_us for one in states.values()], pa.int64()),
            "id": pa.array([one.id for one in states.values()], pa.string()),
        }
    )


def _states(state: pa.Table | None) -> dict[Group, State]:
    rows = [] if state is None else state.to_pylist()
    return {
        tuple(json.loads(row["group"])): State(row["last_us"], row["since_us"], row["id"])
        for row in rows
    }


ALERT: Final = Kind(
    name="alert",
    help="events when a condition begins to hold and when it ends",
    options=(
        Option("when", values.predicate, "the condition, in the language of predicates"),
        Option("for", values.duration, "how long it has to hold", 0),
        Option(
            "clear",
            values.predicate,
            "the condition that ends it; else that `when` does not hold",
            None,
        ),
        Option("by", values.names, "columns that tell groups apart", ()),
        Option("name", values.column_name, "part of the ids of alerts; else `when`", None),
        Option(
            "groups_max",
            values.count,
            "how many groups are remembered; of those that are not raised the latest ones",
            DEFAULT_LIMITS.gold_groups_count,
            defines=False,
        ),
        DRIFT,
    ),
    mode="append",
    identity=lambda options: ("id", "state"),
    apply=_apply,
    refresh=_refresh,
)

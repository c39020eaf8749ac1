"""Rounds of tables that are made span by span: which are closed now, and only those are made.

Remembered are the positions of devices, as rows, and as marks the time of the log and the time up
to which spans are closed. A span is closed once. Rows that come later are counted; they are in the
table they came from, and a back-fill of that time takes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from elea.spark.pipelines.gold.frames import collected, moment, puts, require
from elea.spark.pipelines.gold.rounds import Changes, Input, Round
from elea.spark.pipelines.gold.watermark import Device, Life, watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOSED: Final = "closed_us"  # spans that end then or before are closed
NOW: Final = "now_us"  # the time of the log
LATE_COUNT: Final = "late_count"  # rows that came too late, ever
_PUBLISHER: Final = ("zid", "eid")
_POSITION: Final = "position_us"
_DEVICES_MAX: Final = 1_000_000  # positions that are remembered; the latest ones


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of time: how long each is, and how far apart they begin."""

    every_us: int
    slide_us: int

    def first_end(self, time: str) -> str:
        """In SQL, the end of the first span that holds a moment."""
        every, slide = self.every_us, self.slide_us
        return f"(floor(({time} - {every}) / {slide}) + 1) * {slide} + {every}"


def closed(
    round: Round, spans: Spans, made: Callable[[DataFrame], DataFrame], time: str = "window_end"
) -> Changes:
    """The spans that this round closes.

    Args:
        made: From rows to spans.
        time: The column of the end of a span.
    """
    from pyspark.sql import functions as sql

    source = round.inputs[0]
    before = round.mark.get(CLOSED)
    names = devices_of(round, source.fresh())
    seen = advance(round, [source], names, spans, lives=lives_of(round, names))
    after = seen.closed_us
    if round.is_final and seen.positions:
        after = max(after, max(seen.positions.values()) + spans.every_us)
    if before is not None:
        after = max(after, before)
    mark = {
        CLOSED: after,
        NOW: seen.now_us,
        LATE_COUNT: round.mark.get(LATE_COUNT, 0) + seen.late_count,
    }
    state = seen.state(names)
    if after == before or not seen.positions:
        return Changes(None, mark=mark, state=state, late_count=seen.late_count)
    since = None if before is None else before - spans.every_us
    found = made(source.rows(since, after))
    end = sql.unix_micros(sql.col(time))
    found = found.where(end <= after)
    if before is not None:
        found = found.where(end > before)
    return Changes(collected(found), mark=mark, state=state, late_count=seen.late_count)


@dataclass(frozen=True, slots=True)
class Seen:
    """What new rows tell."""

    positions: Mapping[Device, int]
    now_us: int
    closed_us: int
    late_count: int

    def state(self, names: Sequence[str]) -> pa.Table:
        """The positions as rows, to be remembered."""
        latest = sorted(self.positions.items(), key=lambda item: -item[1])[:_DEVICES_MAX]
        columns: dict[str, Any] = {
            name: pa.array([str(device[at]) for device, _ in latest], pa.string())
            for at, name in enumerate(names)
        }
        columns[_POSITION] = pa.array([position for _, position in latest], pa.int64())
        return pa.table(columns)


def advance(
    round: Round,
    inputs: Sequence[Input],
    names: Sequence[str],
    spans: Spans,
    *,
    lives: Mapping[Device, Life],
    is_apart: bool = False,
) -> Seen:
    """Positions and the time of the log, with what is new.

    Args:
        is_apart: A device has a position in each source; its number comes before the names.
    """
    known = ("_table", *names) if is_apart else names
    positions = _remembered(round.state, known)
    now_us = round.mark.get(NOW, 0)
    before = round.mark.get(CLOSED)
    late_count = 0
    for number, one in enumerate(inputs):
        told = _told(one.fresh(), names, spans, None if one.is_whole else before)
        for row in told.to_pylist():
            device = tuple(str(row[name]) for name in names)
            if is_apart:
                device = (str(number), *device)
            positions[device] = max(positions.get(device, 0), row["position"])
            now_us = max(now_us, row["received"])
            late_count += row["late"]
    if round.now_us is not None:
        now_us = max(now_us, round.now_us)
    late_us = cast("int", round.options["late"])
    return Seen(positions, now_us, watermark(positions, lives, now_us, late_us), late_count)


def _told(frame: DataFrame, names: Sequence[str], spans: Spans, before: int | None) -> pa.Table:
    """By device: the latest time, when the last row was received, how many are late."""
    from pyspark.sql import functions as sql

    rows = puts(frame)
    at = sql.unix_micros(moment(rows))
    rows = rows.withColumn("_at", at)
    received = "recv_ts" if "recv_ts" in rows.columns else None
    late = (
        sql.lit(0)
        if before is None
        else sql.expr(f"count_if({spans.first_end('_at')} <= {before})")
    )
    grouped = rows.groupBy(*(sql.col(f"`{name}`") for name in names))
    return collected(
        grouped.agg(
            sql.max("_at").alias("position"),
            (sql.max(sql.unix_micros(received)) if received else sql.max("_at")).alias("received"),
            late.cast("bigint").alias("late"),
        ).where("position is not null")
    )


def _remembered(state: pa.Table | None, names: Sequence[str]) -> dict[Device, int]:
    if state is None:
        return {}
    columns = [state[name].to_pylist() for name in names]
    devices = zip(*columns, strict=True) if columns else ((),) * state.num_rows
    return dict(zip(devices, state[_POSITION].to_pylist(), strict=True))


def devices_of(round: Round, frame: DataFrame) -> tuple[str, ...]:
    """The columns that tell who sends."""
    names = cast("tuple[str, ...]", round.options.get("device") or ())
    if names:
        require(frame, names, "device")
        return names
    names = cast("tuple[str, ...]", round.options.get("by") or ())
    if len(round.inputs) > 1 and names:
        told = round.inputs[1].rows().columns
        names = tuple(name for name in names if name in told) or names
    if names:
        return names
    return tuple(name for name in _PUBLISHER if name in frame.columns)


def lives_of(round: Round, names: Sequence[str]) -> dict[Device, Life]:
    """What a second source, a table of kind `presence`, tells of devices."""
    from pyspark.sql import functions as sql

    if len(round.inputs) < 2:
        return {}
    presence = round.inputs[1].rows()
    require(presence, [*names, "online_from", "online_to"], "from: the second source, of presence")
    found = presence.groupBy(*(sql.col(f"`{name}`") for name in names)).agg(
        sql.max(sql.unix_micros("online_from")).alias("since"),
        sql.bool_or(sql.col("online_to").isNull()).alias("alive"),
    )
    return {
        tuple(str(row[name]) for name in names): Life(row["alive"], row["since"])
        for row in collected(found).to_pylist()
    }

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
WAITING: Final = "waiting_count"  # rows of spans that could be closed, and are not yet
LATE_COUNT: Final = "late_count"  # rows that came too late, ever
_PUBLISHER: Final = ("zid", "eid")
_POSITION: Final = "position_us"
_ROWS_MAX: Final = 1_000_000  # of a piece of history: what it gives is in the driver's memory
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
    upto = seen.closed_us
    if round.is_final and seen.positions:
        upto = max(upto, max(seen.positions.values()) + spans.every_us)
    step = seen.step(upto, round.mark, spans.slide_us)
    after = step.after_us
    mark, state = seen.mark(round.mark, step), seen.state(names)
    if after == before or not seen.positions:
        return Changes(None, mark=mark, state=state, late_count=seen.late_count)
    since = None if before is None else before - spans.every_us
    found = made(source.rows(since, after))
    end = sql.unix_micros(sql.col(time))
    found = found.where(end <= after)
    if before is not None:
        found = found.where(end > before)
    return Changes(
        collected(found),
        mark=mark,
        state=state,
        late_count=seen.late_count,
        is_partial=after < upto,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """Up to where a round closes spans, and how many rows are left, more or less."""

    after_us: int
    waiting_count: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What new rows tell.

    Args:
        positions: By device, the time of its latest row.
        first_us: The time of the first of the new rows; None: there are none,
        rows_count: and how many there are.
        now_us: The time of the log.
        closed_us: The time up to which spans can be closed.
        late_count: Rows of spans that are closed.
    """

    positions: Mapping[Device, int]
    first_us: int | None
    rows_count: int
    now_us: int
    closed_us: int
    late_count: int

    def step(self, upto_us: int, before: Mapping[str, int], least_us: int) -> Step:
        """Up to where this round closes spans: a long history is taken in pieces.

        Args:
            upto_us: Up to where they can be closed.
            before: What the round before remembered.
            least_us: How much time a piece has at least.

        Example:
            >>> Seen({("a",): 100}, 0, 3_000_000, 0, 100, 0).step(90, {}, 1)
            Step(after_us=30, waiting_count=2000000)
            >>> Seen({("a",): 100}, None, 0, 0, 100, 0).step(90, {CLOSED: 60, WAITING: 9}, 1)
            Step(after_us=90, waiting_count=0)
        """
        start_us = before.get(CLOSED, self.first_us)
        waiting_count = before.get(WAITING, 0) + self.rows_count
        if start_us is None or upto_us <= start_us:
            return Step(upto_us if start_us is None else start_us, waiting_count)
        if waiting_count <= _ROWS_MAX:
            return Step(upto_us, 0)
        length_us = max((upto_us - start_us) * _ROWS_MAX // waiting_count, least_us)
        return Step(min(start_us + length_us, upto_us), waiting_count - _ROWS_MAX)

    def mark(self, before: Mapping[str, int], step: Step) -> dict[str, int]:
        """What to remember."""
        late_count = before.get(LATE_COUNT, 0) + self.late_count
        found = {NOW: self.now_us, LATE_COUNT: late_count, WAITING: step.waiting_count}
        return found | ({CLOSED: step.after_us} if self.positions else {})

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
    first_us, rows_count = None, 0
    for number, one in enumerate(inputs):
        told = _told(one.fresh(), names, spans, None if one.is_whole else before)
        for row in told.to_pylist():
            device = tuple(str(row[name]) for name in names)
            if is_apart:
                device = (str(number), *device)
            positions[device] = max(positions.get(device, 0), row["position"])
            now_us = max(now_us, row["received"])
            late_count += row["late"]
            rows_count += 0 if one.is_whole else row["rows"]
            first_us = row["first"] if first_us is None else min(first_us, row["first"])
    if round.now_us is not None:
        now_us = max(now_us, round.now_us)
    late_us = cast("int", round.options["late"])
    closed_us = watermark(positions, lives, now_us, late_us)
    return Seen(positions, first_us, rows_count, now_us, closed_us, late_count)


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
            sql.count(sql.lit(1)).alias("rows"),
            sql.min("_at").alias("first"),
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

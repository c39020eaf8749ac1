"""Rounds of tables that are made span by span: which are closed now, and only those are made.

Remembered are the positions of devices, as rows, and as marks the time of the log and the time up
to which spans are closed. A span is closed once. Rows that come later are counted and kept; they
are in the table they came from, and a back-fill of that time takes them in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from elea.limits import DEFAULT_LIMITS
from elea.spark.pipelines.gold.frames import collected, moment, puts, require
from elea.spark.pipelines.gold.late import LATE_COUNT, REFILL_SINCE, REFILL_UNTIL, with_refill
from elea.spark.pipelines.gold.late import ROWS_MAX as LATE_ROWS_MAX
from elea.spark.pipelines.gold.rounds import Changes, Input, Round
from elea.spark.pipelines.gold.watermark import DRIFT_US, Device, Life, watermark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLOSED: Final = "closed_us"  # spans that end then or before are closed
NOW: Final = "now_us"  # the time of the log
WAITING: Final = "waiting_count"  # rows of spans that could be closed, and are not yet
AHEAD_COUNT: Final = "ahead_count"  # rows whose timestamps were too far ahead, ever
LAST: Final = "last_us"  # the latest timestamp, however far ahead it is
_PUBLISHER: Final = ("zid", "eid")
_POSITION: Final = "position_us"
SET_BACK_US: Final = 60_000_000  # a clock that was set back by less is waited for
_ROWS_MAX: Final = 1_000_000  # of a piece of history: what it gives is in the driver's memory


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of time: how long each is, and how far apart they begin."""

    every_us: int
    slide_us: int

    def first_end(self, time: str) -> str:
        """In SQL, the end of the first span that holds a moment."""
        every, slide = self.every_us, self.slide_us
        return f"(floor(({time} - {every}) / {slide}) + 1) * {slide} + {every}"

    def end_between(self, before_us: int | None, after_us: int) -> bool:
        """Whether a span ends after a time, and at another or before.

        Example:
            >>> spans = Spans(10, 5)
            >>> spans.end_between(20, 24), spans.end_between(20, 25), spans.end_between(None, 0)
            (False, True, True)
        """
        if before_us is None:
            return True
        lasts = [(at - self.every_us) // self.slide_us for at in (before_us, after_us)]
        return lasts[0] < lasts[1]


def closed(
    round: Round, spans: Spans, made: Callable[[DataFrame], DataFrame], end: str = "window_end"
) -> Changes:
    """The spans that this round closes.

    Args:
        made: From rows to spans.
        end: The column of the end of a span.
    """
    from pyspark.sql import functions as sql

    round, gone = set_back(round, end)
    source = round.inputs[0]
    before = round.mark.get(CLOSED)
    names = devices_of(round, source.fresh())
    seen = advance(round, [source], names, spans, lives=lives_of(round, names))
    upto = seen.closed_us
    if round.is_final and seen.positions:
        upto = max(upto, seen.last_us + spans.every_us)
    step = seen.step(upto, round.mark, spans.slide_us)
    after = step.after_us
    mark = seen.mark(round.mark, step, (1 - spans.every_us, 1))
    if not seen.positions or not spans.end_between(before, after):
        return seen.changes(None, mark, names, is_partial=after < upto, removed=gone)
    since = None if before is None else before - spans.every_us
    found = made(source.rows(since, after))
    ends = sql.unix_micros(sql.col(end))
    found = found.where(ends <= after)
    if before is not None:
        found = found.where(ends > before)
    return seen.changes(collected(found), mark, names, is_partial=after < upto, removed=gone)


def set_back(round: Round, column: str, length_us: int = 0) -> tuple[Round, pa.Table | None]:
    """The round, and rows to be removed, where spans are closed that this host's clock has before
    it: it was ahead when they were closed, and was set back. They are closed again when it is time.

    Args:
        column: Of the table, when a span ends,
        length_us: or that much before it ends.
    """
    closed_us = round.mark.get(CLOSED)
    now_us = here_us(round)
    if closed_us is None or round.is_final or closed_us <= now_us + SET_BACK_US:
        return round, None
    closed_us = now_us - cast("int", round.options["late"])
    made = None if round.table.schema() is None else round.table.rows([column])
    gone = None
    if made is not None:
        ends = pc.add(made[column].cast(pa.int64()), length_us)
        gone = made.filter(pc.greater(ends, closed_us))
    mark = {**round.mark, CLOSED: closed_us, NOW: min(round.mark.get(NOW, 0), now_us)}
    return replace(round, mark=mark), gone


def here_us(round: Round) -> int:
    """The time of day: nothing was received later, whatever the clock of a recorder said."""
    return max(time.time_ns() // 1_000, round.now_us or 0)


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
        late_count: Rows of spans that are closed,
        late: the rows themselves, as many as are kept,
        refill: and from when to when those of them are that a recorder may have filled in.
        ahead_count: Rows whose timestamps are further ahead of their reception than `drift`, or
            this of the time of day.
        last_us: The latest timestamp of all, however far ahead.
        devices_max: How many positions are remembered.
    """

    positions: Mapping[Device, int]
    first_us: int | None
    rows_count: int
    now_us: int
    closed_us: int
    late_count: int
    late: pa.Table | None = None
    refill: tuple[int, int] | None = None
    ahead_count: int = 0
    last_us: int = 0
    devices_max: int = DEFAULT_LIMITS.gold_devices_count

    def changes(
        self,
        rows: pa.Table | None,
        mark: Mapping[str, int],
        names: Sequence[str],
        *,
        is_partial: bool,
        removed: pa.Table | None = None,
    ) -> Changes:
        """What becomes of the table, with what new rows tell."""
        return Changes(
            rows,
            removed,
            mark=mark,
            state=self.state(names),
            late_count=self.late_count,
            is_partial=is_partial,
            late=self.late,
            ahead_count=self.ahead_count,
            forgotten_count=max(0, len(self.positions) - self.devices_max),
        )

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
            # The first rows may be ahead of what can be closed: nothing is closed by that.
            return Step(before.get(CLOSED, upto_us), waiting_count)
        if waiting_count <= _ROWS_MAX:
            return Step(upto_us, 0)
        length_us = max((upto_us - start_us) * _ROWS_MAX // waiting_count, least_us)
        return Step(min(start_us + length_us, upto_us), waiting_count - _ROWS_MAX)

    def mark(
        self, before: Mapping[str, int], step: Step, margin: tuple[int, int]
    ) -> dict[str, int]:
        """What to remember.

        Args:
            margin: How far before and after a row there is something that is made of it.
        """
        found = {
            NOW: self.now_us,
            LATE_COUNT: before.get(LATE_COUNT, 0) + self.late_count,
            AHEAD_COUNT: before.get(AHEAD_COUNT, 0) + self.ahead_count,
            WAITING: step.waiting_count,
            LAST: self.last_us,
        }
        found |= {CLOSED: step.after_us} if self.positions else {}
        kept = {name: before[name] for name in (REFILL_SINCE, REFILL_UNTIL) if name in before}
        if self.refill is None:
            return found | kept
        span = (self.refill[0] + margin[0], self.refill[1] + margin[1])
        return with_refill(found | kept, span)

    def state(self, names: Sequence[str]) -> pa.Table:
        """The positions as rows, to be remembered."""
        latest = sorted(self.positions.items(), key=lambda item: -item[1])
        latest = latest[: self.devices_max]
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
    today_us = here_us(round)
    now_us = min(round.mark.get(NOW, 0), today_us)
    before = round.mark.get(CLOSED)
    late_count = ahead_count = 0
    last_us = round.mark.get(LAST, 0)
    first_us, rows_count = None, 0
    drift_us = cast("int", round.options.get("drift", DRIFT_US))
    if any(at > today_us + drift_us + SET_BACK_US for at in positions.values()):
        positions = {device: min(at, today_us) for device, at in positions.items()}
    late: list[pa.Table] = []
    refills: list[int] = []
    for number, one in enumerate(inputs):
        rows = _timed(one.fresh(), today_us)
        told = _told(rows, names, spans, None if one.is_whole else before, drift_us)
        for row in told.to_pylist():
            device = tuple(str(row[name]) for name in names)
            if is_apart:
                device = (str(number), *device)
            positions[device] = max(positions.get(device, 0), row["position"])
            now_us = max(now_us, row["received"])
            late_count += row["late"]
            ahead_count += row["ahead"]
            last_us = max(last_us, row["last"])
            refills += [row[end] for end in ("refill_first", "refill_last") if row[end] is not None]
            rows_count += 0 if one.is_whole else row["rows"]
            first_us = row["first"] if first_us is None else min(first_us, row["first"])
        if number == 0 and before is not None and late_count:
            late.append(_late_rows(rows, spans, before))
    last_us = max(last_us, max(positions.values(), default=0))
    if round.now_us is not None:
        now_us = max(now_us, round.now_us)
    late_us = cast("int", round.options["late"])
    closed_us = watermark(positions, lives, now_us, late_us, drift_us)
    return Seen(
        *(positions, first_us, rows_count, now_us, closed_us, late_count),
        late=late[0] if late else None,
        refill=(min(refills), max(refills)) if refills else None,
        ahead_count=ahead_count,
        last_us=last_us,
        devices_max=cast(
            "int", round.options.get("devices_max", DEFAULT_LIMITS.gold_devices_count)
        ),
    )


def _timed(frame: DataFrame, now_us: int) -> DataFrame:
    """Rows that hold values, with the time of each, and of when it was received at the latest.

    A recorder whose clock is ahead, like a device, would close spans into tomorrow: nothing was
    received after now.
    """
    from pyspark.sql import functions as sql

    rows = puts(frame)
    rows = rows.withColumn("_at", sql.unix_micros(moment(rows)))
    # Of a table without it, what is in it was there by now.
    received = sql.unix_micros("recv_ts") if "recv_ts" in rows.columns else sql.col("_at")
    rows = rows.withColumn("_told", received)
    return rows.withColumn("_received", sql.least("_told", sql.lit(now_us)))


def _is_late(spans: Spans, before: int | None) -> Column:
    from pyspark.sql import functions as sql

    return sql.lit(False) if before is None else sql.expr(f"{spans.first_end('_at')} <= {before}")


def _told(
    rows: DataFrame, names: Sequence[str], spans: Spans, before: int | None, drift_us: int
) -> pa.Table:
    """By device: the latest time, when the last row was received, how many are late.

    A timestamp is believed up to `drift` ahead of its reception: one device whose clock is wrong
    would close spans into the future.
    """
    from pyspark.sql import functions as sql

    late = _is_late(spans, before)
    limit = sql.col("_received") + drift_us
    filled = late & sql.col("sn").isNotNull() if "sn" in rows.columns else sql.lit(False)
    filled_at = sql.when(filled, sql.col("_at"))
    ahead = (sql.col("_at") > limit) | (sql.col("_told") > limit)
    grouped = rows.groupBy(*(sql.col(f"`{name}`") for name in names))
    return collected(
        grouped.agg(
            sql.count(sql.lit(1)).alias("rows"),
            sql.min("_at").alias("first"),
            sql.max("_at").alias("last"),
            sql.max(sql.least("_at", limit)).alias("position"),
            sql.max("_received").alias("received"),
            sql.count_if(late).cast("bigint").alias("late"),
            sql.count_if(ahead).cast("bigint").alias("ahead"),
            sql.min(filled_at).alias("refill_first"),
            sql.max(filled_at).alias("refill_last"),
        ).where("position is not null")
    )


def _late_rows(rows: DataFrame, spans: Spans, before: int) -> pa.Table:
    return collected(
        rows.where(_is_late(spans, before)).drop("_at", "_told", "_received").limit(LATE_ROWS_MAX)
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

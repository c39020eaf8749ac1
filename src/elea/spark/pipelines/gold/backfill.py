"""Back-fill: make a gold table, or a range of it, anew from what it is made of.

A range has the rows then that all rows of the sources give, also those that came too late. Exactly
the rows of the range are replaced, in one step; the rest of the table and what its rounds remember
stay as they are. Without a range all of it is made anew, also by another definition.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import ConfigError, StoreError
from elea.spark.pipelines.gold.event_time import CLOSED
from elea.spark.pipelines.gold.frames import collected
from elea.spark.pipelines.gold.inputs import Made, Rows, opened
from elea.spark.pipelines.gold.late import without_refill
from elea.spark.pipelines.gold.memory import LOCK, Memory, Remembered, Seen
from elea.spark.pipelines.gold.refresh import Gold, fitted, rounds
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.store.log.schema import TIME
from elea.store.tables.results import (
    Removal,
    Results,
    open_results,
    removal_all,
    removal_between,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARGINS: Final = ("every", "tolerance")  # options: what is made of rows is that far from them


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a back-fill did: rows that went, rows that came, and the number of the change."""

    removed_count: int
    added_count: int
    number: int


def backfill(
    spark: SparkSession, gold: Gold, since_us: int | None = None, until_us: int | None = None
) -> Backfilled:
    """Make a table anew, or the rows of a span of time.

    Args:
        since_us: From this time on, in microseconds since 1970,
        until_us: and before this one. For windows the time is when they begin.

    Raises:
        ConfigError: the kind cannot be made anew in part, or the table has another definition.
        StoreError: a source is not there, or somebody else changed the table meanwhile.
    """
    whole = since_us is None and until_us is None
    if not whole and gold.kind.time is None:
        reason = f"a table of kind {gold.kind.name} is made anew as a whole: leave out the range"
        raise ConfigError(str(gold.path), reason)
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise ConfigError(str(gold.path), "the range ends before it begins")
    with Memory(gold.path.absolute()).locked():
        if whole:
            made, is_partial = _rebuilt(spark, gold)
            if is_partial:
                more = rounds(spark, gold, Memory(gold.path.absolute()), is_partial=True)
                added_count = made.added_count + more.rows_count
                made = replace(made, added_count=added_count, number=more.number)
            return made
        return _replaced(spark, gold, since_us, until_us)


def _replaced(
    spark: SparkSession, gold: Gold, since_us: int | None, until_us: int | None
) -> Backfilled:
    """A range: what is closed of it."""
    from pyspark.sql import functions as sql

    results = open_results(gold.path, gold.format)
    memory = Memory(results.root)
    number = results.number()
    known = memory.load(number)
    if known is None or CLOSED not in known.mark:
        return Backfilled(0, 0, number)  # nothing is closed yet: the rounds will make it
    if known.definition != gold.definition:
        reason = f"made as {known.definition}, now {gold.definition}; leave out the range"
        raise ConfigError(str(gold.path), reason)
    margin = max(cast("int", gold.options.get(name) or 0) for name in _MARGINS)
    low = None if since_us is None else since_us - margin
    high = None if until_us is None else until_us + margin
    frames: dict[str, DataFrame] = {
        str(at): one.rows(low, high) if isinstance(one, Rows) else one.rows()
        for at, one in enumerate(_inputs(spark, gold))
    }
    time = cast("str", gold.kind.time)
    found = gold.kind.apply(spark, frames, gold.options)
    at = sql.unix_micros(sql.col(time))
    if since_us is not None:
        found = found.where(at >= since_us)
    if until_us is not None:
        found = found.where(at < until_us)
    # What is open is for the rounds.
    closed_us = known.mark[CLOSED]
    if "window_end" in found.columns:
        found = found.where(sql.unix_micros("window_end") <= closed_us)
    else:
        found = found.where(at < closed_us)
    removal = removal_between(time, _scalar(since_us), _scalar(until_us))
    changes = fitted(Changes(collected(found)), results.schema(), gold.path)
    known = replace(known, mark=without_refill(known.mark, since_us, until_us))
    return _changed(results, memory, known, changes.rows, removal)


def _rebuilt(spark: SparkSession, gold: Gold) -> tuple[Backfilled, bool]:
    """All of it: a round from the beginning, in place of what there is; and if more follow."""
    results = open_results(gold.path, gold.format)
    inputs = _inputs(spark, gold)
    nothing = _Nothing()
    changes = gold.kind.refresh(Round(spark, inputs, gold.options, {}, None, nothing))
    told = Remembered(gold.definition, [one.seen() for one in inputs], changes.mark, changes.state)
    rows = changes.rows
    have = results.schema()
    if have is not None and rows is not None and set(have.names) != set(rows.column_names):
        removed_count = results.rows_count()
        _emptied(results.root)  # other columns: another table
        made = _changed(open_results(gold.path, gold.format), Memory(results.root), told, rows)
        return replace(made, removed_count=removed_count), changes.is_partial
    made = _changed(results, Memory(results.root), told, rows, removal_all(have))
    return made, changes.is_partial


def _changed(
    results: Results,
    memory: Memory,
    told: Remembered,
    rows: pa.Table | None,
    removal: Removal | None = None,
) -> Backfilled:
    before = results.rows_count()
    removed_count = 0
    if removal is not None and before:
        looked_at = results.rows(removal.columns)
        removed_count = pc.sum(removal.marked(looked_at)).as_py() or 0
    number = results.number() + 1
    memory.store(number, told)
    results.change(number, rows, [] if removal is None else [removal])
    number = results.number()  # without rows, of a table that is not there, nothing is changed
    memory.store(number, told)
    memory.forget(number)
    return Backfilled(removed_count, 0 if rows is None else rows.num_rows, number)


def _emptied(root: Path) -> None:
    """Take away a table; what holds the lock stays."""
    for path in root.iterdir():
        if path.is_dir() and path.name != "_elea":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    for path in (root / "_elea").iterdir():
        if path.name != LOCK:
            path.unlink()


def _inputs(spark: SparkSession, gold: Gold) -> list[Rows | Made]:
    found = []
    for path in gold.sources:
        one = opened(spark, Path(path), Seen())
        if one is None:
            raise StoreError(f"{path}: no table, so that nothing can be made of it")
        found.append(one)
    return found


class _Nothing:
    """A table that is not there yet."""

    def schema(self) -> pa.Schema | None:
        """None."""
        return None

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table | None:
        """None."""
        return None


def _scalar(microseconds: int | None) -> pa.Scalar | None:
    return None if microseconds is None else pa.scalar(microseconds, pa.int64()).cast(TIME)

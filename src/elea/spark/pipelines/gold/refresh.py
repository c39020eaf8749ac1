"""Bring a gold table up to date: one round.

A round reads what is new in the sources, asks the kind what becomes of the table, and changes it in
one step together with what is remembered. It may be repeated, killed and begun again at any point:
the next one sees the table as it is, and what was remembered with it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from elea.errors import ConfigError
from elea.spark.jvm import SMALL
from elea.spark.pipelines.gold.base import Kind, Options
from elea.spark.pipelines.gold.inputs import Made, Rows, opened
from elea.spark.pipelines.gold.late import LATE, keep_late
from elea.spark.pipelines.gold.memory import Memory, Remembered, Seen
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.store.tables.results import Removal, open_results, removal_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("elea.spark")


class Outgoing(Protocol):
    """Where rows go that are to be published: `elea.spark.pipelines.outbox`."""

    def keep(self, rows: pa.Table, number: int) -> None:
        """Rows that the change of a number will bring."""

    def deliver(self, number: int) -> None:
        """The last change of the table has this number: send what it has."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a round did.

    Args:
        rows: That were added or changed; None: none.
        removed_count: Rows that went.
        late_count: Rows that came after what they belong to was closed.
        number: Of the table's last change.
        ahead_count: Rows whose timestamps are further ahead than `drift`.
        forgotten_count: Groups, devices or publishers that exceed the bound.
        totals: The same three, and what else is remembered, since the table was made.
    """

    rows: pa.Table | None = None
    removed_count: int = 0
    late_count: int = 0
    number: int = 0
    ahead_count: int = 0
    forgotten_count: int = 0
    totals: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_count(self) -> int:
        """How many rows were added or changed."""
        return 0 if self.rows is None else self.rows.num_rows


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold table.

    Args:
        kind: What it is.
        options: As `Kind.parsed` gave them.
        sources: The directories of the tables it is made of, in their order.
        path: Its own directory.
        format: `delta`, `iceberg` or `parquet`.
    """

    kind: Kind
    options: Options
    sources: Sequence[Path]
    path: Path
    format: str = "delta"

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that name a row."""
        return self.kind.identity(self.options)

    @property
    def late_path(self) -> Path:
        """The directory of the table of rows that came too late."""
        return self.path.with_name(self.path.name + LATE)

    @property
    def definition(self) -> str:
        """What makes it what it is, as text: a table is of one definition."""
        free = {option.name for option in self.kind.options if not option.defines}
        told = {name: str(one) for name, one in self.options.items() if name not in free}
        return json.dumps({"kind": self.kind.name, **told}, sort_keys=True)

    def removals(self, changes: Changes) -> list[Removal]:
        """Which rows go for what changes."""
        found = []
        if self.kind.mode == "update" and changes.rows is not None:
            found.append(removal_of(changes.rows.select(list(self.identity))))
        if changes.removed is not None:
            found.append(removal_of(changes.removed))
        return [one for one in found if one is not None]


def refresh(
    spark: SparkSession,
    gold: Gold,
    *,
    now_us: int | None = None,
    is_final: bool = False,
    outbox: Outgoing | None = None,
) -> Refreshed:
    """One round of a table.

    Args:
        now_us: The time of day, in microseconds since 1970, if nothing that was received before it
            is missing in the sources; else the time of the log is that of the last row of them.
        is_final: Nothing more is to come: close what is open.
        outbox: Publishes rows that were added or changed, once they are in the table.

    Raises:
        ConfigError: the table was made by another definition, or a column is missing.
        StoreError: somebody else changes the table, or it is damaged.
    """
    memory = Memory(gold.path.absolute())
    with memory.locked():
        return rounds(spark, gold, memory, now_us, is_final, outbox)


def rounds(
    spark: SparkSession,
    gold: Gold,
    memory: Memory,
    now_us: int | None = None,
    is_final: bool = False,
    outbox: Outgoing | None = None,
    *,
    is_partial: bool = False,
) -> Refreshed:
    """As many rounds as it takes: a long history is taken in pieces. The lock is held.

    Args:
        is_partial: The round before left something.
    """
    found = Refreshed()
    while True:
        one, is_partial = _round(
            spark, gold, memory, now_us, is_final, outbox, is_partial=is_partial
        )
        tables = [rows for rows in (found.rows, one.rows) if rows is not None]
        found = Refreshed(
            pa.concat_tables(tables) if tables else None,
            found.removed_count + one.removed_count,
            found.late_count + one.late_count,
            one.number,
            found.ahead_count + one.ahead_count,
            found.forgotten_count + one.forgotten_count,
            one.totals or found.totals,
        )
        if not is_partial:
            return found


def _round(
    spark: SparkSession,
    gold: Gold,
    memory: Memory,
    now_us: int | None,
    is_final: bool,
    outbox: Outgoing | None,
    *,
    is_partial: bool,
) -> tuple[Refreshed, bool]:
    results = open_results(gold.path, gold.format)
    number = results.number()
    if outbox is not None:  # what a round before left
        outbox.deliver(number)
    known = memory.load(number) or Remembered(gold.definition)
    if known.definition != gold.definition:
        reason = f"made as {known.definition}, now {gold.definition}; make it anew by a back-fill"
        raise ConfigError(str(gold.path), reason)
    seen = known.seen or [Seen()] * len(gold.sources)
    inputs: list[Rows | Made] = []
    for path, one in zip(gold.sources, seen, strict=True):
        found = opened(spark, path, one)
        if found is None:
            return Refreshed(number=number), False
        inputs.append(found)
    is_due = is_partial or is_final or now_us is not None
    if not (is_due or any(one.has_new for one in inputs)):
        return Refreshed(number=number, totals=known.mark), False
    if all(one.is_small for one in inputs):
        spark = _small_session(spark)
        for input in inputs:
            input.use(spark)
    round = Round(spark, inputs, gold.options, known.mark, known.state, results, now_us, is_final)
    changes = fitted(gold.kind.refresh(round), results.schema(), gold.path)
    told = Remembered(gold.definition, [one.seen() for one in inputs], changes.mark, changes.state)
    removed_count = 0 if changes.removed is None else changes.removed.num_rows
    if changes.late is not None and changes.late.num_rows:
        keep_late(gold.late_path, gold.format, changes.late)
    if changes.is_empty:
        memory.store(number, told)
    else:
        number += 1
        if outbox is not None and changes.rows is not None:
            outbox.keep(changes.rows, number)
        memory.store(number, told)
        results.change(number, changes.rows, gold.removals(changes))
        memory.forget(number)
        if outbox is not None:
            outbox.deliver(number)
    counts = (changes.late_count, number, changes.ahead_count, changes.forgotten_count)
    return Refreshed(changes.rows, removed_count, *counts, changes.mark), changes.is_partial


@lru_cache(maxsize=2)
def _small_session(spark: SparkSession) -> SparkSession:
    """The same Spark, for few rows: to plan and compile a query costs more than those."""
    made = spark.newSession()
    for name, value in SMALL.items():
        made.conf.set(name, value)
    return made


def fitted(changes: Changes, schema: pa.Schema | None, path: Path) -> Changes:
    """Rows with the columns of the table: a source may have got others since it was made."""
    rows = changes.rows
    if rows is None or schema is None or rows.column_names == schema.names:
        return changes
    added = [name for name in rows.column_names if name not in schema.names]
    if added:
        _tell(str(path), ", ".join(added))
    columns = [
        rows[one.name] if one.name in rows.column_names else pa.nulls(rows.num_rows, one.type)
        for one in schema
    ]
    return replace(changes, rows=pa.table(columns, names=schema.names))


@lru_cache(maxsize=1_024)
def _tell(path: str, columns: str) -> None:
    """Once for each table, as long as it is remembered."""
    _LOG.warning("%s was made before there was %s: left out; back-fill it whole", path, columns)

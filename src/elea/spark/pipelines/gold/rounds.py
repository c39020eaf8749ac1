"""One round: what a gold table is brought up to date with, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from elea.spark.pipelines.gold.base import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Input(Protocol):
    """A source, as one round sees it: what comes in meanwhile is for the next one."""

    @property
    def is_whole(self) -> bool:
        """Whether `fresh` gives all rows, as it is not known which are new."""

    def rows(self, since_us: int | None = None, until_us: int | None = None) -> DataFrame:
        """Rows of a span of time, in microseconds since 1970; files without any are not read."""

    def fresh(self) -> DataFrame:
        """Rows that no round had before, and each of them in one round."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a kind is given.

    Args:
        inputs: The sources, in their order.
        mark: What it remembered at the end of the round before, as JSON can hold it.
        state: The same, as rows; None: none yet.
        table: What is in the table, by columns that are asked for.
        now_us: The time up to which the sources are complete, if who runs this knows it.
        is_final: There is nothing more to come: what is open is to be closed.
    """

    spark: SparkSession
    inputs: Sequence[Input]
    options: Options
    mark: Mapping[str, int]
    state: pa.Table | None
    table: Stored
    now_us: int | None = None
    is_final: bool = False


class Stored(Protocol):
    """The rows of the table that is brought up to date."""

    def schema(self) -> pa.Schema | None:
        """Its columns; None: there is no table yet."""

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table | None:
        """All of them; None: there is no table yet."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What becomes of a table.

    Args:
        rows: To be added, or to take the place of those with the same identity.
        removed: Identities of rows that go.
        mark: What to remember.
        state: The same, as rows.
        late_count: Rows that came after what they belong to was closed, in this round,
        late: and the rows themselves, as many as are kept.
        ahead_count: Rows whose timestamps are further ahead of their reception than `drift`,
            or this of the time of day.
        forgotten_count: Groups, devices or publishers that exceed the bound, and are forgotten.
        is_partial: There is more than is good for one round: another one is to follow at once.
    """

    rows: pa.Table | None
    removed: pa.Table | None = None
    mark: Mapping[str, int] = field(default_factory=dict)
    state: pa.Table | None = None
    late_count: int = 0
    is_partial: bool = False
    late: pa.Table | None = None
    ahead_count: int = 0
    forgotten_count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        return not any(part is not None and part.num_rows for part in (self.rows, self.removed))

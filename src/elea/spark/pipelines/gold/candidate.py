"""Candidates: another definition over the same history, beside the first, and what differs.

A candidate has a name. Its tables are below `_candidates/NAME` of the storage, and what it
publishes is below the key `candidate/NAME`: nothing of the first is touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.errors import ConfigError, StoreError
from elea.spark.pipelines.gold.event_time import CLOSED
from elea.spark.pipelines.gold.inputs import frame_of
from elea.spark.pipelines.gold.memory import Memory
from elea.spark.pipelines.gold.refresh import Gold
from elea.store.tables.results import open_results

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DIRECTORY: Final = "_candidates"
PREFIX: Final = "candidate"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SAMPLES: Final = 10


def candidate_path(storage: str | Path, name: str, table: str = "") -> Path:
    """Where the tables of a candidate are, or one of them.

    Raises:
        ConfigError: the name is not legal.
    """
    return Path(storage) / DIRECTORY / checked_name(name) / table


def candidate_key(name: str, key: str) -> str:
    """To which key a candidate publishes what the first publishes to another.

    Example:
        >>> candidate_key("wider", "alerts/{robot}/hot")
        'candidate/wider/alerts/{robot}/hot'
    """
    return f"{PREFIX}/{checked_name(name)}/{key}"


def candidates(golds: Mapping[str, Gold], storage: str | Path, name: str) -> dict[str, Gold]:
    """Gold tables as those of a candidate.

    Args:
        golds: By name, as the candidate defines them. Those that are made of others of these are
            made of the candidate's; all else is read where it is.
    """
    own = {
        gold.path.absolute(): candidate_path(storage, name, table) for table, gold in golds.items()
    }
    return {
        table: replace(
            gold,
            path=own[gold.path.absolute()],
            sources=[own.get(Path(path).absolute(), Path(path)) for path in gold.sources],
        )
        for table, gold in golds.items()
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """How the rows of two tables differ.

    Args:
        added_count: Rows that only the second has,
        removed_count: that only the first has,
        changed_count: that both have, with other values,
        equal_count: and that are the same.
        columns_added: Columns that only the second has,
        columns_removed: and that only the first has: they are not compared.
        changed_by_column: In how many rows a column has another value.
        samples: Some rows of each, by `added`, `removed`, `changed`.
    """

    added_count: int
    removed_count: int
    changed_count: int
    equal_count: int
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    changed_by_column: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sequence[Mapping[str, object]]] = field(default_factory=dict)

    @property
    def is_none(self) -> bool:
        """Whether both have the same rows and columns."""
        counts = (self.added_count, self.removed_count, self.changed_count)
        return not any(counts) and not self.columns_added and not self.columns_removed

    def to_json(self) -> str:
        """All of it; what JSON has no form for is text."""
        return json.dumps(asdict(self), default=str)


def diff(
    spark: SparkSession,
    first: str | Path,
    second: str | Path,
    identity: Sequence[str],
    *,
    time: str | None = None,
    samples_max: int = _SAMPLES,
) -> Difference:
    """How the rows of a candidate's table differ from those of the first.

    Args:
        identity: The columns that name a row.
        time: The column of its time: of tables that are made span by span, only what both have
            closed is compared.
        samples_max: Rows that are shown, of each sort.

    Raises:
        StoreError: there is no such table.
        ConfigError: one has no such column.
    """
    frames = []
    for path in (first, second):
        frame = frame_of(spark, path)
        if frame is None:
            raise StoreError(f"{path}: no table to compare")
        missing = [name for name in identity if name not in frame.columns]
        if missing:
            reason = f"there is no column {', '.join(missing)}; legal are {frame.columns}"
            raise ConfigError(str(path), reason)
        frames.append(frame)
    if time is not None:
        marks = [_closed(path) for path in (first, second)]
        closed = [mark for mark in marks if mark is not None]
        if closed:
            frames = [_before(frame, time, min(closed)) for frame in frames]
    return compare(frames[0], frames[1], identity, samples_max=samples_max)


def compare(
    first: DataFrame, second: DataFrame, identity: Sequence[str], *, samples_max: int = _SAMPLES
) -> Difference:
    """The same of two DataFrames."""
    from pyspark.sql import functions as sql

    shared = [name for name in first.columns if name in second.columns and name not in identity]
    both = _paired(first, shared, identity, "a").join(
        _paired(second, shared, identity, "b"), _same(identity), "full_outer"
    )
    unlike = {
        name: ~sql.col(f"a._row.`{name}`").eqNullSafe(sql.col(f"b._row.`{name}`"))
        for name in shared
    }
    has_a, has_b = sql.col("a._row").isNotNull(), sql.col("b._row").isNotNull()
    differs = sql.lit(False)
    for one in unlike.values():
        differs = differs | one
    sort = (
        sql.when(~has_a, "added")
        .when(~has_b, "removed")
        .when(differs, "changed")
        .otherwise("equal")
    )
    named = [
        sql.coalesce(sql.col(f"a.`{name}`"), sql.col(f"b.`{name}`")).alias(name)
        for name in identity
    ]
    judged = both.select(
        sort.alias("_sort"),
        sql.struct(*named).alias("_name"),
        sql.col("a._row").alias("_before"),
        sql.col("b._row").alias("_after"),
        *(one.alias(f"_u{at}") for at, one in enumerate(unlike.values())),
    ).cache()
    try:
        by_column = [
            sql.count_if(sql.col(f"_u{at}") & (sql.col("_sort") == "changed")).alias(f"_c{at}")
            for at in range(len(shared))
        ]
        [row] = judged.agg(
            *(
                sql.count_if(sql.col("_sort") == name).alias(name)
                for name in ("added", "removed", "changed", "equal")
            ),
            *by_column,
        ).collect()
        changes = {name: row[f"_c{at}"] for at, name in enumerate(shared) if row[f"_c{at}"]}
        return Difference(
            row["added"],
            row["removed"],
            row["changed"],
            row["equal"],
            tuple(name for name in second.columns if name not in first.columns),
            tuple(name for name in first.columns if name not in second.columns),
            changes,
            _samples(judged, samples_max),
        )
    finally:
        judged.unpersist()


def _paired(
    frame: DataFrame, columns: Sequence[str], identity: Sequence[str], alias: str
) -> DataFrame:
    """Rows by their names; those that have the same name are told apart by a number."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    names = [sql.col(f"`{name}`") for name in identity]
    row = sql.struct(sql.lit(1).alias("_there"), *(sql.col(f"`{name}`") for name in columns))
    order = Window.partitionBy(*names).orderBy(sql.col("_row"))
    return (
        frame.select(*names, row.alias("_row"))
        .withColumn("_number", sql.row_number().over(order))
        .alias(alias)
    )


def _same(identity: Sequence[str]) -> Column:
    from pyspark.sql import functions as sql

    found = sql.col("a._number") == sql.col("b._number")
    for name in identity:
        found = found & sql.col(f"a.`{name}`").eqNullSafe(sql.col(f"b.`{name}`"))
    return found


def _samples(judged: DataFrame, count: int) -> dict[str, list[dict[str, object]]]:
    from pyspark.sql import functions as sql

    found: dict[str, list[dict[str, object]]] = {"added": [], "removed": [], "changed": []}
    for name, rows in found.items():
        chosen = judged.where(sql.col("_sort") == name).orderBy("_name").limit(count)
        for row in chosen.select("_name", "_before", "_after").collect():
            one: dict[str, object] = row["_name"].asDict(recursive=True)
            for side in ("before", "after"):
                if row[f"_{side}"] is not None:
                    told = row[f"_{side}"].asDict(recursive=True)
                    one[side] = {key: value for key, value in told.items() if key != "_there"}
            rows.append(one)
    return found


def _closed(path: str | Path) -> int | None:
    """The time up to which a table that is made span by span is complete."""
    results = open_results(path)
    known = Memory(results.root).load(results.number())
    return None if known is None else known.mark.get(CLOSED)


def _before(frame: DataFrame, time: str, until_us: int) -> DataFrame:
    from pyspark.sql import functions as sql

    if "window_end" in frame.columns:
        return frame.where(sql.unix_micros("window_end") <= until_us)
    return frame.where(sql.unix_micros(sql.col(time)) < until_us)


def checked_name(name: str) -> str:
    """The name of a candidate.

    Raises:
        ConfigError: it is not legal.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError("candidate", f"saw {name[:80]!a}; legal are letters, digits, - and _")
    return name

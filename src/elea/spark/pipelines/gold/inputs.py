"""The sources of a gold table: tables of rows from a log, and other gold tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

from elea.spark.pipelines.gold.frames import PLACE, moment
from elea.spark.pipelines.gold.memory import Seen
from elea.store.tables.files import DataFile, pruned
from elea.store.tables.results import is_results, open_results
from elea.store.tables.table import format_of, open_table
from elea.timestamp import NTP64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# shard, first number, number after the last, how the id of the log begins
_NAME: Final = re.compile(r"([0-9]{4})-([0-9]{12})-([0-9]{12})-([0-9a-f]{8})-.*")
_LOG_LEN: Final = 8
_END: Final = 2**64


class Rows:
    """A table of rows from a log, as it is when this is made.

    Args:
        seen: How far the round before read it.
    """

    is_whole = False

    def __init__(self, spark: SparkSession, path: Path, seen: Seen) -> None:
        self._spark = spark
        self._seen = seen
        table = open_table(path)
        self._root = Path(table.layout.root)
        self._inside = table.layout.partitions_inside
        self._files = table.files()
        self._arrow = table.schema()
        self._placed = set(PLACE) <= set(self._arrow.names)
        self._new = [file for file in self._files if self._is_new(file)]

    @property
    def has_new(self) -> bool:
        """Whether there may be rows that no round had."""
        return bool(self._new)

    def rows(self, since_us: int | None = None, until_us: int | None = None) -> DataFrame:
        """As `Input`."""
        since = 0 if since_us is None else _stamp(since_us)
        until = _END if until_us is None else _stamp(until_us)
        frame = self._frame(pruned(self._files, "**", since, until))
        return between(frame, since_us, until_us)

    def fresh(self) -> DataFrame:
        """As `Input`."""
        frame = self._frame(self._new)
        if not self._placed:
            return frame
        for log, ends in self._seen.ends.items():
            for shard, end in ends.items():
                frame = frame.where(
                    f"not (left(log, {_LOG_LEN}) = '{log}' and shard = {shard} and seq < {end})"
                )
        return frame

    def seen(self) -> Seen:
        """How far it is read, once all that is new is."""
        ends = {log: dict(shards) for log, shards in self._seen.ends.items()}
        others = [file for file in self._files if _NAME.fullmatch(_name(file)) is None]
        unknown = [file for file in self._new if file in others]
        told = [_NAME.fullmatch(_name(file)) for file in self._new]
        found = [(one[4], str(int(one[1])), int(one[3])) for one in told if one is not None]
        if self._placed:
            found += self._places(unknown)
        for log, shard, end in found:
            shards = ends.setdefault(log, {})
            shards[shard] = max(end, shards.get(shard, 0))
        return Seen(ends, tuple(file.path for file in others))

    def _is_new(self, file: DataFile) -> bool:
        match = _NAME.fullmatch(_name(file))
        if match is None:
            return file.path not in self._seen.files
        return int(match[3]) > self._seen.ends.get(match[4], {}).get(str(int(match[1])), 0)

    def _places(self, files: Sequence[DataFile]) -> list[tuple[str, str, int]]:
        """Up to where files hold rows that do not say it by their names, as compaction makes them.

        Such a file may hold rows of several shards that are new, and others that are not.
        """
        if not files:
            return []
        paths = [str(self._root / file.path) for file in files]
        rows = ds.dataset(paths, format="parquet").to_table(columns=list(PLACE))
        last = rows.group_by(["log", "shard"]).aggregate([("seq", "max")])
        return [
            (row["log"][:_LOG_LEN], str(row["shard"]), row["seq_max"] + 1)
            for row in last.to_pylist()
        ]

    def _frame(self, files: Sequence[DataFile]) -> DataFrame:
        paths = [str(self._root / file.path) for file in files]
        base = None if self._inside else str(self._root)
        return _scan(self._spark, self._arrow, paths, base)


class Made:
    """A gold table as a source: it is read whole, as its rows may change."""

    is_whole = True

    def __init__(self, spark: SparkSession, path: Path, seen: Seen) -> None:
        self._spark = spark
        results = open_results(path)
        self._number = str(results.number())
        self._paths = results.paths()
        self._arrow = results.schema()
        self.has_new = self._number not in seen.files

    def rows(self, since_us: int | None = None, until_us: int | None = None) -> DataFrame:
        """As `Input`."""
        assert self._arrow is not None
        frame = _scan(self._spark, self._arrow, self._paths, None)
        if since_us is None and until_us is None:
            return frame
        return between(frame, since_us, until_us)

    def fresh(self) -> DataFrame:
        """All rows: which of them are new is not known."""
        return self.rows()

    def seen(self) -> Seen:
        """The number of its last change, in place of files."""
        return Seen(files=(self._number,))


def opened(spark: SparkSession, path: Path, seen: Seen) -> Rows | Made | None:
    """A source; None: there is no such table yet."""
    if is_results(path):
        return Made(spark, path, seen)
    return None if format_of(path) is None else Rows(spark, path, seen)


def frame_of(
    spark: SparkSession, path: str | Path, since_us: int | None = None, until_us: int | None = None
) -> DataFrame | None:
    """The rows of any table of a pipeline, of a span of time; None: there is no such table yet."""
    found = opened(spark, Path(path).absolute(), Seen())
    return None if found is None else found.rows(since_us, until_us)


def between(frame: DataFrame, since_us: int | None, until_us: int | None) -> DataFrame:
    """Rows from a time on, and before another."""
    from pyspark.sql import functions as sql

    bounds = ((since_us, True), (until_us, False))
    for bound, is_first in bounds:
        if bound is None:
            continue
        stamp = sql.timestamp_micros(sql.lit(bound))
        if {"ts", "recv_ts"} <= set(frame.columns):
            # As statistics of Parquet files can tell it.
            timed, other = sql.col("ts"), sql.col("recv_ts")
            found = timed >= stamp if is_first else timed < stamp
            late = other >= stamp if is_first else other < stamp
            frame = frame.where(found | (timed.isNull() & late))
        else:
            at = moment(frame)
            frame = frame.where(at >= stamp if is_first else at < stamp)
    return frame


def _scan(
    spark: SparkSession, schema: pa.Schema, paths: Sequence[str], base: str | None
) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = from_arrow_schema(schema)
    if not paths:
        return spark.createDataFrame([], columns)
    reader = spark.read.schema(columns)
    if base is not None:
        reader = reader.option("basePath", base)
    return reader.parquet(*paths)


def _name(file: DataFile) -> str:
    return PurePosixPath(file.path).name


def _stamp(microseconds: int) -> int:
    return NTP64.from_nanos(max(microseconds, 0) * 1_000).value

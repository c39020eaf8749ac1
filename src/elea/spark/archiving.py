"""Archive: all rows of a log in a table, each once, without their passing through Java.

The task that reads a range writes it to Parquet files; to Spark it gives one row for each file,
which says what is in it. When all tasks of a batch are done, those rows are collected and committed
to the table in one step. The table remembers up to which row it has all rows: a batch that runs
again adds nothing, and a query without its checkpoint goes on where the table ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from elea.errors import ConfigError, MissingDependencyError, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elea.spark.options import Source
    from elea.store.tables.files import Part
    from elea.store.tables.layout import Layout
    from elea.store.tables.table import Table

CONSUMER: Final = "archive"
_ROWS_MAX: Final = 4_000_000  # of a batch: some files of about 100 MB
_LOCAL_ROWS: Final = 500_000  # of a batch without Spark
_OWN_OPTIONS: Final = ("columns", "decode", "schemas", "consumer")


@dataclass(frozen=True, slots=True)
class Target:
    """The table that an archive writes, as it travels to its tasks."""

    layout: Layout
    consumer: str
    lossy: bool

    @property
    def path(self) -> str:
        """The directory of the table."""
        return self.layout.root

    def to_json(self) -> str:
        """As an option of its source."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that can be started.

    Args:
        spark: The session it runs in.
        target: The table.
        options: Of the source: `log` and others of `readStream`.
    """

    spark: SparkSession
    target: Target
    options: Mapping[str, str] = field(default_factory=dict)

    def start(self, *, trigger: str | None = None, checkpoint: str | None = None) -> StreamingQuery:
        """Begin, or go on.

        Args:
            trigger: How often: `10 seconds`; `once` takes what there is now, and ends. Without it
                a batch follows the other.
            checkpoint: Where Spark keeps how far it is; below the table if not given.
        """
        from elea.spark.archive_source import NAME, OPTION, ArchiveSource

        self.spark.dataSource.register(ArchiveSource)
        options = {**self.options, OPTION: self.target.to_json()}
        frame = self.spark.readStream.format(NAME).options(**options).load()
        if checkpoint is None:
            checkpoint = str(Path(self.target.path) / "_checkpoints" / self.target.consumer)
        writer = frame.writeStream.foreachBatch(_Committer(self.target))
        writer = writer.option("checkpointLocation", checkpoint)
        if trigger == "once":
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        return writer.queryName(f"archive {self.target.consumer} {self.target.path}").start()


def archive(
    spark: SparkSession,
    *,
    log: str,
    table: str | Path,
    format: str = "delta",
    consumer: str = CONSUMER,
    buckets: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Archive:
    """All rows of a log into a table.

    Args:
        log: As the option of the source: a directory, or `zenoh:NAME`.
        table: The directory of the table, which is made if there is none; every host has it.
        format: `delta`, `iceberg` or `parquet`.
        consumer: The name under which the log keeps rows for it, and the table how far it is.
        buckets: Partitions beside days: a name, and how the keys begin that it stands for.
        options: More options of `readStream`: `connect`, `startingOffsets`, `keyexpr`, ...

    Raises:
        ConfigError: an option is not legal, or the table is another one.
        MissingDependencyError: a package for that format is not installed.

    Example:
        query = elea.spark.archive(spark, log="/var/lib/elea/log", table="/lake/bronze").start()
    """
    target, given = prepared(log, table, format, consumer, buckets, options)
    return Archive(spark, target, given)


def prepared(
    log: str,
    table: str | Path,
    format: str,
    consumer: str,
    buckets: Mapping[str, str] | None,
    options: Mapping[str, str] | None,
) -> tuple[Target, dict[str, str]]:
    """The table, which exists then, and the options of the source, checked."""
    try:
        from elea.spark.options import Options
        from elea.store.tables.table import open_table
    except ModuleNotFoundError as error:
        raise MissingDependencyError("an archive", "arrow") from error
    given = {name.lower(): value for name, value in (options or {}).items()}
    for name in _OWN_OPTIONS:
        if name in given:
            raise ConfigError(f"option {name}", "is not for an archive: it has all columns of rows")
    given |= {"log": log, "consumer": consumer}
    if "maxrowspertrigger" not in given and "maxbytespertrigger" not in given:
        given["maxRowsPerTrigger"] = str(_ROWS_MAX)
    stream = Options(given).stream()
    made = open_table(table, format, buckets=buckets)
    lossy = not stream.source.fail_on_data_loss
    return Target(made.layout, consumer, lossy), given


def archive_range(
    source: Source, layout: Layout, log_id: UUID, shard: int, first: int, end: int
) -> Part:
    """Write one range of a log to files; they are of the table when they are committed.

    Raises:
        OffsetError: rows were trimmed.
        StoreError: rows are damaged, or it is another log.
    """
    from elea.spark.rows import raw_range
    from elea.store.tables.layout import write_part

    return write_part(
        layout, raw_range(source, log_id, shard, first, end), log_id, shard, first, end
    )


def archive_local(
    target: Target, options: Mapping[str, str], *, is_wanted: Callable[[], bool] = lambda: True
) -> Iterator[int]:
    """The same without Spark, in this process: as far as the log goes now; rows of each batch."""
    from elea.spark.offsets import shared
    from elea.spark.options import Options
    from elea.spark.rows import place_of
    from elea.spark.starts import initial
    from elea.store.tables.compaction import MERGE_COUNT, tidy
    from elea.store.tables.table import open_table

    stream = Options(options).stream()
    table = open_table(target.path)
    place = place_of(stream.source)
    rows_max = min(stream.rows_max or _LOCAL_ROWS, _LOCAL_ROWS)
    last = [one.end for one in place.bounds()]
    held = table.ends(target.consumer, place.log_id)
    starts = [seq for _, seq in sorted((initial(stream, place) | held).items())]
    if any(start > end for start, end in zip(starts, last, strict=True)):
        raise StoreError(f"the table is at rows {starts}, the log ends at {last}: it is older")
    while starts != last and is_wanted():
        ends = shared(starts, last, rows_max)
        parts = [
            archive_range(stream.source, table.layout, place.log_id, shard, start, end)
            for shard, (start, end) in enumerate(zip(starts, ends, strict=True))
            if end > start
        ]
        table.commit(target.consumer, parts, lossy=target.lossy)
        place.commit(target.consumer, dict(enumerate(ends)), stream.lease_s)
        yield sum(part.end - part.first for part in parts)
        starts = ends
        if starts == last:
            tidy(table, MERGE_COUNT)


class _Committer:
    """Called by Spark at the driver with the files of each batch."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._table: Table | None = None  # once it was opened, which costs as much as a commit

    def __call__(self, frame: DataFrame, number: int) -> None:
        from elea.store.tables.compaction import tidy
        from elea.store.tables.files import parts_of
        from elea.store.tables.table import open_table

        # Once: to look at the rows again would be to read and write them again.
        parts = parts_of(row.asDict() for row in frame.collect())
        if self._table is None:
            self._table = open_table(self._target.path)
        self._table.commit(self._target.consumer, parts, lossy=self._target.lossy)
        tidy(self._table, sum(len(part.files) for part in parts))

"""Layout: how rows become the Parquet files of a table.

Files are partitioned by day, in UTC, and by declared buckets of keys if there are any; never by
key. A file is written under another name, synchronised, and renamed: what has its name is whole.
Its name says which rows of which log it was made of, and has a random part, so that a task that is
tried twice writes two files, of which one is committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from elea import crash
from elea.atomic_file import PARTIAL, sync
from elea.errors import ConfigError
from elea.keyexpr.keyexpr import KeyExpr
from elea.store.log.schema import POSITION, SCHEMA, times
from elea.store.tables.files import DataFile, Part, Stats

GROUP_ROWS: Final = 128 * 1024  # of a row group: what a reader skips, or reads
_GROUP_LEN: Final = 64 << 20  # octets in memory at which a row group ends sooner
BUCKETS_COUNT_MAX: Final = 64
# Rows of a column written at once. Arrow makes statistics of texts for each, and looks after each
# whether a page is full: more rows are faster, fewer keep pages of large payloads small.
_WRITTEN_ROWS: Final = 8 * 1024
OTHER: Final = "other"  # the bucket of keys that have none
# Of tables of format Delta. Who opens one lists the versions it has, and a batch each second makes
# 86 400 in a day; Delta by itself would keep them for a month.
RETENTION: Final = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
}
DATE: Final = "date"
BUCKET: Final = "kp"
STAGING: Final = "_staging"

# Rows of a publisher whose clock is that far off are filed under the day they were received: it
# would open a partition for each of its samples.
_DAYS_OFF_MAX: Final = 366
_OPEN_FILES_MAX: Final = 16  # of one range; late rows of more days than that are in smaller files
_DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1)
TEXTS: Final = ("key", "encoding", "hlc_id", "zid", "log")
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())
_TEXT_TYPES: Final = (pa.string(), _DICTIONARY)
_DELTAS: Final = ("ts", "hlc", "eid", "sn", "recv_ts", "seq")
WITH_STATS: Final = ("key", "ts", "hlc", "recv_ts", "shard", "seq", "log", DATE, BUCKET)


def _plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


# As readers see rows: plain texts, everything may be null, and the log that a row is of.
COLUMNS: Final = pa.schema(
    [
        *(pa.field(one.name, _plain(one.type)) for one in (*SCHEMA, *POSITION)),
        pa.field("log", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table lays out its files; travels to those who write them.

    Args:
        root: The directory of the table.
        buckets: Names, and the beginnings of keys that they stand for.
        staged: Files wait in a directory that readers do not see until they are committed.
        partitions_inside: Partitions are columns of the files, not names of directories; and
            there are no integers of eight bits. That is Iceberg's way.
    """

    root: str
    buckets: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    partitions_inside: bool = False

    @property
    def partitions(self) -> list[str]:
        """The columns by which files are partitioned."""
        return [DATE, BUCKET] if self.buckets else [DATE]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files, if they are those of a log's rows."""
        return self.schema_of(COLUMNS)

    def schema_of(self, columns: pa.Schema) -> pa.Schema:
        """The columns of files with these columns."""
        if not self.partitions_inside:
            return columns
        fields = [pa.field(one.name, wide(one.type)) for one in columns]
        return pa.schema([*fields, *self.partition_fields])

    @property
    def partition_fields(self) -> list[pa.Field]:
        """The columns by which files are partitioned, with their types."""
        found = [pa.field(DATE, pa.date32())]
        return [*found, pa.field(BUCKET, pa.string())] if self.buckets else found

    def table_schema(self, columns: pa.Schema = COLUMNS) -> pa.Schema:
        """All columns of a table with these columns."""
        found = self.schema_of(columns)
        if self.partitions_inside:
            return found
        return pa.schema([*found, *self.partition_fields])

    def directory(self, day: str, bucket: str | None) -> str:
        """Where files of a partition are, below the table."""
        if self.partitions_inside:
            parts = ["data", day]
        else:
            parts = [STAGING] if self.staged else []
            parts.append(f"{DATE}={day}")
        if bucket is not None:
            parts.append(bucket if self.partitions_inside else f"{BUCKET}={bucket}")
        return "/".join(parts)


def checked_buckets(buckets: Mapping[str, str]) -> dict[str, str]:
    """Buckets of a table.

    Raises:
        ConfigError: there are too many, or one is not legal.
    """
    if len(buckets) > BUCKETS_COUNT_MAX:
        reason = f"saw {len(buckets)}; at most {BUCKETS_COUNT_MAX} are legal"
        raise ConfigError("buckets", reason)
    for name, prefix in buckets.items():
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ConfigError("buckets", f"saw {name!a}; legal are letters, digits, - and _")
        if name == OTHER:
            raise ConfigError("buckets", f"{OTHER} is the one of all other keys")
        if "*" in str(KeyExpr(prefix)):
            raise ConfigError("buckets", f"saw {prefix!a}; legal is how keys begin: a/b")
    return dict(buckets)


def wide(type: pa.DataType) -> pa.DataType:
    """A type that Iceberg has: its smallest integers have 32 bits."""
    if type in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_struct(type):
        return pa.struct([pa.field(one.name, wide(one.type)) for one in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field(type.value_field.name, wide(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(wide(type.key_type), wide(type.item_type))
    return type


def write_part(
    layout: Layout,
    batches: Iterable[pa.RecordBatch],
    log_id: UUID,
    shard: int,
    first: int,
    end: int,
) -> Part:
    """Write a range of a log; durable when it returns, part of the table when it is committed.

    Args:
        batches: All rows of the range, with their numbers; texts as dictionaries.
    """
    writer = PartWriter(layout, log_id, shard, first, end)
    try:
        for batch in batches:
            writer.add(batch)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


class PartWriter:
    """The same, batch by batch.

    Args:
        columns: Of the rows, if they are not those of a log.
    """

    def __init__(
        self,
        layout: Layout,
        log_id: UUID,
        shard: int,
        first: int,
        end: int,
        columns: pa.Schema = COLUMNS,
    ) -> None:
        name = f"{shard:04d}-{first:012d}-{end:012d}-{log_id.hex[:8]}"
        self._writer = RowWriter(layout, name, layout.schema_of(columns))
        self._layout = layout
        self._place = (log_id, shard, first, end)

    def add(self, batch: pa.RecordBatch) -> None:
        """More rows, with their numbers; keys as a dictionary."""
        log = pa.DictionaryArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows), pa.array([str(self._place[0])])
        )
        for day, bucket, rows in partitioned(batch, self._layout.buckets):
            logs = log.slice(0, rows.num_rows)
            fields = [*rows.schema, pa.field("log", logs.type)]
            rows = pa.RecordBatch.from_arrays([*rows.columns, logs], schema=pa.schema(fields))
            self._writer.add(day, bucket, rows)

    def finish(self) -> Part:
        """The files, which are durable now."""
        return Part(*self._place, tuple(self._writer.finish()))

    def abandon(self) -> None:
        """Take away what was written."""
        self._writer.abandon()


class RowWriter:
    """Rows to files, one file for each partition at a time.

    Args:
        schema: The columns of the files, if they have others than the layout.
        group_rows: Of a row group.
    """

    def __init__(
        self,
        layout: Layout,
        name: str,
        schema: pa.Schema | None = None,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self._layout = layout
        self._name = name
        self._schema = layout.schema if schema is None else schema
        self._group_rows = group_rows
        self._open: dict[tuple[str, str | None], _OpenFile] = {}
        self._done: list[DataFile] = []

    def add(self, day: str, bucket: str | None, rows: pa.RecordBatch) -> None:
        """Rows of one partition."""
        place = (day, bucket)
        file = self._open.pop(place, None)
        if file is None:
            while len(self._open) >= _OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            name = f"{self._name}-{secrets.token_hex(6)}.parquet"
            file = _OpenFile(self._layout, self._schema, day, bucket, name, self._group_rows)
        self._open[place] = file
        file.add(rows)

    def cut(self) -> None:
        """What follows is in other files."""
        for place in list(self._open):
            self._close(place)

    def finish(self) -> list[DataFile]:
        """The files, which are durable now."""
        crash.point("table.before_files")
        self.cut()
        root = Path(self._layout.root)
        directories = {parent for file in self._done for parent in Path(file.path).parents}
        for directory in sorted(directories, reverse=True):
            sync(root / directory)
        crash.point("table.after_files")
        return self._done

    def abandon(self) -> None:
        """Take away what was written."""
        for file in self._open.values():
            file.abandon()
        discard(self._layout.root, self._done)

    def _close(self, place: tuple[str, str | None]) -> None:
        self._done.append(self._open[place].close())
        del self._open[place]


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self,
        layout: Layout,
        schema: pa.Schema,
        day: str,
        bucket: str | None,
        name: str,
        group_rows: int,
    ) -> None:
        self._day, self._bucket = day, bucket
        self._group_rows = group_rows
        self._schema = with_dictionaries(schema)
        self._path = f"{layout.directory(day, bucket)}/{name}"
        self._file = Path(layout.root) / self._path
        self._partial = self._file.with_name(f".{name}{PARTIAL}")
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        self._metadata: list[pq.FileMetaData] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_count = self._waiting_len = 0
        self._writer = pq.ParquetWriter(
            self._partial, self._schema, metadata_collector=self._metadata, **_parquet(self._schema)
        )

    def add(self, rows: pa.RecordBatch) -> None:
        """More rows."""
        self._waiting.append(rows)
        self._waiting_count += rows.num_rows
        self._waiting_len += rows.nbytes
        if self._waiting_count >= self._group_rows or self._waiting_len >= _GROUP_LEN:
            self._flush()

    def close(self) -> DataFile:
        """The file, under its name."""
        self._flush()
        self._writer.close()
        [metadata] = self._metadata
        sync(self._partial)
        self._partial.replace(self._file)
        length = self._file.stat().st_size
        stats = stats_of(metadata)
        return DataFile(self._path, metadata.num_rows, length, self._day, self._bucket, stats)

    def abandon(self) -> None:
        """It is not wanted."""
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        for name, value, type in (
            (DATE, date.fromisoformat(self._day), pa.date32()),
            (BUCKET, self._bucket, pa.string()),
        ):
            if name in self._schema.names and name not in table.schema.names:
                table = table.append_column(name, pa.repeat(pa.scalar(value, type), len(table)))
        # A dictionary for each row group: with several the writer would write texts in full. Other
        # columns stay as they came: to join payloads would copy them.
        table = table.unify_dictionaries().select(self._schema.names).cast(self._schema)
        columns = [
            column.combine_chunks() if column.type == _DICTIONARY else column
            for column in table.columns
        ]
        joined = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(joined, row_group_size=self._group_rows)
        self._waiting, self._waiting_count, self._waiting_len = [], 0, 0


def with_dictionaries(schema: pa.Schema) -> pa.Schema:
    """As rows are handed to the writer; what is in the file is the same."""
    return pa.schema(
        [
            pa.field(one.name, _DICTIONARY) if one.name in TEXTS else pa.field(one.name, one.type)
            for one in schema
        ]
    )


def _parquet(schema: pa.Schema) -> dict[str, object]:
    """Options of the writer: small, and readable by everybody."""
    names = set(schema.names)
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [one.name for one in schema if one.type in _TEXT_TYPES],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _DELTAS if name in names},
        "write_statistics": [name for name in WITH_STATS if name in names],
        "write_batch_size": _WRITTEN_ROWS,
        "store_schema": False,  # else texts would come back as dictionaries
    }


def stats_of(metadata: pq.FileMetaData) -> Stats:
    """What a file says of itself."""
    numbers = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}

    def bounds(name: str) -> tuple[list[object], int]:
        found: list[object] = []
        nulls_count = 0
        for group in range(metadata.num_row_groups):
            stats = metadata.row_group(group).column(numbers[name]).statistics
            nulls_count += stats.null_count
            if stats.has_min_max:
                found += [stats.min_raw, stats.max_raw] if name != "key" else [stats.min, stats.max]
        return found, nulls_count

    try:
        keys, _ = bounds("key")
        stamps, _ = bounds("ts")
        received, _ = bounds("recv_ts")
        _, unstamped_count = bounds("hlc")
    except (KeyError, AttributeError):  # a file of somebody else
        return Stats()
    return Stats(*_ends(keys), *_ends(stamps), *_ends(received), unstamped_count)  # type: ignore[arg-type]


def _ends(values: list[object]) -> tuple[object, object]:
    return (min(values), max(values)) if values else (None, None)  # type: ignore[type-var]


def partitioned(
    batch: pa.RecordBatch, buckets: Mapping[str, str]
) -> Iterator[tuple[str, str | None, pa.RecordBatch]]:
    """Rows by day and bucket; nearly always all of one day."""
    for day, rows in _by_day(batch):
        if not buckets:
            yield day, None, rows
            continue
        keys = rows.column("key")
        names = [bucket_of(key, buckets) for key in keys.dictionary.to_pylist()]
        found = pa.array(names, pa.string()).take(keys.indices)
        for name in pc.unique(found).to_pylist():
            yield day, name, rows.filter(pc.equal(found, name))


def bucket_of(key: str, buckets: Mapping[str, str]) -> str:
    """The first bucket that a key is of."""
    for name, prefix in buckets.items():
        if key == prefix or key.startswith(f"{prefix}/"):
            return name
    return OTHER


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    seconds = pc.shift_right(times(batch), pa.scalar(32, pa.uint64())).cast(pa.int64())
    received = batch.column("recv_ts").view(pa.int64())
    low, high = (one // _DAY_S for one in pc.min_max(seconds).as_py().values())
    first, last = (one // (_DAY_S * 1_000_000) for one in pc.min_max(received).as_py().values())
    if low == high and abs(low - first) <= _DAYS_OFF_MAX and abs(low - last) <= _DAYS_OFF_MAX:
        yield _day(low), batch
        return
    days = pc.divide(seconds, _DAY_S)
    received_days = pc.divide(received, _DAY_S * 1_000_000)
    off = pc.greater(pc.abs(pc.subtract(days, received_days)), _DAYS_OFF_MAX)
    days = pc.if_else(off, received_days, days)
    for number in sorted(pc.unique(days).to_pylist()):
        yield _day(number), batch.filter(pc.equal(days, number))


def _day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).isoformat()


def discard(root: str, files: Sequence[DataFile]) -> None:
    """Take away files that were written and are not wanted; what cannot be, vacuum will."""
    for file in files:
        with suppress(OSError):
            (Path(root) / file.path).unlink(missing_ok=True)


def old_partials(root: Path, before_s: float) -> list[str]:
    """Files that nobody finished, of before a time since 1970: their tasks died."""
    return [
        str(file.relative_to(root))
        for file in root.rglob(f".*{PARTIAL}")
        if file.is_file() and file.stat().st_mtime < before_s
    ]

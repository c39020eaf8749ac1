"""Tables of format Delta, through delta-rs: no Java.

How far a consumer has come in a shard is the version of an application's transaction, which Delta
keeps for that. Two who commit for the same application at once conflict by its rules, and the later
one looks again. Compactions are an application too: two at once would put the same rows twice.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from elea import crash
from elea.atomic_file import sync
from elea.errors import StoreError
from elea.store.tables.files import DataFile, Part, Stats, pruned
from elea.store.tables.layout import (
    BUCKET,
    COLUMNS,
    DATE,
    RETENTION,
    Layout,
    old_partials,
)
from elea.store.tables.table import (
    ATTEMPTS_MAX,
    CROWDED,
    advanced,
    check_types,
    is_ours,
    is_replaced,
    log_of,
)

_BUCKETS: Final = "elea.buckets"
_COMPACTIONS: Final = "elea.compactions"
_NOT_YET: Final = -1  # of a shard that had no rows when others had
_HOUR_S: Final = 3_600
_TEXT_MAX: Final = 1_024  # of a key among the statistics; longer ones are left out
_MICROSECONDS: Final = 1_000


class DeltaLake:
    """A table of format Delta."""

    format = "delta"

    def __init__(
        self, root: Path, buckets: Mapping[str, str] | None, columns: pa.Schema = COLUMNS
    ) -> None:
        self._root = str(root)
        try:
            table = DeltaTable(self._root)
        except TableNotFoundError:
            table = self._made(buckets or {}, columns)
        stored = table.metadata().configuration.get(_BUCKETS)
        self.layout = Layout(self._root, json.loads(stored) if stored else {})

    def ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        """As `Table`."""
        return _ends(DeltaTable(self._root), consumer, log_id)

    def commit(self, consumer: str, parts: Sequence[Part], *, lossy: bool = False) -> bool:
        """As `Table`."""
        if not parts:
            return False
        log_id = log_of(parts)
        files = [file for part in parts for file in part.files]
        for attempt in range(ATTEMPTS_MAX):
            table = DeltaTable(self._root)
            ends = _ends(table, consumer, log_id)
            after = advanced(ends, parts, lossy=lossy)
            if after is None:
                return is_ours(self, files, attempt)
            known = ends | after
            marks = [
                Transaction(_app(consumer, log_id, shard), known.get(shard, _NOT_YET))
                for shard in range(max(known) + 1)
            ]
            crash.point("table.before_commit")
            try:
                self._write(table, [_add(file, self.layout) for file in files], marks)
                crash.point("table.after_commit")
                return True
            except CommitFailedError:
                _pause(attempt)
        raise StoreError(f"{self._root}: {CROWDED}")

    def files(self, key_expr: str = "**", since: int = 0, until: int = 2**64) -> list[DataFile]:
        """As `Table`."""
        actions = pa.table(DeltaTable(self._root).get_add_actions(flatten=True))
        found = [_file(row) for row in actions.to_pylist()]
        return sorted(pruned(found, key_expr, since, until), key=lambda file: file.path)

    def schema(self) -> pa.Schema:
        """As `Table`."""
        return pa.schema(DeltaTable(self._root).schema())

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """As `Table`."""
        for attempt in range(ATTEMPTS_MAX):
            table = DeltaTable(self._root)
            here = set(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())
            if is_replaced(here, old, new, attempt):
                return
            now_ms = time.time_ns() // 1_000_000
            removed = [
                RemoveAction(
                    file.path, False, now_ms, file.octets_count, _partition(file, self.layout)
                )
                for file in old
            ]
            added = [_add(file, self.layout, is_change=False) for file in new]
            mark = Transaction(_COMPACTIONS, (table.transaction_version(_COMPACTIONS) or 0) + 1)
            try:
                self._write(table, [*removed, *added], [mark])
                return
            except CommitFailedError:
                _pause(attempt)
        raise StoreError(f"{self._root}: {CROWDED}")

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """As `Table`."""
        table = DeltaTable(self._root)
        missing = check_types(self.schema(), fields)
        if missing:
            table.alter.add_columns(list(Schema.from_arrow(pa.schema(missing)).fields))

    def vacuum(self, older_than_s: int, *, dry_run: bool = False) -> list[str]:
        """As `Table`; hours, rounded up."""
        found = DeltaTable(self._root).vacuum(
            -(-older_than_s // _HOUR_S),
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,
        )
        root = Path(self._root)
        partials = old_partials(root, time.time() - older_than_s)
        if not dry_run:
            for path in partials:
                (root / path).unlink(missing_ok=True)
        return sorted({*found, *partials})

    def _made(self, buckets: Mapping[str, str], columns: pa.Schema) -> DeltaTable:
        layout = Layout(self._root, buckets)
        stored = {_BUCKETS: json.dumps(buckets)} if buckets else {}
        return DeltaTable.create(
            self._root,
            Schema.from_arrow(layout.table_schema(columns)),
            mode="ignore",  # somebody else may make it now
            partition_by=layout.partitions,
            configuration=RETENTION | stored,
            raise_if_key_not_exists=False,
        )

    def _write(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        marks: list[Transaction],
    ) -> None:
        # No retries of its own: what is to be committed depends on what was there before.
        log = Path(self._root) / "_delta_log"
        try:
            table.create_write_transaction(
                list(actions),
                "append",
                table.schema(),
                partition_by=self.layout.partitions,
                commit_properties=CommitProperties(app_transactions=marks, max_commit_retries=0),
            )
        finally:
            sync_version(log, table.version() + 1)


def sync_version(log: Path, version: int) -> None:
    """Make a version durable, if it is there: also one whose commit reported an error.

    delta-rs leaves that to the system; rows that are committed here may be trimmed from the log.
    """
    with suppress(FileNotFoundError):
        sync(log / f"{version:020d}.json")
        sync(log)


def _app(consumer: str, log_id: UUID, shard: int) -> str:
    return f"elea:{consumer}:{log_id}:{shard}"


def _ends(table: DeltaTable, consumer: str, log_id: UUID) -> dict[int, int]:
    """Marks have no gaps: shards before a marked one are marked too, if only as not there yet."""
    found: dict[int, int] = {}
    for shard in itertools.count():
        end = table.transaction_version(_app(consumer, log_id, shard))
        if end is None:
            return found
        if end != _NOT_YET:
            found[shard] = end
    raise AssertionError


def _pause(attempt: int) -> None:
    time.sleep(min(0.005 * 2**attempt, 0.5))


def _partition(file: DataFile, layout: Layout) -> dict[str, str | None]:
    values: dict[str, str | None] = {DATE: file.date}
    return values | {BUCKET: file.bucket} if layout.buckets else values


def _add(file: DataFile, layout: Layout, *, is_change: bool = True) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.octets_count,
        partition_values=_partition(file, layout),
        modification_time=time.time_ns() // 1_000_000,
        data_change=is_change,
        stats=_stats_text(file),
    )


def _stats_text(file: DataFile) -> str:
    """Statistics as Delta has them. Its times are milliseconds, so they are rounded outwards."""
    stats = file.stats
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    if stats.key_min is not None and len(stats.key_min) <= _TEXT_MAX:
        low["key"] = stats.key_min
    if stats.key_max is not None and len(stats.key_max) <= _TEXT_MAX:
        high["key"] = stats.key_max
    for name, first, last in (
        ("ts", stats.ts_min, stats.ts_max),
        ("recv_ts", stats.received_min, stats.received_max),
    ):
        if first is not None and last is not None:
            low[name] = _moment(first // _MICROSECONDS)
            high[name] = _moment(-(-last // _MICROSECONDS))
    nulls = {"key": 0}
    if stats.unstamped_count is not None:
        nulls["hlc"] = stats.unstamped_count
    text = {
        "numRecords": file.rows_count,
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
    }
    return json.dumps(text)


def _moment(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03d}Z"


def _file(row: Mapping[str, object]) -> DataFile:
    """A file by what the table says of it; columns that were never told are not there."""

    def text(name: str) -> str | None:
        value = row.get(name)
        return None if value is None else str(value)

    def moment(name: str) -> int | None:
        value = row.get(name)
        if not isinstance(value, datetime):
            return None
        return int(pa.scalar(value, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py())

    def count(name: str) -> int | None:
        value = row.get(name)
        return value if isinstance(value, int) else None

    stats = Stats(
        text("min.key"),
        text("max.key"),
        moment("min.ts"),
        moment("max.ts"),
        moment("min.recv_ts"),
        moment("max.recv_ts"),
        count("null_count.hlc"),
    )
    return DataFile(
        str(row["path"]),
        count("num_records") or 0,
        count("size_bytes") or 0,
        str(row[f"partition.{DATE}"]),
        text(f"partition.{BUCKET}"),
        stats,
    )

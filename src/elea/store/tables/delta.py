"""Tables of format Delta, through delta-rs: no Java.

A mark is the version of an application's transaction, which Delta keeps for that. A commit writes
the version after its base, with a token of its own and without retries. Whatever error it reports,
the file of that version tells whether it is this commit.
"""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from elea.atomic_file import sync
from elea.store.tables.catalog import (
    ABSENT,
    BUCKETS,
    CHANGES,
    Change,
    Design,
    Marks,
    Snapshot,
    missing_columns,
    outdated,
    refuse_smaller,
)
from elea.store.tables.files import DataFile, Stats
from elea.store.tables.layout import BUCKET, DATE, RETENTION

_LOG: Final = "_delta_log"
_COMMIT: Final = "elea.commit"
_NOT_YET: Final = -1  # of an index that had no number when others had
_HOUR_S: Final = 3_600
_TEXT_MAX: Final = 1_024  # of a key among the statistics; longer ones are left out
_MICROSECONDS: Final = 1_000


class DeltaCatalog:
    """As `Catalog`."""

    format = "delta"

    def __init__(self, root: Path, design: Design) -> None:
        self.root = root
        self._design = design

    def snapshot(self) -> Snapshot:
        """As `Catalog`."""
        try:
            table = DeltaTable(str(self.root))
        except TableNotFoundError:
            return Snapshot()
        stored = table.metadata().configuration.get(BUCKETS)
        return Snapshot(
            table.version(),
            pa.schema(table.schema()),
            json.loads(stored) if stored else {},
            lambda: _files(table),
            lru_cache(partial(_marks, table)),
            table,
        )

    def commit(self, base: Snapshot, change: Change) -> None:
        """As `Catalog`; columns come before files, in a version of their own."""
        refuse_smaller(self.root, base, change.marks)
        missing = missing_columns(base.schema, change.schema)
        if missing:
            self._made(base, missing) if base.own is None else self._widened(base, missing)
            number, base = base.version + 1, self.snapshot()
            if base.version != number:
                raise outdated(self.root, base)
        if not (change.add or change.remove or change.marks):
            return
        table = base.own
        schema, partitions = table.schema(), table.metadata().partition_columns
        is_change = bool(change.marks)
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(
                file.path, is_change, now_ms, file.octets_count, _partition(file, partitions)
            )
            for file in change.remove
        ]
        actions += [_add(file, partitions, now_ms, is_change=is_change) for file in change.add]

        def write(properties: CommitProperties) -> None:
            table.create_write_transaction(
                actions, "append", schema, partition_by=partitions, commit_properties=properties
            )

        self._step(base, write, _transactions(change.marks))

    def forget(self, before_s: float) -> None:
        """As `Catalog`: the log of Delta forgets by the properties of the table."""

    def unlisted(self, before_s: float) -> list[str]:
        """As `Catalog`; in whole hours, rounded up."""
        hours = -(-max(round(time.time() - before_s), 0) // _HOUR_S)
        found: list[str] = DeltaTable(str(self.root)).vacuum(
            hours, dry_run=True, enforce_retention_duration=False, full=True
        )
        return found

    def _made(self, base: Snapshot, columns: Sequence[pa.Field]) -> None:
        buckets = self._design.buckets
        stored = {BUCKETS: json.dumps(dict(buckets))} if buckets else {}
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                str(self.root),
                Schema.from_arrow(pa.schema(columns)),
                mode="error",
                partition_by=self._design.partitions,
                configuration=RETENTION | stored,
                raise_if_key_not_exists=False,
            )
        except DeltaError as error:
            if self.snapshot().own is None:
                raise
            raise outdated(self.root, base) from error
        finally:
            self._sync(0)

    def _widened(self, base: Snapshot, columns: Sequence[pa.Field]) -> None:
        # Not the table of the base: delta-rs moves it to what it commits.
        table = DeltaTable(str(self.root), version=base.version)
        fields = list(Schema.from_arrow(pa.schema(columns)).fields)
        self._step(base, lambda one: table.alter.add_columns(fields, commit_properties=one))

    def _step(
        self,
        base: Snapshot,
        write: Callable[[CommitProperties], None],
        transactions: list[Transaction] | None = None,
    ) -> None:
        """Write the version after the base, and find out what became of it."""
        # With retries delta-rs would move the commit on top of another one.
        version, token = base.version + 1, secrets.token_hex(16)
        properties = CommitProperties({_COMMIT: token}, 0, transactions)
        try:
            write(properties)
        except Exception as error:
            if not self._has(version, token):
                if isinstance(error, CommitFailedError):
                    raise outdated(self.root, base) from error
                raise
        finally:
            self._sync(version)

    def _has(self, version: int, token: str) -> bool:
        """Whether a version is there, and by the commit with that token."""
        with suppress(FileNotFoundError):
            return token in self._path(version).read_text("utf-8")
        return False

    def _sync(self, version: int) -> None:
        """Make a version durable, if it is there: delta-rs leaves that to the system."""
        with suppress(FileNotFoundError):
            sync(self._path(version))
            sync(self.root / _LOG)
            if not version:
                sync(self.root)

    def _path(self, version: int) -> Path:
        return self.root / _LOG / f"{version:020d}.json"


def _files(table: DeltaTable) -> list[DataFile]:
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return sorted((_file(row) for row in rows), key=lambda file: file.path)


def _marks(table: DeltaTable, name: str) -> dict[int, int]:
    """Numbers have no gaps: an index before one with a number has one too."""
    found: dict[int, int] = {}
    for index in (0,) if name == CHANGES else itertools.count():
        number = table.transaction_version(_app(name, index))
        if number is None:
            break
        if number != _NOT_YET:
            found[index] = number
    return found


def _app(name: str, index: int) -> str:
    return name if name == CHANGES else f"{name}:{index}"


def _transactions(marks: Marks) -> list[Transaction]:
    return [
        Transaction(_app(name, index), numbers.get(index, _NOT_YET))
        for name, numbers in marks.items()
        for index in range(max(numbers, default=ABSENT) + 1)
    ]


def _partition(file: DataFile, partitions: Sequence[str]) -> dict[str, str | None]:
    values = {DATE: file.date, BUCKET: file.bucket}
    return {name: values[name] for name in partitions}


def _add(file: DataFile, partitions: Sequence[str], now_ms: int, *, is_change: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.octets_count,
        partition_values=_partition(file, partitions),
        modification_time=now_ms,
        data_change=is_change,
        stats=_stats_text(file),
    )


def _stats_text(file: DataFile) -> str:
    """Statistics as Delta has them. Its times are milliseconds, so they are rounded outwards."""
    stats = file.stats
    if stats == Stats():
        return json.dumps({"numRecords": file.rows_count})
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

    day = text(f"partition.{DATE}")
    stats = Stats()
    if day is not None:
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
        day or "",
        text(f"partition.{BUCKET}"),
        stats,
    )

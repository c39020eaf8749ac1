"""Table: rows of logs, in any format, each row once.

Rows become part of a table exactly once because a table remembers, for each consumer and each shard
of a log, the number up to which it has rows, and takes files and the new numbers in one step. Files
that begin where it ends are taken; files that it has already are not; anything else is an error.
So it does not matter who asks again, nor what else was forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa

from elea import crash
from elea.errors import ConfigError, ConflictError, StoreError
from elea.store.tables.catalog import (
    FORMATS,
    ROWS,
    Catalog,
    Change,
    OutdatedError,
    Snapshot,
    committed,
    format_of,
    missing_columns,
    offsets_mark,
    open_catalog,
    vacuum,
)
from elea.store.tables.files import DataFile, Part, pruned
from elea.store.tables.layout import COLUMNS, Layout, checked_buckets, discard

__all__: Final = ["FORMATS", "Table", "advanced", "format_of", "open_table"]


class Table:
    """A table of rows of logs. Any process may open it, as often as wanted."""

    def __init__(self, catalog: Catalog, layout: Layout, opened: Snapshot) -> None:
        self.format = catalog.format
        self.layout = layout
        self.opened = opened  # as it was then
        self._catalog = catalog

    def ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        """By shard, the number up to which a consumer has brought rows of a log."""
        return self._catalog.snapshot().marks(offsets_mark(consumer, log_id))

    def commit(
        self,
        consumer: str,
        parts: Sequence[Part],
        *,
        lossy: bool = False,
        handed: Mapping[int, int] | None = None,
        base: Snapshot | None = None,
    ) -> bool:
        """Take files into the table, all or none; whether it did not have them before.

        Args:
            lossy: Rows between those of the table and those of the parts may be missing.
            handed: By shard, up to where a log was looked through for rows of this table: between
                its end and there it has all.
            base: The table as it was a moment ago, to look at it once less.

        Raises:
            ConflictError: another writer brought some of these rows, or rows in between are
                missing.
        """
        if not parts:
            return False
        mark = offsets_mark(consumer, log_of(parts))
        files = [file for part in parts for file in part.files]

        def plan(base: Snapshot) -> Change | None:
            ends = base.marks(mark)
            after = advanced(ends, parts, lossy=lossy, handed=handed or {})
            if after is None:
                _discard_unlisted(self.layout, base, files)
                return None
            crash.point("table.before_commit")
            return Change(files, marks={mark: ends | after})

        is_new = committed(self._catalog, plan, base) is not None
        if is_new:
            crash.point("table.after_commit")
        return is_new

    def files(self, key_expr: str = "**", since: int = 0, until: int = 2**64) -> list[DataFile]:
        """Return the files that may have rows of keys that match, of a span of time.

        Args:
            since: The 64 bits of a timestamp, from which on rows are wanted,
            until: and from which on no more are.
        """
        return pruned(self._catalog.snapshot().files(), key_expr, since, until)

    def schema(self) -> pa.Schema:
        """All columns."""
        return _schema_of(self._catalog.snapshot())

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Put files that hold the same rows in place of others, in one step.

        Raises:
            StoreError: some of them are not in the table any more.
        """

        def plan(base: Snapshot) -> Change:
            listed = {file.path for file in base.files()}
            gone = [file.path for file in old if file.path not in listed]
            if gone:
                raise StoreError(f"{self.layout.root}: {gone[0]} is not in the table any more")
            return Change(new, old)

        committed(self._catalog, plan)

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns, which are null in the rows there are; those it has already are left.

        Raises:
            StoreError: it has one of that name and another type.
        """

        def plan(base: Snapshot) -> Change | None:
            have = _schema_of(base)
            missing = missing_columns(have, pa.schema(fields))
            return Change(schema=pa.schema([*have, *missing])) if missing else None

        committed(self._catalog, plan)

    def vacuum(self, older_than_s: int, *, dry_run: bool = False) -> list[str]:
        """Remove files that are not of the table, and are older than that; which they are."""
        return vacuum(self._catalog, older_than_s, dry_run=dry_run)

    def discard_unlisted(self, files: Sequence[DataFile]) -> None:
        """Remove files that were written for the table, except those that it lists.

        A commit may report an error and be in the table all the same.
        """
        _discard_unlisted(self.layout, self._catalog.snapshot(), files)


def open_table(
    path: str | Path,
    format: str | None = None,
    *,
    buckets: Mapping[str, str] | None = None,
    columns: pa.Schema = COLUMNS,
) -> Table:
    """A table, which is made if there is none and a format is given.

    Args:
        format: One of `FORMATS`; of a table that exists, None means the one it has.
        buckets: Names, and how the keys begin that each stands for; chosen when it is made.
        columns: Of a table that is made; those of a log's rows if not given.

    Raises:
        ConfigError: there is no such format, or the table is of another one, or has other buckets.
        StoreError: there is no table, or its directory cannot be made or written.
        MissingDependencyError: the packages for that format are not installed.
    """
    root = Path(path).absolute()
    kind = checked_format(root, format)
    wanted = None if buckets is None else checked_buckets(buckets)
    if format_of(root) is None:
        _make_directory(root)
    catalog = open_catalog(root, kind, replace(ROWS, buckets=wanted or {}))
    found = catalog.snapshot()
    if found.schema is None:
        schema = layout_of(root, kind, wanted or {}).table_schema(columns)
        with suppress(OutdatedError):  # another process makes it now
            catalog.commit(found, Change(schema=schema))
        found = catalog.snapshot()
    table = Table(catalog, layout_of(root, kind, found.buckets), found)
    if wanted is not None and wanted != dict(table.layout.buckets):
        reason = f"saw {wanted}; the table was made with {dict(table.layout.buckets)}"
        raise ConfigError("buckets", reason)
    return table


def checked_format(root: Path, format: str | None) -> str:
    """Return the format of a table: the one it has, else the one that is given.

    Raises:
        ConfigError: there is no such format, or the table is of another one.
        StoreError: there is no table, and no format is given.
    """
    if format is not None and format not in FORMATS:
        raise ConfigError("format", f"saw {format!a}; legal are {', '.join(FORMATS)}")
    found = format_of(root)
    if found is not None and format not in (None, found):
        raise ConfigError("format", f"saw {format!a}; the table at {root} is of format {found}")
    if found is None and format is None:
        raise StoreError(f"{root}: no table; legal are directories of {', '.join(FORMATS)}")
    return found or format or ""


def layout_of(root: Path, format: str, buckets: Mapping[str, str]) -> Layout:
    """Return how a table of a format lays out its files."""
    return Layout(
        str(root),
        buckets,
        staged=format == "parquet",
        partitions_inside=format == "iceberg",
    )


def _make_directory(root: Path) -> None:
    """Make it here: each format would tell in its own words, at length, that it cannot."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: the table cannot be made: {error.strerror}") from None
    if not os.access(root, os.W_OK):
        raise StoreError(f"{root}: the table cannot be made: the directory cannot be written")


def _schema_of(snapshot: Snapshot) -> pa.Schema:
    if snapshot.schema is None:
        raise StoreError("the table is not there any more")
    return snapshot.schema


def advanced(
    ends: Mapping[int, int], parts: Sequence[Part], *, lossy: bool, handed: Mapping[int, int]
) -> dict[int, int] | None:
    """Up to where a table has rows once parts are in it; None if it has all of them.

    Args:
        lossy: Rows may be missing between.
        handed: By shard, a number that is not missing any row before it, wherever the table ends.

    Raises:
        ConflictError: it has some of them, or rows in between are missing.
    """
    after: dict[int, int] = {}
    done_count = 0
    for part in sorted(parts, key=lambda part: (part.shard, part.first)):
        known = ends.get(part.shard)
        if known is not None and part.end <= known:
            done_count += 1
            continue
        end = after.get(part.shard, known)
        reached = max(
            (one for one in (end, handed.get(part.shard)) if one is not None), default=None
        )
        is_missing = reached is not None and part.first > reached and not lossy
        if is_missing or (end is not None and part.first < end):
            raise ConflictError(part.shard, part.first, part.end, end or reached or 0)
        after[part.shard] = part.end
    if done_count and after:
        # One batch is in the table whole, or not at all: these are not the batches it knows.
        part = next(one for one in parts if one.end > ends.get(one.shard, 0))
        raise ConflictError(part.shard, part.first, part.end, ends.get(part.shard, 0))
    return after or None


def _discard_unlisted(layout: Layout, base: Snapshot, files: Sequence[DataFile]) -> None:
    listed = {file.path for file in base.files()}
    discard(layout.root, [file for file in files if file.path not in listed])


def log_of(parts: Sequence[Part]) -> UUID:
    """The log of parts, which is one."""
    [found] = {part.log_id for part in parts}
    return found

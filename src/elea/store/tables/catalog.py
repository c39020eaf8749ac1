"""Catalog: the files, columns and marks of a table, and how they change in one step.

There is one protocol and one implementation of it for each format. A commit is compare and set: it
succeeds only on the table as a snapshot saw it, and it is durable when it returns. What a commit
consists of depends on the table before it, so no format may move one on top of another's:
`committed` makes it again instead. Decision record 0021 has the windows between the effects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from elea.errors import MissingDependencyError, StoreError
from elea.store.tables.files import DataFile
from elea.store.tables.layout import BUCKET, DATE, old_partials

FORMATS: Final = ("delta", "iceberg", "parquet")
ABSENT: Final = -1  # the version of a table that is not there yet
ATTEMPTS_MAX: Final = 20
CHANGES: Final = "elea.results"  # the mark of a table's changes, which are numbered from 1 on
BUCKETS: Final = "elea.buckets"  # under which a table keeps its buckets, if the format has names

Marks = Mapping[str, Mapping[int, int]]


class OutdatedError(StoreError):
    """A commit whose base is not the table any more; its files and marks are not in the table."""


@dataclass(frozen=True, slots=True)
class Design:
    """What a table is made with.

    Args:
        name: In catalogs in which tables have names.
        is_partitioned: By day, and by buckets of keys if there are any.
        buckets: Names, and the beginnings of keys that they stand for.
    """

    name: str
    is_partitioned: bool
    buckets: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> list[str]:
        """The columns by which files are partitioned."""
        if not self.is_partitioned:
            return []
        return [DATE, BUCKET] if self.buckets else [DATE]


ROWS: Final = Design("elea.bronze", is_partitioned=True)
RESULTS: Final = Design("elea.results", is_partitioned=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does; all of it or nothing.

    Args:
        add: Files that are whole, durable and below the table.
        remove: Files that leave the table. They stay on the disk for readers until `vacuum`,
            unless the format has no list of its files.
        marks: By name, a whole vector of numbers that only grow. A commit without marks changes
            how rows are stored, and not which there are.
        schema: All columns from now on. A table gets columns, and never loses one.
    """

    add: Sequence[DataFile] = ()
    remove: Sequence[DataFile] = ()
    marks: Marks = field(default_factory=dict)
    schema: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as it was when this was made.

    Args:
        version: Grows with each commit, by any process; `ABSENT` if there is no table.
        schema: All columns; None if there is no table.
        buckets: Those it was made with.
        files: Lists all files, in the order of their paths. Plain Parquet has no versions: there
            they are those of now.
        marks: Gives the vector of a name; empty if it was never committed.
        own: What the format has of it.
    """

    version: int = ABSENT
    schema: pa.Schema | None = None
    buckets: Mapping[str, str] = field(default_factory=dict)
    files: Callable[[], list[DataFile]] = list
    marks: Callable[[str], dict[int, int]] = field(default=lambda _: {})
    own: Any = None


class Catalog(Protocol):
    """What a format keeps of one table."""

    format: str
    root: Path

    def snapshot(self) -> Snapshot:
        """The table as it is now. What a killed commit left undone is done first."""

    def commit(self, base: Snapshot, change: Change) -> None:
        """Change the table, if it is still as `base`, or make it; durable when it returns.

        Where a library reports an error, and the change is in the table all the same, it returns.

        Raises:
            OutdatedError: another commit came first. Columns may be there, files and marks are not.
            StoreError: a mark would shrink, a column would get another type, or a table that is to
                be made has no columns.
            Exception: from the file system or a library. Whether the change is in the table is not
                known: its files must stay.
        """

    def forget(self, before_s: float) -> None:
        """Give up versions that were replaced before a time, if the format keeps them by itself."""

    def unlisted(self, before_s: float) -> list[str]:
        """Return data files from before a time that no version has which can still be read."""


def open_catalog(root: Path, format: str, design: Design) -> Catalog:
    """Return the catalog of a table, which need not be there yet.

    Raises:
        MissingDependencyError: the packages for that format are not installed.
    """
    try:  # late: each needs packages that the others do not
        if format == "delta":
            from elea.store.tables.delta import DeltaCatalog

            return DeltaCatalog(root, design)
        if format == "iceberg":
            from elea.store.tables.iceberg import IcebergCatalog

            return IcebergCatalog(root, design)
        from elea.store.tables.parquet import ParquetCatalog
    except ModuleNotFoundError as error:
        extra = "arrow" if format == "parquet" else format
        raise MissingDependencyError(f"a table of format {format}", extra) from error
    return ParquetCatalog(root, design)


def format_of(root: Path) -> str | None:
    """Return the format of the table in a directory; None if there is no table."""
    if (root / "_delta_log").is_dir():
        return "delta"
    if (root / "catalog.sqlite").is_file():
        return "iceberg"
    if (root / "_elea" / "table.json").is_file():
        return "parquet"
    return None


def committed(
    catalog: Catalog, plan: Callable[[Snapshot], Change | None], base: Snapshot | None = None
) -> Change | None:
    """Commit a change that is planned for the table as it is, again if another commit came first.

    Args:
        plan: None: there is nothing to do.
        base: The table as it was a moment ago, to look at it once less.

    Returns:
        The change that is in the table now; None: there was nothing to do.

    Raises:
        StoreError: other commits came first each time.
    """
    for attempt in range(ATTEMPTS_MAX):
        now = catalog.snapshot() if base is None else base
        base = None
        try:
            change = plan(now)
            if change is not None:
                catalog.commit(now, change)
            return change
        except OutdatedError:
            time.sleep(min(0.005 * 2**attempt, 0.5))
    reason = f"gave up after {ATTEMPTS_MAX} attempts: concurrent commits kept winning"
    raise StoreError(f"{catalog.root}: {reason}")


def vacuum(catalog: Catalog, older_than_s: float, *, dry_run: bool = False) -> list[str]:
    """Remove files that are not of a table, and are older than that; their paths.

    They were replaced, or never committed, or never finished.
    """
    before_s = time.time() - older_than_s
    if not dry_run:
        catalog.forget(before_s)
    found = sorted({*catalog.unlisted(before_s), *old_partials(catalog.root, before_s)})
    for path in () if dry_run else found:
        (catalog.root / path).unlink(missing_ok=True)
    return found


def offsets_mark(consumer: str, log_id: object) -> str:
    """Return the mark that says, by shard, up to which offset a consumer has brought a log."""
    return f"elea:{consumer}:{log_id}"


def outdated(root: Path, base: Snapshot) -> OutdatedError:
    """Return the error of a commit that lost."""
    return OutdatedError(f"{root}: expected version {base.version}, another commit came first")


def refuse_smaller(root: Path, base: Snapshot, marks: Marks) -> None:
    """Check that marks only grow.

    Raises:
        StoreError: one would shrink or vanish.
    """
    for name, numbers in marks.items():
        for index, known in base.marks(name).items():
            if numbers.get(index, ABSENT) < known:
                seen = numbers.get(index)
                raise StoreError(f"{root}: mark {name}[{index}]: expected >= {known}, got {seen}")


def missing_columns(have: pa.Schema | None, wanted: pa.Schema | None) -> list[pa.Field]:
    """Return the columns that a table does not have yet; null in its rows.

    Raises:
        StoreError: it has one of that name and another type; or there is no table, and no columns.
    """
    if have is None and wanted is None:
        raise StoreError("expected columns for a table that is to be made, got none")
    missing = []
    have = pa.schema([]) if have is None else have
    for column in () if wanted is None else wanted:
        if column.name not in have.names:
            missing.append(column.with_nullable(True))
        elif have.field(column.name).type != column.type:
            seen = have.field(column.name).type
            reason = f"is {seen}, and cannot become {column.type}; give the new column another name"
            raise StoreError(f"column {column.name} {reason}")
    return missing

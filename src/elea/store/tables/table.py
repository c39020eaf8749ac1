"""Table: what all formats have in common, and how one is opened.

Rows become part of a table exactly once because a table remembers, for each consumer and each shard
of a log, the number up to which it has rows, and takes files and the new numbers in one step. Files
that begin where it ends are taken; files that it has already are not; anything else is an error.
So it does not matter who asks again, nor what else was forgotten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

import pyarrow as pa

from elea.errors import ConfigError, ConflictError, MissingDependencyError, StoreError
from elea.store.tables.files import DataFile, Part
from elea.store.tables.layout import COLUMNS, Layout, checked_buckets, discard

FORMATS: Final = ("delta", "iceberg", "parquet")
ATTEMPTS_MAX: Final = 20  # at a commit while others commit too; each looks at the table anew
CROWDED: Final = f"gave up after {ATTEMPTS_MAX} attempts: concurrent commits kept winning"


class Table(Protocol):
    """A table. Whoever has its directory may open it, as often as wanted."""

    format: str
    layout: Layout

    def ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        """By shard, the number up to which a consumer has brought rows of a log."""

    def commit(self, consumer: str, parts: Sequence[Part], *, lossy: bool = False) -> bool:
        """Take files into the table, all or none; whether it did not have them before.

        Args:
            lossy: Rows between those of the table and those of the parts may be missing.

        Raises:
            ConflictError: somebody else brought some of these rows, or rows in between are missing.
        """

    def files(self, key_expr: str = "**", since: int = 0, until: int = 2**64) -> list[DataFile]:
        """The files that may have rows of keys that match, of a span of time.

        Args:
            since: The 64 bits of a timestamp, from which on rows are wanted,
            until: and from which on no more are.
        """

    def schema(self) -> pa.Schema:
        """All columns."""

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Put files that hold the same rows in place of others, in one step.

        Raises:
            ConflictError: some of them are not in the table any more.
        """

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns, which are null in the rows there are; those it has already are left.

        Raises:
            StoreError: it has one of that name and another type.
        """

    def vacuum(self, older_than_s: int, *, dry_run: bool = False) -> list[str]:
        """Remove files that are not of the table, and are older than that; which they are."""


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
    if format is not None and format not in FORMATS:
        raise ConfigError("format", f"saw {format!a}; legal are {', '.join(FORMATS)}")
    found = format_of(root)
    if found is None and format is None:
        raise StoreError(f"{root}: no table; legal are directories of {', '.join(FORMATS)}")
    if found is not None and format not in (None, found):
        raise ConfigError("format", f"saw {format!a}; the table at {root} is of format {found}")
    wanted = None if buckets is None else checked_buckets(buckets)
    kind = found or format or ""
    if found is None:
        _make_directory(root)
    try:
        table = _opened(root, kind, wanted, columns)
    except ModuleNotFoundError as error:
        extra = "arrow" if kind == "parquet" else kind
        raise MissingDependencyError(f"a table of format {kind}", extra) from error
    if wanted is not None and wanted != dict(table.layout.buckets):
        reason = f"saw {wanted}; the table was made with {dict(table.layout.buckets)}"
        raise ConfigError("buckets", reason)
    return table


def _make_directory(root: Path) -> None:
    """Make it here: each format would tell in its own words, at length, that it cannot."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{root}: the table cannot be made: {error.strerror}") from None
    if not os.access(root, os.W_OK):
        raise StoreError(f"{root}: the table cannot be made: the directory cannot be written")


def _opened(
    root: Path, format: str, buckets: Mapping[str, str] | None, columns: pa.Schema
) -> Table:
    # Late: each needs packages that the others do not.
    if format == "delta":
        from elea.store.tables.delta import DeltaLake

        return DeltaLake(root, buckets, columns)
    if format == "iceberg":
        from elea.store.tables.iceberg import Iceberg

        return Iceberg(root, buckets, columns)
    from elea.store.tables.parquet import PlainParquet

    return PlainParquet(root, buckets, columns)


def format_of(root: Path) -> str | None:
    """The format of a table, by its directory; None: there is no table."""
    if (root / "_delta_log").is_dir():
        return "delta"
    if (root / "catalog.sqlite").is_file():
        return "iceberg"
    if (root / "_elea" / "table.json").is_file():
        return "parquet"
    return None


def advanced(
    ends: Mapping[int, int], parts: Sequence[Part], *, lossy: bool
) -> dict[int, int] | None:
    """Up to where a table has rows once parts are in it; None if it has all of them.

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
        if end is not None and (part.first < end or (part.first > end and not lossy)):
            raise ConflictError(part.shard, part.first, part.end, end)
        after[part.shard] = part.end
    if done_count and after:
        # One batch is in the table whole, or not at all: these are not the batches it knows.
        part = next(one for one in parts if one.end > ends.get(one.shard, 0))
        raise ConflictError(part.shard, part.first, part.end, ends.get(part.shard, 0))
    return after or None


def discard_unlisted(table: Table, files: Sequence[DataFile]) -> None:
    """Remove files that were written for a table, except those that it lists.

    A commit may report an error and be in the table all the same.
    """
    listed = {file.path for file in table.files()}
    discard(table.layout.root, [file for file in files if file.path not in listed])


def is_ours(table: Table, files: Sequence[DataFile], attempt: int) -> bool:
    """Whether a table that has all rows of some files has them by a commit of these files.

    Files that it does not list are removed, unless a commit of them was tried: then `vacuum` may.
    """
    if not attempt:
        discard_unlisted(table, files)
        return False
    listed = {file.path for file in table.files()}
    return bool(files) and all(file.path in listed for file in files)


def is_replaced(
    listed: Collection[str], old: Sequence[DataFile], new: Sequence[DataFile], attempt: int
) -> bool:
    """Whether a replacement that reported an error is in the table all the same.

    Args:
        listed: The paths of the table's files.
        attempt: How often it was tried before.

    Raises:
        StoreError: some of the old files are not in the table any more, for another reason.
    """
    gone = [file.path for file in old if file.path not in listed]
    if attempt and len(gone) == len(old) and all(file.path in listed for file in new):
        return True
    if gone:
        raise StoreError(f"{gone[0]} is not in the table any more")
    return False


def ends_to_text(ends: Mapping[int, int]) -> str:
    """Numbers by shard, as tables keep them."""
    return json.dumps({str(shard): end for shard, end in sorted(ends.items())})


def ends_from_text(text: str | None) -> dict[int, int]:
    """The same."""
    return {} if not text else {int(shard): int(end) for shard, end in json.loads(text).items()}


def log_of(parts: Sequence[Part]) -> UUID:
    """The log of parts, which is one."""
    [found] = {part.log_id for part in parts}
    return found


def check_types(have: pa.Schema, fields: Sequence[pa.Field]) -> list[pa.Field]:
    """The fields that a table does not have yet.

    Raises:
        StoreError: it has one of another type.
    """
    missing = []
    for one in fields:
        if one.name not in have.names:
            missing.append(one.with_nullable(True))
        elif have.field(one.name).type != one.type:
            seen, type = have.field(one.name).type, one.type
            raise StoreError(f"column {one.name} is {seen}, and cannot become {type}; name it anew")
    return missing

"""Results: tables of any columns that are changed in rounds, small beside what they are made of.

A change takes rows away and adds others. It has a number, and becomes part of the table together
with it, or not at all. Files that lose rows are written anew, and small ones become one now and
then.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from elea.atomic_file import replacing
from elea.errors import StoreError
from elea.store.tables.catalog import (
    CHANGES,
    RESULTS,
    Catalog,
    Change,
    Snapshot,
    committed,
    open_catalog,
    vacuum,
)
from elea.store.tables.files import DataFile
from elea.store.tables.layout import STAGING, discard, wide
from elea.store.tables.table import checked_format

_LOG: Final = logging.getLogger("elea.store")
DATA: Final = "rows"  # the directory of the files; no other table has one of that name
_FILES_MAX: Final = 64  # of a table, before small ones become one
_SMALL_LEN: Final = 16 << 20  # octets
_CHANGES: Final = 256  # after which files that are not of the table any more are looked for
_READ_S: Final = 3_600  # files that are not of the table any more stay that long, for readers


@dataclass(frozen=True, slots=True)
class Removal:
    """Which rows go.

    Args:
        columns: What has to be looked at for that,
        marked: and from these columns, a boolean for each row.
    """

    columns: tuple[str, ...]
    marked: Callable[[pa.Table], pa.Array]


def removal_of(names: pa.Table) -> Removal | None:
    """Rows with the same values as some, in all columns that those have; None: there are none."""
    if not names.num_rows:
        return None
    columns = tuple(names.column_names)
    gone = set(_tuples(names))

    def marked(rows: pa.Table) -> pa.Array:
        return pa.array([name in gone for name in _tuples(rows.select(columns))], pa.bool_())

    return Removal(columns, marked)


def removal_between(column: str, since: pa.Scalar | None, until: pa.Scalar | None) -> Removal:
    """Rows of a span of time: from a moment on, and before another."""

    def marked(rows: pa.Table) -> pa.Array:
        found = pa.repeat(pa.scalar(True), rows.num_rows)
        if since is not None:
            found = pc.and_(found, pc.greater_equal(rows[column], since))
        if until is not None:
            found = pc.and_(found, pc.less(rows[column], until))
        return pc.fill_null(found, False)

    return Removal((column,), marked)


def removal_all(schema: pa.Schema | None) -> Removal | None:
    """All rows of a table with these columns."""
    if schema is None:
        return None
    return Removal((schema.names[0],), lambda rows: pa.repeat(pa.scalar(True), rows.num_rows))


class Results:
    """A table of results."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.root = catalog.root

    def number(self) -> int:
        """Of its last change; 0: none yet."""
        return _number(self._catalog.snapshot())

    def schema(self) -> pa.Schema | None:
        """Its columns; None: there is no table yet."""
        return self._catalog.snapshot().schema

    def rows_count(self) -> int:
        """How many rows there are."""
        return sum(file.rows_count for file in self._catalog.snapshot().files())

    def paths(self) -> list[str]:
        """Its Parquet files, from the root of the file system."""
        return [str(self.root / file.path) for file in self._catalog.snapshot().files()]

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table | None:
        """All rows; None: there is no table yet."""
        found = self._catalog.snapshot()
        schema = found.schema
        if schema is None:
            return None
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        return self._read(found.files(), schema)

    def change(
        self,
        number: int,
        rows: pa.Table | None,
        removals: Sequence[Removal] = (),
    ) -> None:
        """Take rows away and add others, in one step.

        Args:
            number: Of this change: the one after the last.

        Raises:
            StoreError: it does not follow the last one, so that another process changes the table;
                or the rows have other columns than the table.
        """
        lost: list[DataFile] = []  # files of a commit that another one came before

        def plan(base: Snapshot) -> Change | None:
            discard(str(self.root), lost)
            lost.clear()
            have = _number(base)
            if number != have + 1:
                raise _taken(self.root, number, have)
            planned = self._planned(base, number, rows, removals)
            lost.extend(planned.add if planned is not None else ())
            return planned

        if committed(self._catalog, plan) is not None and number % _CHANGES == 0:
            self._tidy()

    def _planned(
        self, base: Snapshot, number: int, rows: pa.Table | None, removals: Sequence[Removal]
    ) -> Change | None:
        schema = base.schema
        if schema is not None:
            rows = None if rows is None else _fitting(self.root, schema, rows)
        elif rows is not None:
            rows = rows.cast(_wide(rows.schema))
            schema = rows.schema
        else:
            return None
        files = base.files()
        gone, kept = self._without(files, removals, schema)
        parts = kept if rows is None or not rows.num_rows else [*kept, rows]
        rest = [file for file in files if file not in gone]
        small = [file for file in rest if file.octets_count < _SMALL_LEN]
        if len(small) >= _FILES_MAX:
            parts.insert(0, self._read(small, schema))
            gone += small
        (self.root / DATA).mkdir(parents=True, exist_ok=True)
        come = [self._written(number, pa.concat_tables(parts))] if parts else []
        is_new = base.schema is None
        return Change(come, gone, {CHANGES: {0: number}}, schema if is_new else None)

    def _tidy(self) -> None:
        """Remove files that no reader can still be at. If it fails, rows are safe."""
        try:
            vacuum(self._catalog, _READ_S)
        except Exception as error:  # of a disk, or of a library
            _LOG.warning("%s: files that were replaced stay: %s", self.root, error)

    def _without(
        self, files: Sequence[DataFile], removals: Sequence[Removal], schema: pa.Schema
    ) -> tuple[list[DataFile], list[pa.Table]]:
        """Files that lose rows, and the rows of them that stay."""
        gone: list[DataFile] = []
        kept: list[pa.Table] = []
        if not removals:
            return gone, kept
        columns = {name for one in removals for name in one.columns}
        looked_at = pa.schema([field for field in schema if field.name in columns])
        for file in files:
            some = self._read([file], looked_at)
            mask = removals[0].marked(some)
            for one in removals[1:]:
                mask = pc.or_(mask, one.marked(some))
            if not pc.any(mask).as_py():
                continue
            gone.append(file)
            stay = self._read([file], schema).filter(pc.invert(mask))
            if stay.num_rows:
                kept.append(stay)
        return gone, kept

    def _read(self, files: Sequence[DataFile], schema: pa.Schema) -> pa.Table:
        tables = [
            pq.read_table(self.root / file.path, columns=schema.names).cast(schema)
            for file in files
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def _written(self, number: int, rows: pa.Table) -> DataFile:
        directory = f"{STAGING}/{DATA}" if self._catalog.format == "parquet" else DATA
        path = f"{directory}/{number:012d}-{secrets.token_hex(4)}.parquet"
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            pq.write_table(rows, partial, compression="zstd", store_schema=False)
        return DataFile(path, rows.num_rows, file.stat().st_size, "")


def open_results(path: str | Path, format: str | None = None) -> Results:
    """A table of results; it exists once it was changed.

    Args:
        format: One of `FORMATS`; of one that exists, None means the one it has.

    Raises:
        ConfigError: there is no such format, or the table is of another one.
        StoreError: there is no table, and no format is given.
        MissingDependencyError: the packages for that format are not installed.
    """
    root = Path(path).absolute()
    return Results(open_catalog(root, checked_format(root, format), RESULTS))


def is_results(path: str | Path) -> bool:
    """Whether there is a table of results."""
    return (Path(path) / DATA).is_dir()


def _number(snapshot: Snapshot) -> int:
    return snapshot.marks(CHANGES).get(0, 0)


def _wide(schema: pa.Schema) -> pa.Schema:
    """Columns as all formats have them, and all later rows fit.

    Iceberg has no integers of less than 32 bits. Every column may be null: that there are no nulls
    in the first rows, as Spark says of a count, says nothing of later ones.
    """
    return pa.schema([pa.field(one.name, wide(one.type)) for one in schema])


def _taken(root: Path, number: int, have: int) -> StoreError:
    reason = f"saw change {number}, after {have} comes {have + 1}; does somebody else write it?"
    return StoreError(f"{root}: {reason}")


def _fitting(root: Path, schema: pa.Schema, rows: pa.Table) -> pa.Table:
    if set(schema.names) != set(rows.schema.names):
        seen, legal = ", ".join(rows.schema.names), ", ".join(schema.names)
        raise StoreError(f"{root}: saw rows with {seen}; it has {legal}. Make the table anew")
    try:
        return rows.select(schema.names).cast(schema)
    except pa.ArrowInvalid as error:
        raise StoreError(f"{root}: saw rows of other types: {error}. Make it anew") from error


def _tuples(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

"""Tables of format Iceberg, through PyIceberg, with a catalog of their own in SQLite.

How far consumers have come are properties of the table, which change in the same step as its files.
PyIceberg would put a commit that lost against another one on top of that: it is told not to, as
what is to be committed depends on what was there before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from elea import crash
from elea.errors import StoreError
from elea.store.tables.files import DataFile, Part, Stats, pruned
from elea.store.tables.iceberg_catalog import DurableCatalog
from elea.store.tables.layout import (
    BUCKET,
    COLUMNS,
    DATE,
    WITH_STATS,
    Layout,
    old_partials,
)
from elea.store.tables.table import (
    ATTEMPTS_MAX,
    CROWDED,
    advanced,
    check_types,
    ends_from_text,
    ends_to_text,
    is_ours,
    is_replaced,
    log_of,
)

NAME: Final = "elea.bronze"  # of the table in its catalog
_BUCKETS: Final = "elea.buckets"
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.metrics.default": "none",
    # In full, as keys have long beginnings in common.
    **{f"write.metadata.metrics.column.{name}": "full" for name in WITH_STATS},
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class Iceberg:
    """A table of format Iceberg."""

    format = "iceberg"

    def __init__(
        self, root: Path, buckets: Mapping[str, str] | None, columns: pa.Schema = COLUMNS
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        try:
            table = self._load()
        except NoSuchTableError:
            table = self._made(buckets or {}, columns)
        stored = json.loads(table.properties.get(_BUCKETS, "{}"))
        self.layout = Layout(str(root), stored, partitions_inside=True)

    def ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        """As `Table`."""
        return ends_from_text(self._load().properties.get(_name(consumer, log_id)))

    def commit(self, consumer: str, parts: Sequence[Part], *, lossy: bool = False) -> bool:
        """As `Table`."""
        if not parts:
            return False
        name = _name(consumer, log_of(parts))
        files = [file for part in parts for file in part.files]
        for attempt in range(ATTEMPTS_MAX):
            table = self._load()
            ends = ends_from_text(table.properties.get(name))
            after = advanced(ends, parts, lossy=lossy)
            if after is None:
                return is_ours(self, files, attempt)
            crash.point("table.before_commit")
            try:
                with table.transaction() as step:
                    step.set_properties({name: ends_to_text(ends | after)})
                    # Also with no file: that the table is as it was is asked with files only.
                    paths = [str(self._root / file.path) for file in files]
                    step.add_files(paths, check_duplicate_files=False)
                crash.point("table.after_commit")
                return True
            except CommitFailedException:
                _pause(attempt)
        raise StoreError(f"{self._root}: {CROWDED}")

    def files(self, key_expr: str = "**", since: int = 0, until: int = 2**64) -> list[DataFile]:
        """As `Table`."""
        table = self._load()
        found = [self._file(table, one.file) for one in table.scan().plan_files()]
        return sorted(pruned(found, key_expr, since, until), key=lambda file: file.path)

    def schema(self) -> pa.Schema:
        """As `Table`."""
        found = schema_to_pyarrow(self._load().schema(), include_field_ids=False)
        return pa.schema([pa.field(one.name, small(one.type)) for one in found])

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """As `Table`."""
        for attempt in range(ATTEMPTS_MAX):
            table = self._load()
            here = {one.file.file_path: one.file for one in table.scan().plan_files()}
            paths = [str(self._root / file.path) for file in old]
            if is_replaced({self._below(path) for path in here}, old, new, attempt):
                return
            try:
                with table.transaction() as step, step.update_snapshot().overwrite() as change:
                    for path in paths:
                        change.delete_data_file(here[path])
                    for file in new:
                        path = str(self._root / file.path)
                        change.append_data_file(
                            parquet_file_to_data_file(table.io, table.metadata, path)
                        )
                return
            except CommitFailedException:
                _pause(attempt)
        raise StoreError(f"{self._root}: {CROWDED}")

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """As `Table`."""
        table = self._load()
        missing = check_types(self.schema(), fields)
        if missing:
            with table.update_schema() as change:
                change.union_by_name(pa.schema(missing))

    def vacuum(self, older_than_s: int, *, dry_run: bool = False) -> list[str]:
        """As `Table`; older snapshots go, and the files that only they have."""
        table = self._load()
        before = datetime.now(UTC) - timedelta(seconds=older_than_s)
        if not dry_run:
            table.maintenance.expire_snapshots().older_than(before).commit()
            table = self._load()
        used: set[str] = set()
        if table.metadata.snapshots:
            used.update(table.inspect.all_files()["file_path"].to_pylist())
        files = (self._root / "data").rglob("*.parquet")
        old = (file for file in files if file.stat().st_mtime < before.timestamp())
        found = [str(file.relative_to(self._root)) for file in old if str(file) not in used]
        found += old_partials(self._root, before.timestamp())
        if not dry_run:
            for path in found:
                (self._root / path).unlink(missing_ok=True)
        return sorted(found)

    def _below(self, path: str) -> str:
        return str(Path(path).relative_to(self._root))

    def _catalog(self) -> DurableCatalog:
        return DurableCatalog(self._root)

    def _load(self) -> IcebergTable:
        return self._catalog().load_table(NAME)

    def _made(self, buckets: Mapping[str, str], columns: pa.Schema) -> IcebergTable:
        layout = Layout(str(self._root), buckets, partitions_inside=True)
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(NAME.split(".")[0])
        properties = _PROPERTIES | ({_BUCKETS: json.dumps(buckets)} if buckets else {})
        try:
            with (
                catalog.create_table_transaction(
                    NAME,
                    schema=layout.table_schema(columns),
                    location=self._root.as_uri(),
                    properties=properties,
                ) as step,
                step.update_spec() as spec,
            ):
                for column in layout.partitions:
                    spec.add_field(column, IdentityTransform(), column)
        except TableAlreadyExistsError:  # somebody else made it now
            pass
        return self._load()

    def _file(self, table: IcebergTable, file: IcebergFile) -> DataFile:
        def bound(bounds: Mapping[int, bytes] | None, name: str) -> Any:
            field = table.schema().find_field(name)
            octets = (bounds or {}).get(field.field_id)
            assert isinstance(field.field_type, PrimitiveType)
            return None if octets is None else from_bytes(field.field_type, octets)

        low, high, nulls = file.lower_bounds, file.upper_bounds, file.null_value_counts or {}
        stats = Stats(
            bound(low, "key"),
            bound(high, "key"),
            bound(low, "ts"),
            bound(high, "ts"),
            bound(low, "recv_ts"),
            bound(high, "recv_ts"),
            nulls.get(table.schema().find_field("hlc").field_id),
        )
        day = bound(low, DATE)
        return DataFile(
            self._below(file.file_path),
            file.record_count,
            file.file_size_in_bytes,
            str(datetime(1970, 1, 1, tzinfo=UTC).date() + timedelta(days=day)),
            bound(low, BUCKET) if self.layout.buckets else None,
            stats,
        )


def _name(consumer: str, log_id: UUID) -> str:
    return f"elea.ends.{consumer}.{log_id}"


def small(type: pa.DataType) -> pa.DataType:
    """Return a type as tables have it; pyiceberg reads texts and lists as large ones."""
    if pa.types.is_large_string(type):
        return pa.string()
    if pa.types.is_large_binary(type):
        return pa.binary()
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(_small_field(type.value_field))
    if pa.types.is_struct(type):
        return pa.struct([_small_field(one) for one in type])
    if pa.types.is_map(type):
        return pa.map_(_small_field(type.key_field), _small_field(type.item_field))
    return type


def _small_field(field: pa.Field) -> pa.Field:
    return field.with_type(small(field.type))


def _pause(attempt: int) -> None:
    time.sleep(min(0.005 * 2**attempt, 0.5))

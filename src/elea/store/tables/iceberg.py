"""Tables of format Iceberg, through PyIceberg, with a catalog of their own in SQLite.

Marks are properties of the table, which change in the same step as its files. The pointer to the
metadata is compared and set by SQLite; PyIceberg would put a commit that lost against another one
on top of that, and is told not to.

PyIceberg writes manifests and metadata, and leaves their way to the disk to the system; then SQLite
commits the pointer, durably. A loss of power between the two would leave a pointer to a torn file,
so what the pointer will name is synced first. And where a commit reports a failure, PyIceberg takes
away its manifests: the pointer is looked at before that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import CommitTableResponse, StagedTable, TableProperties
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from elea.atomic_file import sync
from elea.store.tables.catalog import (
    BUCKETS,
    CHANGES,
    RESULTS,
    ROWS,
    Change,
    Design,
    Snapshot,
    committed,
    missing_columns,
    outdated,
    refuse_smaller,
)
from elea.store.tables.files import DataFile, Stats
from elea.store.tables.layout import BUCKET, DATE, WITH_STATS

_CATALOG: Final = "catalog.sqlite"
# Readers open `SqlCatalog("elea", uri="sqlite:///TABLE/catalog.sqlite")`.
_CATALOG_NAME: Final = "elea"
_FILE: Final = "file://"
_NUMBER: Final = "elea.number"
_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING  # files have no field ids: names tell
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_STATS: Final = {
    "write.metadata.metrics.default": "none",
    # In full, as keys have long beginnings in common.
    **{f"write.metadata.metrics.column.{name}": "full" for name in WITH_STATS},
}
_PLACES: Final = ("data", "rows")  # of files
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()


class DurableCatalog(SqlCatalog):
    """The catalog of the table in a directory.

    A commit is one on the table that it was made for: PyIceberg loads it again, and checks less.
    """

    def __init__(self, root: Path) -> None:
        uri = f"sqlite:///{root / _CATALOG}"
        super().__init__(_CATALOG_NAME, uri=uri, warehouse=root.as_uri())
        self._metadata_path = ""  # what was written last
        self._base: str | None = None  # the metadata that a commit is made for

    def _update_and_stage_table(
        self, current_table: IcebergTable | None, *args: Any, **options: Any
    ) -> StagedTable:
        if current_table is not None and current_table.metadata_location != self._base:
            raise CommitFailedException(f"{self._base} is not current any more")
        return super()._update_and_stage_table(current_table, *args, **options)

    def _write_metadata(  # type: ignore[override]  # PyIceberg calls it by `self`
        self, metadata: TableMetadata, io: FileIO, metadata_path: str
    ) -> None:
        self._metadata_path = ""
        super()._write_metadata(metadata, io, metadata_path)
        paths = [metadata_path]
        snapshot = metadata.current_snapshot()
        if snapshot is not None:
            paths.append(snapshot.manifest_list)
            paths += [
                manifest.manifest_path
                for manifest in snapshot.manifests(io)
                if manifest.added_snapshot_id == snapshot.snapshot_id
            ]
        files = [Path(path.removeprefix(_FILE)) for path in paths]
        for path in (*files, *{file.parent for file in files}):
            sync(path)
        self._metadata_path = metadata_path

    def commit_table(self, table: IcebergTable, *args: Any, **options: Any) -> CommitTableResponse:
        """As `SqlCatalog`; a commit that reported a failure and is there all the same is one.

        Others may have committed since: what is current then is made of it.
        """
        self._metadata_path, self._base = "", table.metadata_location
        try:
            return super().commit_table(table, *args, **options)
        except CommitFailedException:
            current = self.load_table(table.name())
            before = (one.metadata_file for one in current.metadata.metadata_log)
            if self._metadata_path not in (current.metadata_location, *before):
                raise
            return CommitTableResponse(
                metadata=current.metadata, **{"metadata-location": current.metadata_location}
            )


class IcebergCatalog:
    """As `Catalog`."""

    format = "iceberg"

    def __init__(self, root: Path, design: Design) -> None:
        self.root = root
        self._design = design

    def snapshot(self) -> Snapshot:
        """As `Catalog`."""
        table = self._table()
        if table is None:
            return Snapshot()
        columns = schema_to_pyarrow(table.schema(), include_field_ids=False)
        properties = table.properties
        return Snapshot(
            int(Path(table.metadata_location).name.partition("-")[0]),  # of the metadata file
            pa.schema([pa.field(column.name, _small(column.type)) for column in columns]),
            json.loads(properties.get(BUCKETS, "{}")),
            lambda: self._files(table),
            lambda name: _marks(name, properties.get(_property(name))),
            table,
        )

    def commit(self, base: Snapshot, change: Change) -> None:
        """As `Catalog`."""
        refuse_smaller(self.root, base, change.marks)
        missing = missing_columns(base.schema, change.schema)
        if base.own is None:
            self._made(base, missing)
            base, missing = self.snapshot(), []
        properties = {_property(name): _text(name, one) for name, one in change.marks.items()}
        table = copy(base.own)  # PyIceberg moves it to what it commits
        try:
            with table.transaction() as step:
                if missing:
                    with step.update_schema() as columns:
                        columns.union_by_name(pa.schema(missing))
                if step.table_metadata.name_mapping() is None:
                    schema = step.table_metadata.schema()
                    properties[_MAPPING] = schema.name_mapping.model_dump_json()
                if properties:
                    step.set_properties(properties)
                if change.add or change.remove:
                    update = step.update_snapshot()
                    listed = _listed(table) if change.remove else {}
                    with update.overwrite() if change.remove else update.fast_append() as files:
                        for file in change.remove:
                            files.delete_data_file(listed[str(self.root / file.path)])
                        for file in change.add:
                            path = str(self.root / file.path)
                            files.append_data_file(
                                parquet_file_to_data_file(table.io, step.table_metadata, path)
                            )
        except CommitFailedException as error:
            raise outdated(self.root, base) from error

    def forget(self, before_s: float) -> None:
        """As `Catalog`."""
        committed(self, lambda base: self._expire(base, datetime.fromtimestamp(before_s, UTC)))

    def unlisted(self, before_s: float) -> list[str]:
        """As `Catalog`."""
        table = self._table()
        used: set[str] = set()
        if table is not None and table.metadata.snapshots:
            used.update(table.inspect.all_files()["file_path"].to_pylist())
        files = (file for name in _PLACES for file in (self.root / name).rglob("*.parquet"))
        old = (file for file in files if file.stat().st_mtime < before_s)
        return [str(file.relative_to(self.root)) for file in old if str(file) not in used]

    def _expire(self, base: Snapshot, before: datetime) -> None:
        try:
            copy(base.own).maintenance.expire_snapshots().older_than(before).commit()
        except CommitFailedException as error:
            raise outdated(self.root, base) from error

    def _table(self) -> IcebergTable | None:
        if not (self.root / _CATALOG).is_file():
            return None
        catalog = DurableCatalog(self.root)
        for name in dict.fromkeys((self._design.name, ROWS.name, RESULTS.name)):
            with suppress(NoSuchTableError):
                return catalog.load_table(name)
        return None

    def _made(self, base: Snapshot, columns: Sequence[pa.Field]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        design, schema = self._design, pa.schema(columns)
        catalog = DurableCatalog(self.root)
        namespace = design.name.partition(".")[0]
        try:
            catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # of SQLAlchemy: another process made it between a look and an insertion
            if not catalog.namespace_exists(namespace):
                raise
        properties = _PROPERTIES | (_STATS if design.is_partitioned else {})
        if design.buckets:
            properties[BUCKETS] = json.dumps(dict(design.buckets))
        place = self.root.as_uri()
        try:
            with (
                catalog.create_table_transaction(
                    design.name, schema, location=place, properties=properties
                ) as step,
                step.update_spec() as spec,
            ):
                for column in design.partitions:
                    spec.add_field(column, IdentityTransform(), column)
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise outdated(self.root, base) from error
        sync(self.root)

    def _files(self, table: IcebergTable) -> list[DataFile]:
        found = [self._file(table, file) for file in _listed(table).values()]
        return sorted(found, key=lambda file: file.path)

    def _file(self, table: IcebergTable, file: IcebergFile) -> DataFile:
        schema, partitions = table.schema(), [one.name for one in table.spec().fields]

        def bound(bounds: Mapping[int, bytes] | None, name: str) -> Any:
            field = schema.find_field(name)
            octets = (bounds or {}).get(field.field_id)
            assert isinstance(field.field_type, PrimitiveType)
            return None if octets is None else from_bytes(field.field_type, octets)

        path = str(Path(file.file_path).relative_to(self.root))
        if DATE not in partitions:
            return DataFile(path, file.record_count, file.file_size_in_bytes, "")
        low, high, nulls = file.lower_bounds, file.upper_bounds, file.null_value_counts or {}
        stats = Stats(
            bound(low, "key"),
            bound(high, "key"),
            bound(low, "ts"),
            bound(high, "ts"),
            bound(low, "recv_ts"),
            bound(high, "recv_ts"),
            nulls.get(schema.find_field("hlc").field_id),
        )
        return DataFile(
            path,
            file.record_count,
            file.file_size_in_bytes,
            str(_EPOCH + timedelta(days=bound(low, DATE))),
            bound(low, BUCKET) if BUCKET in partitions else None,
            stats,
        )


def _listed(table: IcebergTable) -> dict[str, IcebergFile]:
    """Return the files as the format has them, by path."""
    return {task.file.file_path: task.file for task in table.scan().plan_files()}


def _marks(name: str, stored: str | None) -> dict[int, int]:
    if not stored:
        return {}
    if name == CHANGES:
        return {0: int(stored)}
    return {int(index): int(number) for index, number in json.loads(stored).items()}


def _property(name: str) -> str:
    if name == CHANGES:
        return _NUMBER
    consumer, _, log = name.partition(":")[2].rpartition(":")
    return f"elea.ends.{consumer}.{log}"


def _text(name: str, numbers: Mapping[int, int]) -> str:
    if name == CHANGES:
        return str(numbers[0])
    return json.dumps({str(index): number for index, number in sorted(numbers.items())})


def _small(type: pa.DataType) -> pa.DataType:
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
    return field.with_type(_small(field.type))

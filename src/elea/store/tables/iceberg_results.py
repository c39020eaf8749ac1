"""Results in the format Iceberg: the number of a change is a property of the table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties

from elea.store.tables.iceberg import small
from elea.store.tables.iceberg_catalog import CATALOG, DurableCatalog
from elea.store.tables.results import File

NAME: Final = "elea.results"  # of the table in its catalog
_NUMBER: Final = "elea.number"
_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING  # files have no field ids: names tell
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergCatalog:
    """As `Catalog`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def number(self) -> int:
        """As `Catalog`."""
        table = self._table()
        return 0 if table is None else int(table.properties.get(_NUMBER, "0"))

    def schema(self) -> pa.Schema | None:
        """As `Catalog`."""
        table = self._table()
        if table is None:
            return None
        found = schema_to_pyarrow(table.schema(), include_field_ids=False)
        return pa.schema([one.with_type(small(one.type)) for one in found])

    def files(self) -> list[File]:
        """As `Catalog`."""
        table = self._table()
        if table is None:
            return []
        here = (one.file for one in table.scan().plan_files())
        found = (
            File(
                str(Path(one.file_path).relative_to(self.root)),
                one.record_count,
                one.file_size_in_bytes,
            )
            for one in here
        )
        return sorted(found, key=lambda file: file.path)

    def commit(
        self, number: int, gone: Sequence[File], come: Sequence[File], schema: pa.Schema
    ) -> bool:
        """As `Catalog`."""
        table = self._table() or self._made(schema)
        if int(table.properties.get(_NUMBER, "0")) != number - 1:
            return False
        here = {one.file.file_path: one.file for one in table.scan().plan_files()}
        try:
            with table.transaction() as step:
                step.set_properties({_NUMBER: str(number), _MAPPING: _mapping(table)})
                with step.update_snapshot().overwrite() as change:
                    for file in gone:
                        change.delete_data_file(here[str(self.root / file.path)])
                    for file in come:
                        path = str(self.root / file.path)
                        change.append_data_file(
                            parquet_file_to_data_file(table.io, table.metadata, path)
                        )
        except CommitFailedException:
            return False
        return True

    def _catalog(self) -> DurableCatalog:
        return DurableCatalog(self.root)

    def _table(self) -> IcebergTable | None:
        if not (self.root / CATALOG).is_file():
            return None
        try:
            return self._catalog().load_table(NAME)
        except NoSuchTableError:
            return None

    def _made(self, schema: pa.Schema) -> IcebergTable:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(NAME.split(".")[0])
        with suppress(TableAlreadyExistsError):  # somebody else made it now
            catalog.create_table(NAME, schema, location=self.root.as_uri(), properties=_PROPERTIES)
        return catalog.load_table(NAME)


def _mapping(table: IcebergTable) -> str:
    return table.schema().name_mapping.model_dump_json()

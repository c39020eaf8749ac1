"""The catalog of an Iceberg table: SQLite beside the table, and durable in the right order.

PyIceberg writes manifests and metadata, and leaves their way to the disk to the system; then SQLite
commits the pointer, durably. A loss of power between the two would leave a pointer to a torn file,
so what the pointer will name is synced first. A commit is one on the table that it was made for:
PyIceberg would load the table anew, and check less. And where a commit reports a failure, PyIceberg
takes away its manifests: the pointer is looked at before that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, StagedTable
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata

from elea.atomic_file import sync

CATALOG: Final = "catalog.sqlite"
CATALOG_NAME: Final = (
    "elea"  # readers open `SqlCatalog("elea", uri="sqlite:///TABLE/catalog.sqlite")`
)
_FILE: Final = "file://"


class DurableCatalog(SqlCatalog):
    """The catalog of the table in a directory."""

    def __init__(self, root: Path) -> None:
        uri = f"sqlite:///{root / CATALOG}"
        super().__init__(CATALOG_NAME, uri=uri, warehouse=root.as_uri())
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

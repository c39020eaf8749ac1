"""Results in the format Delta: the number of a change is the version of an application."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from elea.atomic_file import sync
from elea.store.tables.layout import RETENTION
from elea.store.tables.results import File

_APP: Final = "elea.results"


class DeltaCatalog:
    """As `Catalog`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def number(self) -> int:
        """As `Catalog`."""
        table = self._table()
        return 0 if table is None else table.transaction_version(_APP) or 0

    def schema(self) -> pa.Schema | None:
        """As `Catalog`."""
        table = self._table()
        return None if table is None else pa.schema(table.schema())

    def files(self) -> list[File]:
        """As `Catalog`."""
        table = self._table()
        if table is None:
            return []
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        found = (File(row["path"], row["num_records"], row["size_bytes"]) for row in actions)
        return sorted(found, key=lambda file: file.path)

    def commit(
        self, number: int, gone: Sequence[File], come: Sequence[File], schema: pa.Schema
    ) -> bool:
        """As `Catalog`."""
        table = self._table()
        if table is None:
            # Somebody else may make it now.
            table = DeltaTable.create(
                self.root, Schema.from_arrow(schema), mode="ignore", configuration=RETENTION
            )
        if (table.transaction_version(_APP) or 0) != number - 1:
            return False
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            *(RemoveAction(file.path, True, now_ms, file.octets_count, {}) for file in gone),
            *(
                AddAction(
                    file.path,
                    file.octets_count,
                    {},
                    now_ms,
                    True,
                    json.dumps({"numRecords": file.rows_count}),
                )
                for file in come
            ),
        ]
        mark = Transaction(_APP, number)
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                commit_properties=CommitProperties(app_transactions=[mark], max_commit_retries=0),
            )
        except CommitFailedError:
            return False
        finally:
            sync_version(self.root / "_delta_log", table.version() + 1)
        return True

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.root)
        except TableNotFoundError:
            return None


def sync_version(log: Path, version: int) -> None:
    """Make a version durable, if it is there: also one whose commit reported an error."""
    with suppress(FileNotFoundError):
        sync(log / f"{version:020d}.json")
        sync(log)

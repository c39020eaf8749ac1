"""Commits that are done, and report that they failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException


def fail_after_commit(
    patch: pytest.MonkeyPatch, meanwhile: Callable[[], object] | None = None
) -> list[int]:
    """Have the next commit of either format report a failure once it is done; which did so.

    Args:
        meanwhile: What others do before it reports that.
    """
    failed: list[int] = []

    def failing(commit: Callable[..., Any], error: Exception) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            done = commit(*args, **options)
            if not failed:
                failed.append(1)
                if meanwhile is not None:
                    meanwhile()
                raise error
            return done

        return wrapped

    delta, iceberg = DeltaTable.create_write_transaction, SqlCatalog.commit_table
    patch.setattr(
        DeltaTable, "create_write_transaction", failing(delta, CommitFailedError("no answer"))
    )
    patch.setattr(SqlCatalog, "commit_table", failing(iceberg, CommitFailedException("no answer")))
    return failed

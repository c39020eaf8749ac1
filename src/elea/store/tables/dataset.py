"""Any table as a dataset of Arrow: those of logs, and those that pipelines made of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from elea.errors import MissingDependencyError
from elea.store.tables.table import format_of, open_table


def dataset(path: str | Path) -> ds.Dataset:
    """A table as it is now; what is committed later is in the next one.

    Raises:
        StoreError: there is no table.
        MissingDependencyError: the packages for its format are not installed.
    """
    root = Path(path).absolute()
    if format_of(root) == "delta":
        try:
            from deltalake import DeltaTable
        except ModuleNotFoundError as error:
            raise MissingDependencyError("a table of format delta", "delta") from error
        return DeltaTable(str(root)).to_pyarrow_dataset()
    table = open_table(root)
    files = [str(root / file.path) for file in table.files()]
    if table.layout.partitions_inside:
        return ds.dataset(files, schema=table.schema(), format="parquet")
    return ds.dataset(
        files,
        schema=table.schema(),
        format="parquet",
        partitioning="hive",
        partition_base_dir=str(root),
    )

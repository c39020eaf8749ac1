"""Tables as the release before catalogs had one protocol made them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.transforms import IdentityTransform
from tests.unit.store.log.rows import rows

from elea.store.log.schema import POSITION
from elea.store.tables.files import Part
from elea.store.tables.layout import WITH_STATS, Layout, PartWriter

VECTORS = Path(__file__).parents[3] / "vectors" / "tables"
LOG = UUID(int=7)


def part_of(layout: Layout, first: int, end: int, shard: int = 1) -> Part:
    writer = PartWriter(layout, LOG, shard, first, end)
    batch = rows(first + 1_000 * (shard != 1), end - first)
    numbers = ([shard] * (end - first), list(range(first, end)))
    for field, values in zip(POSITION, numbers, strict=True):
        batch = batch.append_column(field, pa.array(values, field.type))
    writer.add(batch)
    return writer.finish()


def old_iceberg(root: Path) -> None:
    """Make one as the release before did: rows 0 and 1 of shard 1 for consumer `c`."""
    root.mkdir()
    catalog = SqlCatalog("elea", uri=f"sqlite:///{root}/catalog.sqlite", warehouse=root.as_uri())
    layout = Layout(str(root), partitions_inside=True)
    catalog.create_namespace_if_not_exists("elea")
    properties = {
        "commit.retry.num-retries": "0",
        "write.metadata.metrics.default": "none",
        **{f"write.metadata.metrics.column.{name}": "full" for name in WITH_STATS},
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
    }
    with (
        catalog.create_table_transaction(
            "elea.bronze",
            schema=layout.table_schema(),
            location=root.as_uri(),
            properties=properties,
        ) as step,
        step.update_spec() as spec,
    ):
        spec.add_field("date", IdentityTransform(), "date")
    [file] = part_of(layout, 0, 2).files
    with catalog.load_table("elea.bronze").transaction() as step:
        step.set_properties({f"elea.ends.c.{LOG}": '{"1": 2}'})
        step.add_files([str(root / file.path)], check_duplicate_files=False)


def old_iceberg_results(root: Path) -> None:
    """The same for results: changes 1 and 2, after which there are rows `b` and `c`."""
    (root / "rows").mkdir(parents=True)
    catalog = SqlCatalog("elea", uri=f"sqlite:///{root}/catalog.sqlite", warehouse=root.as_uri())
    catalog.create_namespace_if_not_exists("elea")
    properties = {
        "commit.retry.num-retries": "0",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
    }
    some = pa.table({"name": ["b", "c"], "n": [2, 3]})
    table = catalog.create_table(
        "elea.results", some.schema, location=root.as_uri(), properties=properties
    )
    path = str(root / "rows" / "000000000002-00000000.parquet")
    pq.write_table(some, path, compression="zstd", store_schema=False)
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as step:
        step.set_properties({"elea.number": "2", "schema.name-mapping.default": mapping})
        with step.update_snapshot().overwrite() as change:
            change.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))


def old(name: str, root: Path) -> Path:
    if name == "iceberg-rows":
        old_iceberg(root)
    elif name == "iceberg-results":
        old_iceberg_results(root)
    else:
        with zipfile.ZipFile(VECTORS / f"{name}.zip") as packed:
            packed.extractall(root)
    return root

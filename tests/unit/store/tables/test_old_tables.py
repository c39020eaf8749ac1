"""Tables that the release before made open, and go on: marks, rows, what a kill left undone."""

from __future__ import annotations

import zipfile
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from tests.unit.store.log.rows import rows
from tests.unit.store.tables.made import position

from elea.errors import ConflictError, StoreError
from elea.store.log.schema import POSITION
from elea.store.tables.compaction import compact
from elea.store.tables.files import Part
from elea.store.tables.layout import WITH_STATS, Layout, PartWriter
from elea.store.tables.table import Table, open_table

VECTORS = Path(__file__).parents[3] / "vectors" / "tables"
LOG = UUID(int=7)
OLD_ROWS = ("delta-rows", "parquet-rows", "parquet-rows-cut", "iceberg-rows")


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


def old(name: str, root: Path) -> Path:
    if name.startswith("iceberg"):
        old_iceberg(root)
    else:
        with zipfile.ZipFile(VECTORS / f"{name}.zip") as packed:
            packed.extractall(root)
    return root


@pytest.fixture(params=OLD_ROWS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(old(request.param, tmp_path / "table"))


def test_an_old_table_goes_on_where_it_ended(table: Table) -> None:
    [end] = table.ends("c", LOG).values()
    assert end in (2, 3)
    assert position(table) == [(1, seq) for seq in range(end)]
    with pytest.raises(ConflictError, match=f"rows before {end}"):
        table.commit("c", [part_of(table.layout, 9, 10)])
    assert not table.commit("c", [part_of(table.layout, 0, 2)])
    assert table.commit("c", [part_of(table.layout, end, 5)])
    assert table.commit("c", [part_of(table.layout, 0, 4, shard=0)])
    table.add_columns([pa.field("speed", pa.float64())])
    again = open_table(table.layout.root)
    assert again.ends("c", LOG) == {0: 4, 1: 5}
    assert again.schema().names == [*table.layout.table_schema().names, "speed"]
    expected = [(0, seq) for seq in range(4)] + [(1, seq) for seq in range(5)]
    assert position(again) == expected
    assert len(list(compact(again))) == 1
    assert position(open_table(table.layout.root)) == expected


def test_what_an_older_release_commits_meanwhile_counts(tmp_path: Path) -> None:
    """It writes its marks into a file of their own, which this release reads as well."""
    root = old("parquet-rows", tmp_path / "table")
    ends = (root / "_elea" / "ends.json").read_text()
    table = open_table(root)
    assert table.commit("c", [part_of(table.layout, 2, 3)])
    assert not (root / "_elea" / "ends.json").exists()
    (root / "_elea" / "ends.json").write_text(ends.replace('"1": 2', '"1": 6'))
    assert table.ends("c", LOG) == {1: 6}
    assert not table.commit("c", [part_of(table.layout, 3, 6)])
    assert table.commit("c", [part_of(table.layout, 6, 8)])
    assert table.ends("c", LOG) == {1: 8}


def test_a_table_of_a_later_release_is_refused(tmp_path: Path) -> None:
    root = old("parquet-rows", tmp_path / "table")
    about = root / "_elea" / "table.json"
    about.write_text(about.read_text().replace('"version": 1', '"version": 3'))
    with pytest.raises(StoreError, match="saw version 3; this release knows 1 and 2"):
        open_table(root)

"""Tables that the release before made open, and go on: marks, rows, what a kill left undone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.tables.made import position
from tests.unit.store.tables.old import LOG, old, part_of

from elea.errors import ConflictError, StoreError
from elea.store.tables.compaction import compact
from elea.store.tables.table import Table, open_table

OLD_ROWS = ("delta-rows", "parquet-rows", "parquet-rows-cut", "iceberg-rows")


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

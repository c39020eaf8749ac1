"""Tables of results: changes in one step, with their number, in every format."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.unit.store.tables.ambiguous import fail_after_commit
from tests.unit.store.tables.old import old

from elea.errors import ConfigError, StoreError
from elea.store.tables import results as module
from elea.store.tables.dataset import dataset
from elea.store.tables.files import DataFile
from elea.store.tables.results import (
    Results,
    is_results,
    open_results,
    removal_all,
    removal_between,
    removal_of,
)
from elea.store.tables.table import FORMATS, open_table

TIME = pa.timestamp("us", tz="UTC")


def rows(*names: str) -> pa.Table:
    at = pa.array([len(name) for name in names], TIME)
    n = pa.array([len(name) for name in names], pa.int8())
    lists = pa.array([[1.5, None]] * len(names), pa.list_(pa.float64()))
    return pa.table({"name": list(names), "n": n, "at": at, "lists": lists})


def names(table: Results) -> list[str]:
    found = table.rows(["name"])
    assert found is not None
    return sorted(found["name"].to_pylist())


@pytest.mark.parametrize("format", FORMATS)
def test_rows_come_and_go(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILES_MAX", 2)
    path = tmp_path / "t"
    table = open_results(path, format)
    assert (table.number(), table.rows(), table.schema()) == (0, None, None)
    table.change(1, None)  # nothing of nothing
    assert table.number() == 0
    assert not is_results(path)
    table.change(1, rows("a", "bb"))
    assert is_results(path)
    replaced = removal_of(pa.table({"name": ["a"]}))
    assert replaced is not None
    table.change(2, rows("a", "ccc"), [replaced])
    table = open_results(path)
    assert (table.number(), names(table), table.rows_count()) == (2, ["a", "bb", "ccc"], 3)
    two = pa.scalar(2, TIME)
    table.change(3, None, [removal_between("at", two, pa.scalar(3, TIME))])
    assert names(table) == ["a", "ccc"]
    for number in (4, 5):
        table.change(number, rows("x"))
    assert len(table.paths()) == 1  # small files became one
    assert names(table) == ["a", "ccc", "x", "x"]
    query = "SELECT count(*), sum(n) FROM read_parquet(?)"
    assert duckdb.execute(query, [table.paths()]).fetchone() == (4, 6)
    everything = removal_all(table.schema())
    assert everything is not None
    table.change(6, None, [everything])
    assert (names(table), open_results(path).number()) == ([], 6)


@pytest.mark.parametrize("format", FORMATS)
def test_a_change_that_does_not_follow_is_refused(tmp_path: Path, format: str) -> None:
    table = open_results(tmp_path, format)
    table.change(1, rows("a"))
    other = open_results(tmp_path, format)
    other.change(2, rows("b"))
    with pytest.raises(StoreError, match="saw change 2, after 2 comes 3"):
        table.change(2, rows("c"))
    assert names(table) == ["a", "b"]
    with pytest.raises(StoreError, match="Make the table anew"):
        table.change(3, pa.table({"other": [1]}))
    with pytest.raises(StoreError, match="other types"):
        table.change(3, rows("a").set_column(1, "n", pa.array(["x"])))


def test_a_table_is_of_one_format(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no table"):
        open_results(tmp_path)
    with pytest.raises(ConfigError, match="legal are delta"):
        open_results(tmp_path, "csv")
    open_results(tmp_path, "parquet").change(1, rows("a"))
    with pytest.raises(ConfigError, match="is of format parquet"):
        open_results(tmp_path, "delta")
    (tmp_path / "_elea" / "table.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        open_results(tmp_path).number()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_change_that_reports_an_error_after_it_was_done_keeps_its_files(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_results(tmp_path / "t", format)
    table.change(1, rows("a"))
    failed = fail_after_commit(monkeypatch)
    table.change(2, rows("bb"))
    assert failed
    assert (table.number(), names(table)) == (2, ["a", "bb"])


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_removal_that_reports_an_error_after_it_was_done_is_done(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused as if another process had written the table."""
    table = open_results(tmp_path / "t", format)
    table.change(1, rows("a"))
    removal = removal_all(table.schema())
    assert removal is not None
    failed = fail_after_commit(monkeypatch)
    table.change(2, None, [removal])
    assert failed
    assert (table.number(), names(table)) == (2, [])


def test_iceberg_results_with_a_count_can_be_changed_and_read_by_others(tmp_path: Path) -> None:
    """Spark says of a count that it is never null, and of files written later it does not."""
    nested = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    fields = [
        pa.field("name", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("at", TIME, nullable=False),
        pa.field("place", nested, nullable=False),
        pa.field("many", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]

    def some(name: str, count: int | None) -> pa.Table:
        row = {"name": name, "count": count, "at": 7, "place": {"x": 1}, "many": [1.5]}
        schema = pa.schema(
            fields if count is not None else [one.with_nullable(True) for one in fields]
        )
        return pa.Table.from_pylist([row], schema)

    table = open_results(tmp_path / "t", "iceberg")
    for number, name in enumerate(("a", "bb", "ccc"), start=1):
        removal = removal_of(pa.table({"name": ["a"]}))
        assert removal is not None
        table.change(number, some(name, number), [removal])
    table.change(4, some("dddd", None))
    catalog = SqlCatalog("elea", uri=f"sqlite:///{tmp_path}/t/catalog.sqlite")
    scan = catalog.load_table("elea.results").scan()
    expected = [("bb", 2), ("ccc", 3), ("dddd", None)]
    arrow = scan.to_arrow()
    assert (
        sorted(zip(arrow["name"].to_pylist(), arrow["count"].to_pylist(), strict=True)) == expected
    )
    assert len(scan.to_pandas()) == 3
    assert scan.to_duckdb("t").sql("SELECT name, count FROM t ORDER BY name").fetchall() == expected
    assert names(table) == ["bb", "ccc", "dddd"]


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_changes_at_once_one_is_refused_and_leaves_no_file(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_results(tmp_path, format)
    table.change(1, rows("a"))
    written = Results._written

    def slow(self: Results, number: int, some: pa.Table) -> DataFile:
        monkeypatch.setattr(Results, "_written", written)
        open_results(tmp_path).change(number, rows("other"))
        return written(self, number, some)

    monkeypatch.setattr(Results, "_written", slow)
    with pytest.raises(StoreError, match="saw change 2, after 2 comes 3"):
        table.change(2, rows("c"))
    assert names(table) == ["a", "other"]
    assert sorted(str(path) for path in tmp_path.rglob("*.parquet")) == table.paths()


@pytest.mark.parametrize("format", FORMATS)
def test_a_gold_table_was_no_table_to_others_unless_it_was_of_format_delta(
    tmp_path: Path, format: str
) -> None:
    """Iceberg had no rows, and a second table beside it then; Parquet ended with a KeyError."""
    open_results(tmp_path, format).change(1, rows("a", "b"))
    assert sorted(dataset(tmp_path).to_table()["name"].to_pylist()) == ["a", "b"]
    table = open_table(tmp_path)
    assert table.schema().names == ["name", "n", "at", "lists"]
    assert [file.rows_count for file in table.files()] == [2]
    open_results(tmp_path).change(2, rows("c"))
    assert dataset(tmp_path).count_rows() == 3


@pytest.mark.parametrize("format", FORMATS)
def test_what_changes_replaced_goes_and_iceberg_kept_a_snapshot_of_each_for_ever(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHANGES", 4)
    monkeypatch.setattr(module, "_READ_S", 0)
    table = open_results(tmp_path, format)
    (tmp_path / "_elea").mkdir(exist_ok=True)
    (tmp_path / "_elea" / "round-1.arrow").write_text("what gold remembers")
    for number in range(1, 8):
        everything = removal_all(table.schema())
        table.change(number, rows("a" * number), [] if everything is None else [everything])
    orphan = Path(table.paths()[0]).with_name(".x.parquet.partial")
    orphan.touch()
    os.utime(orphan, (0, 0))
    everything = removal_all(table.schema())
    table.change(8, rows("b"), [everything] if everything is not None else [])
    assert sorted(str(path) for path in tmp_path.rglob("*.parquet*")) == table.paths()
    assert (tmp_path / "_elea" / "round-1.arrow").exists()
    assert names(table) == ["b"]
    if format == "iceberg":
        catalog = SqlCatalog("elea", uri=f"sqlite:///{tmp_path}/catalog.sqlite")
        assert len(catalog.load_table("elea.results").metadata.snapshots) == 1

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(module, "vacuum", full)
    for number in range(9, 13):
        table.change(number, rows("c"))
    assert table.number() == 12


@pytest.mark.parametrize("name", ["delta-results", "parquet-results", "iceberg-results"])
def test_an_old_table_of_results_goes_on_where_it_ended(tmp_path: Path, name: str) -> None:
    root = old(name, tmp_path / "table")
    table = open_results(root)
    assert (table.number(), names(table), table.rows_count()) == (2, ["b", "c"], 2)
    removal = removal_of(pa.table({"name": ["b"]}))
    assert removal is not None
    table.change(3, pa.table({"name": ["d"], "n": [4]}), [removal])
    again = open_results(root)
    assert (again.number(), names(again)) == (3, ["c", "d"])
    assert [Path(path).name[:12] for path in again.paths()][-1] == "000000000003"
    assert all("deadbeef" not in path for path in again.paths())


def test_what_an_iceberg_catalog_points_to_is_durable_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata and manifests are synced before SQLite commits the pointer."""
    from sqlalchemy.orm import Session

    from elea import atomic_file
    from elea.store.tables import iceberg

    synced: set[str] = set()
    missing: list[str] = []
    real_sync, real_commit = atomic_file.sync, Session.commit

    def sync(path: Path) -> None:
        synced.add(str(path))
        real_sync(path)

    def commit(self: Session) -> None:
        directory = tmp_path / "t" / "metadata"
        written = [str(path) for path in directory.iterdir()] if directory.exists() else []
        missing.extend(path for path in written if path not in synced)
        real_commit(self)

    monkeypatch.setattr(iceberg, "sync", sync)
    monkeypatch.setattr(Session, "commit", commit)
    table = open_results(tmp_path / "t", "iceberg")
    for number in (1, 2, 3):
        everything = removal_all(table.schema())
        table.change(number, rows("a" * number), [] if everything is None else [everything])
    assert len(synced) > 6
    assert missing == []

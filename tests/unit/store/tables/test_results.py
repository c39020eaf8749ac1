"""Tables of results: changes in one step, with their number, in every format."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from elea.errors import ConfigError, StoreError
from elea.store.tables import results as module
from elea.store.tables.results import (
    Results,
    is_results,
    open_results,
    removal_all,
    removal_between,
    removal_of,
)
from elea.store.tables.table import FORMATS

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
    # Two at once: the catalog of the format decides.
    assert not table._catalog.commit(2, [], [], rows("c").schema)
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

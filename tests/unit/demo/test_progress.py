"""What a pipeline says of itself is shown; what it does not say is no failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elea.demo import files
from elea.demo.progress import STATE, Progress, read, storage_of


def test_it_is_read_from_the_state_of_the_pipeline(tmp_path: Path) -> None:
    table = {"rows": 3, "lag": 4, "batch_s": 0.25, "error": None, "kind": "archive"}
    tables = {
        "bronze": table,
        "imu": {**table, "kind": "decoded"},
        "imu_bad": {**table, "kind": "bad", "rows": 1},
        "hot": {"kind": "gold", "rows": 2, "error": "it rained"},
    }
    assert read(tmp_path) == Progress()
    (tmp_path / STATE).parent.mkdir()
    (tmp_path / STATE).write_text(json.dumps({"state": "running", "pid": 7, "tables": tables}))
    found = read(tmp_path)
    assert (found.state, found.pid, found.lag) == ("running", 7, 4)
    assert found.errors == {"hot": "it rained"}
    assert found.rows == {"bronze": 3, "imu": 3, "imu_bad": 1, "hot": 2}
    assert found.line(5) == "bronze 3, silver 4, gold 2, 5 rows behind, batches of 0.2 s"
    assert Progress(rows={"hot": 1}).line(None) == "gold 1"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": "x", "pid": 1, "tables": {"a": {}}}'])
def test_what_it_does_not_say_is_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).parent.mkdir()
    (tmp_path / STATE).write_text(text)
    assert read(tmp_path) == Progress()


def test_tables_are_where_the_file_says(tmp_path: Path) -> None:
    files.lay_out(tmp_path)
    assert storage_of(tmp_path / files.PIPELINE) == tmp_path / "lake"
    (tmp_path / "odd.yaml").write_text("- storage")
    for name in ("odd.yaml", "none.yaml", "pipeline.py"):
        assert storage_of(tmp_path / name) is None

"""`elea spark archive|compact|vacuum|tables`, without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.spark.logs import fill, log_at
from tests.unit.store.tables.made import part_of, position, stored

from elea.cli.main import main
from elea.store.tables.results import open_results
from elea.store.tables.table import FORMATS, open_table


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_log_is_archived_compacted_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, table = str(tmp_path / "log"), str(tmp_path / "table")
    local = ["--engine", "local", "--once", "--json", "--option", "maxRowsPerTrigger=60"]
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 100)
        assert main(["spark", "archive", directory, table, "--bucket", "one=k/1", *local]) == 0
        first, second, summary, *days = lines(capsys)
        assert (first["rows"], second["rows"], summary["rows"]) == (60, 40, 100)
        assert {day["bucket"] for day in days} == {"one", "other"}
        assert position(open_table(table)) == stored(log)
        orphan = part_of(open_table(table), log, 0, 0, 10).files[0].path
    os.utime(Path(table) / orphan, (0, 0))
    assert main(["spark", "compact", table, "--json"]) == 0
    assert [(one["made"], one["repeats"]) for one in lines(capsys)] == [(1, 0), (1, 0)]
    assert main(["spark", "vacuum", table, "--json", "--dry-run"]) == 0
    assert lines(capsys) == [{"file": orphan, "removed": False}]
    assert main(["spark", "vacuum", table]) == 0
    assert capsys.readouterr().out == f"{orphan}\n"
    assert main(["spark", "tables", table, "--key", "k/0", "--since", "2023-11-14T00:00:00Z"]) == 0
    told = capsys.readouterr().out
    assert "(delta): 1 file, 87 rows" in told
    assert main(["spark", "tables", table, "--key", "k//0"]) == 2  # was: 0 files, and 0
    assert "a chunk is empty" in capsys.readouterr().err
    assert "2023-11-14 other: 1 file, 1 of them compacted, 87 rows" in told


@pytest.mark.parametrize("format", FORMATS)
def test_a_gold_table_ended_these_verbs_with_a_key_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    open_results(tmp_path / "gold", format).change(1, pa.table({"robot": ["a", "b"]}))
    path = str(tmp_path / "gold")
    assert main(["spark", "tables", path]) == 0
    [told] = capsys.readouterr().out.splitlines()
    assert f"({format}): 1 file, 2 rows" in told
    assert main(["spark", "vacuum", path]) == 0
    assert main(["spark", "compact", path]) == 1
    assert "got a gold table, which keeps its files few" in capsys.readouterr().err
    assert open_results(path).rows_count() == 2


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["archive", "log", "table", "--option", "x"], "--option: saw 'x'; legal is NAME=VALUE"),
        (["archive", "log", "table", "--option", "colums=x"], "did you mean columns"),
        (["tables", "nowhere"], "no table; legal are directories of delta, iceberg, parquet"),
        (["vacuum", "nowhere", "--older-than", "-1"], "legal are hours from 0 on"),
        (["tables", "nowhere", "--since", "then"], "saw 'then'; legal are RFC 3339"),
    ],
)
def test_what_cannot_be_done_is_told(
    args: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ["--engine", "local", "--once"] if args[0] == "archive" else []
    assert main(["spark", *args, *more]) == (2 if "--since" in args else 1)
    assert complaint in capsys.readouterr().err


def test_an_archive_of_no_log_was_a_traceback_of_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And Java was started for it."""
    assert main(["spark", "archive", str(tmp_path / "none"), str(tmp_path / "table")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"elea: no log at {tmp_path}/none: ")

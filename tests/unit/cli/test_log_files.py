"""`elea log export` and `elea log import`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.unit.store.samples import log_of, row, rows_of

from elea.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [row(f"k/{at % 2}", at * 1_000, b"%d" % at) for at in range(20)]
    return log_of(tmp_path / "log", rows)


@pytest.mark.parametrize("format", ["parquet", "jsonl", "mcap"])
def test_there_and_back(
    format: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, back = tmp_path / f"a.{format}", tmp_path / "back"
    assert main(["log", "export", str(log), "--to", str(file)]) == 0
    assert f"20 rows in {file}, 0 lost" in capsys.readouterr().err
    assert main(["log", "import", str(file), "--to", str(back)]) == 0
    assert f"20 rows in {back}" in capsys.readouterr().err
    assert rows_of(back) == rows_of(log)
    assert main(["log", "import", str(file), "--to", str(back), "--append", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"done": "import", "log": str(back), "rows": 20}
    assert len(rows_of(back)) == 40


def test_to_standard_output(log: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    span = ["--from", "start+2s", "--to-time", "end-14s"]
    assert main(["log", "export", str(log), "k/1", "--format", "jsonl", *span]) == 0
    found = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [one["payload"] for one in found] == ["3", "5"]
    columns = ["--columns", "key,payload", "--format", "csv", "--to-time", "start"]
    assert main(["log", "export", str(log), *columns]) == 0
    assert capsysbinary.readouterr().out == b"key,payload,payload_base64\r\nk/0,0,\r\n"


def test_columns_of_parquet(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.parquet"
    words = ["log", "export", str(log), "--to", str(file), "--columns", "key,sn", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 20
    assert pq.read_table(file).column_names == ["key", "sn"]
    assert main(words) == 1
    assert "it exists" in capsys.readouterr().err
    assert main([*words, "--replace", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["export", "LOG"], 2, "saw 'no name'; legal are parquet, csv, jsonl, mcap"),
        (["export", "LOG", "--format", "mcap"], 2, "mcap is no text; give --to FILE"),
        (["export", "LOG", "--to", "TMP/a.txt"], 2, "saw 'a.txt'; legal are"),
        (["export", "LOG", "a//b", "--format", "csv"], 1, "is refused at offset"),
        (["export", "LOG", "--format", "csv", "--columns", "x"], 1, "saw x; legal are key, kind"),
        (["export", "LOG", "--format", "csv", "--from", "noon"], 1, "legal are 2024-07-01T"),
        (["export", "TMP/none", "--format", "csv"], 1, "no log there"),
        (["import", "TMP/none.mcap", "--to", "TMP/new"], 1, "none.mcap: No such file"),  # was: new,
        (
            ["import", "TMP/bad.mcap", "--to", "TMP/new"],
            1,
            "bad.mcap: octet 0: no MCAP from here on",
        ),
        (
            ["import", "TMP/bad.mcap", "--to", "LOG"],
            1,
            "is not empty; append to it (--append), or name another",
        ),
        (["import", "TMP/a.csv", "--to", "TMP/new"], 2, "legal are parquet, jsonl, mcap"),
    ],
)
def test_what_is_refused(
    words: list[str],
    code: int,
    complaint: str,
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.mcap").write_bytes(b"no such thing")
    paths = [one.replace("LOG", str(log)).replace("TMP", str(tmp_path)) for one in words]
    assert main(["log", *paths]) == code
    assert complaint in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bad.mcap", "log"]

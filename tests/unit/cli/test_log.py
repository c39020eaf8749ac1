"""`elea log` on small logs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.unit.store.log.rows import EPOCH_S
from tests.unit.store.log.test_log import filled, writer_on

from elea.cli.log import _print_row
from elea.cli.main import main
from elea.store.log import consumers
from elea.store.log.disk import RealDisk
from elea.store.log.segment import DATA, stem_of


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = filled(tmp_path, 3)
    disk = RealDisk(tmp_path, writable=True)
    consumers.commit(disk, "table", writer.manifest.log_id, {0: 12}, now_ns=EPOCH_S * 10**9)
    writer.close()
    return tmp_path


def test_ls(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "ls", str(log)]) == 0
    assert capsys.readouterr().out.split() == ["10", "k/0", "10", "k/1", "10", "k/2"]
    assert main(["log", "ls", str(log), "--key", "k/1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"key": "k/1", "rows": 10}


def test_stat(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "stat", str(log), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    [shard] = told["shards"]
    assert (shard["first"], shard["end"], shard["blocks"], shard["segments"]) == (0, 30, 3, 1)
    assert shard["from"] == "2023-11-14T22:13:20+00:00"
    assert told["consumers"][0]["offsets"] == {"0": 12}
    (log / "consumers" / "bad.json").write_text("")
    assert main(["log", "stat", str(log)]) == 0
    text = capsys.readouterr().out
    assert "shard 0: first 0, end 30" in text
    assert "consumer table" in text
    assert "bad.json cannot be read" in text


def test_cat(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--key", "k/2", "--from", "10", "--limit", "2"]
    assert main(["log", "cat", str(log), *options]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("0/11 2023-11-14 22:13:20.011000+00:00 k/2: 11:")
    assert second.startswith("0/14 ")
    assert main(["log", "cat", str(log), *options, "--json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["seq"], row["key"], row["kind"]) == (11, "k/2", 0)
    assert main(["log", "cat", str(log), "--shard", "3"]) == 1
    assert "legal are 0 to 0" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["cat", "ls"])
def test_a_key_that_is_not_in_a_log_is_told(
    verb: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was printed, and the exit code was 0."""
    assert main(["log", verb, str(log), "--key", "nosuch/**"]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"elea: {log} has no rows of keys that match nosuch/**; `elea log")
    assert main(["log", "cat", str(log), "--from", "1000"]) == 1
    assert capsys.readouterr().err == f"elea: {log} has no such rows\n"


def test_cat_loses_no_octet_that_is_not_text(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"shard": 0, "seq": 1, "ts": None, "key": "k", "attachment": b"\xfe"}
    for payload in (b"\xff", b"\\xff"):
        _print_row({**row, "payload": payload}, as_json=True)
    binary, text = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert binary["payload_base64"] == "/w=="
    assert binary["attachment_base64"] == "/g=="
    assert "payload" not in binary
    assert text["payload"] == "\\xff"


def test_verify_and_repair(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(log)]) == 0
    assert "30 rows in 3 blocks" in capsys.readouterr().out
    file = log / (stem_of(0, 0) + DATA)
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    assert main(["log", "verify", str(log), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["lost"], told["damage"][0]["first"]) == (10, 10)
    assert main(["log", "repair", str(log)]) == 0
    assert "octets are in quarantine/" in capsys.readouterr().out
    assert main(["log", "verify", str(log)]) == 0
    capsys.readouterr()
    assert main(["log", "cat", str(log)]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 20
    assert "rows 10 to 19 lost" in shown.err


def test_without_the_extra(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "elea.store.log.reader", None)
    assert main(["log", "ls", str(log)]) == 1
    assert "pip install 'elea[arrow]'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["ls", "stat", "verify", "repair", "cat"])
def test_no_log(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", verb, str(tmp_path / "none")]) == 1
    assert "log" in capsys.readouterr().err


def test_pack(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "pack", str(log)]) == 0
    assert re.fullmatch(r"\d+ octets before, \d+ now\n", capsys.readouterr().out)
    assert main(["log", "stat", str(log), "--json"]) == 0
    [shard] = json.loads(capsys.readouterr().out)["shards"]
    assert (shard["first"], shard["end"], shard["blocks"]) == (0, 30, 1)
    assert main(["log", "pack", str(log), "--compression", "lz4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["octets"] == told["octets_before"], "it is packed"
    assert main(["log", "verify", str(log)]) == 0


def test_pack_of_what_cannot_be(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = writer_on(log)
    assert main(["log", "pack", str(log)]) == 1
    assert "is writing to this log; stop it" in capsys.readouterr().err
    writer.close()
    assert main(["log", "pack", str(log / "consumers")]) == 1
    assert "not the directory of a log" in capsys.readouterr().err
    assert main(["log", "pack", str(log / "none")]) == 1
    assert "not the directory of a log" in capsys.readouterr().err
    file = log / (stem_of(0, 0) + DATA)
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    assert main(["log", "pack", str(log)]) == 1
    assert f"{stem_of(0, 0)}: damaged, it stays as it is" in capsys.readouterr().out
    assert main(["log", "repair", str(log)]) == 0
    capsys.readouterr()
    assert main(["log", "pack", str(log), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["left"] == [stem_of(0, 0)]

"""`elea predicate`: a predicate explained, and tried on a payload."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from elea.cli.main import main

TEXT = "temp > %0 and not (room = 'bed' or exists(x))"


def test_the_tree_of_a_predicate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predicate", TEXT, "20"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "AND",
        "  temp > 20",
        "  NOT",
        "    OR",
        "      room = 'bed'",
        "      exists(x)",
    ]


def test_every_part_has_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predicate", TEXT, "20", "--payload", '{"temp": 21}']) == 1
    assert capsys.readouterr().out.splitlines() == [
        "AND: unknown",
        "  temp > 20: true",
        "  NOT: unknown",
        "    OR: unknown",
        "      room = 'bed': unknown",
        "      exists(x): false",
    ]
    assert main(["predicate", "key LIKE 'lab/*'", "--payload", "", "--key", "lab/t1"]) == 0
    assert main(["predicate", "", "--payload", ""]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "(empty): true"


def test_what_is_always_unknown_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predicate", "temp > 'hot'", "--layout", "{temp: f32}"]) == 0
    said = capsys.readouterr().out
    assert "always unknown: temp > 'hot': float does not compare with text" in said


def test_files_and_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes.fromhex("00010000 0000ac41"))
    arguments = ["predicate", "temp = 21.5", "--file", str(file), "--json"]
    assert main([*arguments, "--encoding", "application/cdr", "--layout", "{temp: f32}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "predicate": "temp = 21.5",
        "fields": ["temp"],
        "remarks": [],
        "verdict": True,
        "failure": None,
    }


def test_a_payload_that_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Input:
        buffer = io.BytesIO(b"{")

    monkeypatch.setattr("sys.stdin", Input)
    assert main(["predicate", "temp = 21.5", "--file", "-"]) == 1
    assert "the payload cannot be decoded: Expecting property name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a >"], "refused at offset 3: expected a field"),
        (["a > 1", "--layout", "{b: i8}"], "refused at offset 0: the type has no a; its members"),
        (["a > 1", "--layout", "{b: i9}"], "refused at offset 4: expected"),
        (["a > %1", "1"], "refused at offset 4: %1 has no value"),
    ],
)
def test_refusals(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predicate", *arguments]) == 1
    assert complaint in capsys.readouterr().err

"""`elea xrce`: octets for people and for programs, definitions and their faults."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from elea.cli.exit_codes import WRONG_USAGE
from elea.cli.main import main
from elea.xrce.schema.load import text


def out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_explain_shows_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "explain", "--color", "never", "e7 06 04 0a 02 6f 6e"]) == 0
    assert out(capsys) == (
        "0000  e7                              kind = 7  StreamDataId R S A\n"
        "0001  06                              sn = 6\n"
        "0002  04                              id = 4\n"
        "0003  0a                              prid = 10\n"
        "0004  02 6f 6e                        payload = 'on'\n"
    )


def test_explain_cuts_what_is_long_and_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    payload = b"\x1b[31m" + bytes(100)
    code = f"07 01 02 {len(payload):02x} {payload.hex()}"
    assert main(["xrce", "explain", "--color", "never", *code.split()]) == 0
    shown = out(capsys)
    assert "\x1b" not in shown
    assert "... 66 more octets" in shown
    main(["xrce", "explain", "--color", "never", "09 00 02 610a 00"])
    assert "resource = 610a" in out(capsys)


def test_explain_shows_octets_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "explain", "--color", "never", "10 04 c0 ff ee 01"]) == 0
    assert "pid = c0ffee01" in out(capsys)
    main(["xrce", "explain", "--color", "never", "10 00"])
    assert "pid = (empty)" in out(capsys)


def test_explain_says_where_reading_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "explain", "--color", "never", "0x0c010a"]) == 1
    shown = out(capsys)
    assert "hash = 1" in shown
    assert "error: at byte 2: kind is 10, which has no definition" in shown
    assert main(["xrce", "explain", "--json", "0c:01:07:01"]) == 1
    first, second = (json.loads(line) for line in out(capsys).splitlines())
    assert first == {"offset": 0, "hex": "0c01", "message": {"kind": 12, "body": {"hash": 1}}}
    assert second == {"error": {"offset": 4, "reason": "the input ends inside id"}}


def test_explain_follows_a_stream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("02 01 01\n04 0c01 0c02\n00 0d05\n"))
    assert main(["xrce", "explain", "--stream", "--json", "-"]) == 0
    messages = [json.loads(line) for line in out(capsys).splitlines()]
    assert [(one["offset"], one["hex"]) for one in messages] == [
        (1, "0101"),
        (4, "0c01"),
        (6, "0c02"),
        (9, "0d05"),
    ]


@pytest.mark.parametrize(
    ("octets", "words"),
    [("05 0c 01", "ends 3 octet(s) into a frame"), ("ff ff 7f", "at most 65535 are legal")],
)
def test_explain_says_why_a_stream_ends(
    octets: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["xrce", "explain", "--stream", "--color", "never", octets]) == 1
    assert words in out(capsys)


@pytest.mark.parametrize("words", [["zz"], ["0"]])
def test_what_is_no_hex_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "explain", *words]) == WRONG_USAGE
    assert "hex digits" in capsys.readouterr().err


def test_schema_prints_the_definitions_and_they_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["xrce", "schema"]) == 0
    printed = out(capsys)
    assert printed == text()
    path = tmp_path / "mine.xrce"
    path.write_text(printed, encoding="utf-8")
    assert main(["xrce", "schema", "--check", str(path)]) == 0
    assert "50 definitions, nothing to complain about" in out(capsys)


def test_schema_says_where_a_file_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.xrce"
    path.write_text("Message = record {\n  a: nat,\n  a: nat }", encoding="utf-8")
    assert main(["xrce", "schema", "--check", str(path)]) == 1
    assert "mine.xrce: line 3, column 3: the member a is there already" in capsys.readouterr().err
    path.write_bytes(b"\xff")
    assert main(["xrce", "schema", "--check", str(path)]) == 1
    assert "is not UTF-8" in capsys.readouterr().err
    assert main(["xrce", "schema", "--check", str(tmp_path / "none")]) == 1

"""`elea keyexpr`: verbs for people, records for programs."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import pytest

from elea.cli import keyexpr
from elea.errors import KeyExprError


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="elea keyexpr")
    keyexpr.configure(parser)
    return keyexpr.run(parser.parse_args(arguments))


def answers(path: Path, lines: list[bytes], capsys: pytest.CaptureFixture[str]) -> list[object]:
    path.write_bytes(b"\n".join(lines) + b"\n")
    run("--json", str(path))
    return [json.loads(line) for line in capsys.readouterr().out.split("\n") if line]


@pytest.mark.parametrize(
    ("arguments", "printed", "status"),
    [
        (["canon", "a/**/*"], "a/*/**\n", 0),
        (["canon", "é/\x1b[31m\n"], "é/\\x1b[31m\\n\n", 0),  # cannot steer a terminal
        (["intersects", "a/*", "*/b"], "true\n", 0),
        (["intersects", "a/*", "b"], "false\n", 1),
        (["includes", "a/*", "a/b"], "true\n", 0),
        (["includes", "a/b", "a/*"], "false\n", 1),
        (["relation", "a", "a"], "equals\n", 0),
        (["relation", "a/*", "a/b"], "includes\n", 0),
        (["relation", "a/b", "a/*"], "intersects\n", 0),
        (["relation", "a", "b"], "disjoint\n", 0),
    ],
)
def test_verbs(
    arguments: list[str], printed: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == status
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    "arguments", [["canon", "a//b"], ["intersects", "a/**/*", "a"], ["relation", "a", "#"]]
)
def test_a_bad_expression_is_the_error_that_the_command_reports(arguments: list[str]) -> None:
    with pytest.raises(KeyExprError):
        run(*arguments)


@pytest.mark.parametrize("arguments", [[], ["--json", "x", "canon", "a"]])
def test_either_a_verb_or_records(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: elea keyexpr")
    assert "either a verb or --json" in captured.err


@pytest.mark.parametrize("arguments", [["canon"], ["includes", "a"], ["guess", "a", "b"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_records_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--json"], ["--json", "-"]):
        stdin = io.TextIOWrapper(io.BytesIO(b'{"kind": "string", "s": "a"}\n'), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(*arguments) == 0
        assert json.loads(capsys.readouterr().out)["valid"] is True


def test_answers_join_what_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        b'{"kind": "pair", "a": "a/*", "b": "a/b", "id": 7, "includes": null}',
        b"",
        b'{"kind": "join", "a": "a/**", "b": "*"}',
        b'{"kind": "concat", "a": "a", "b": "*"}',
        '{"kind": "string", "s": "é/**/*"}'.encode(),
    ]
    assert answers(tmp_path / "asked", lines, capsys) == [
        {
            "kind": "pair",
            "a": "a/*",
            "b": "a/b",
            "id": 7,
            "includes": True,
            "intersects": True,
            "relation": "includes",
        },
        {"kind": "join", "a": "a/**", "b": "*", "result": "a/*/**"},
        {"kind": "concat", "a": "a", "b": "*", "result": None},
        {"kind": "string", "s": "é/**/*", "valid": False, "canonical": "é/*/**"},
    ]


@pytest.mark.parametrize(
    ("line", "offset", "words"),
    [
        (b"{", None, "no JSON"),
        (b"\xff", None, "no JSON"),
        (b"[" * 100_000, None, "no JSON"),
        (b"1" * 10_000, None, "no JSON"),
        (b"[]", None, "no JSON object"),
        (b"{}", None, "kind is None"),
        (b'{"kind": ["pair"]}', None, "kind is ['pair']"),
        (b'{"kind": "pair", "a": "a"}', None, "'b' of a pair record is a string"),
        (b'{"kind": "pair", "a": "a", "b": 3}', None, "'b' of a pair record is a string"),
        (b'{"kind": "string"}', None, "'s' of a string record is a string"),
        (b'{"kind": "pair", "a": "a", "b": "b//c"}', 2, "a chunk is empty"),
        (b'{"kind": "pair", "a": "**/*", "b": "b"}', 0, "is written `*/**`"),
        (b'{"kind": "join", "a": "", "b": "b"}', 0, "empty"),
        (b'{"kind": "string", "s": "' + b"a" * 2_000 + b'"}', None, "keyexpr_len allows 1024"),
    ],
)
def test_a_bad_record_gives_an_error_line_and_the_next_is_answered(
    line: bytes,
    offset: int | None,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = b'{"kind": "string", "s": "a"}'
    first, second = answers(tmp_path / "asked", [line, good], capsys)
    assert isinstance(first, dict)
    error = first["error"]
    assert error["line"] == 1
    assert error["offset"] == offset
    assert words in error["reason"]
    assert second == {"kind": "string", "s": "a", "valid": True, "canonical": "a"}
    assert run("--json", str(tmp_path / "asked")) == 1


def test_a_lone_surrogate_is_answered_and_stays_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = b'{"kind": "string", "s": "\\ud800"}'
    record = {"kind": "string", "s": "\ud800", "valid": False, "canonical": None}
    assert answers(tmp_path / "asked", [line], capsys) == [record]


def test_help_tells_the_exit_status_and_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    assert "exit status:" in text
    assert '{"kind": "concat"' in text
    assert keyexpr.NAME == "keyexpr"
    assert keyexpr.SUMMARY

"""Dispatch: verbs are loaded when needed, every outcome has its exit code, no traceback escapes."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from elea import pure, version
from elea.cli.main import VERBS, main
from elea.errors import LinkError

VERB = "elea_test_verb"


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A table with one verb, `greet`, and one whose module does not exist."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("how")

    def run(args: argparse.Namespace) -> int:
        match args.how:
            case "well":
                sys.stdout.write("hello")
                return 0
            case "interrupted":
                raise KeyboardInterrupt
            case "missing":
                Path("/nonexistent/\x1bfile").read_bytes()
        raise LinkError("peer said \x1b[2J\nbye")

    module = types.ModuleType(VERB)
    vars(module).update(NAME="greet", SUMMARY="say hello", configure=configure, run=run)
    monkeypatch.setitem(sys.modules, VERB, module)
    return {"greet": VERB, "later": "elea.cli.there_is_no_such_verb"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["greet", "well"], 0),
        (["greet", "badly"], 1),
        (["greet", "missing"], 1),
        (["greet"], 2),
        (["greet", "well", "--bogus"], 2),
        (["greet", "interrupted"], 130),
        (["greet", "--help"], 0),
        (["no-such-verb"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, verbs: dict[str, str]) -> None:
    assert main(arguments, verbs) == code


def test_an_error_is_one_safe_line(
    verbs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["greet", "badly"], verbs)
    main(["greet", "missing"], verbs)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        r"elea: peer said \x1b[2J\nbye",
        r"elea: /nonexistent/\x1bfile: No such file or directory",
    ]


def test_an_unknown_verb_names_the_nearest(
    verbs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["great"], verbs)
    main(["zzzz"], verbs)
    assert capsys.readouterr().err.splitlines() == [
        "elea: no verb 'great'; did you mean 'greet'?",
        "elea: no verb 'zzzz'; `elea --help` lists the verbs",
    ]


def test_without_a_verb_the_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: elea")


def test_version_tells_the_build_under_test(capsys: pytest.CaptureFixture[str], build: str) -> None:
    assert main(["--version"]) == 0
    assert ("compiled: yes\n" in capsys.readouterr().out) == (build == "compiled")


@pytest.mark.parametrize(
    ("is_compiled", "expected"),
    [(True, "compiled: yes"), (False, "compiled: no (ELEA_PURE is set; unset it for speed)")],
)
def test_version_is_four_lines(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_compiled: bool,
    expected: str,
) -> None:
    monkeypatch.setattr(version, "COMPILED", is_compiled)
    monkeypatch.setattr(pure, "FORCED", not is_compiled)
    assert main(["--version"]) == 0
    package, wire, compiled, python = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"elea \d+\.\d+\.\d+(\.dev\d+)?", package)
    assert wire == "wire version: 9"
    assert compiled == expected
    assert python.startswith(f"Python: {sys.version_info[0]}.{sys.version_info[1]}.")


def test_every_verb_of_the_table_keeps_the_contract() -> None:
    for name, module_name in VERBS.items():
        module = importlib.import_module(module_name)
        assert name == module.NAME
        assert module.SUMMARY
        module.configure(argparse.ArgumentParser())
        assert callable(module.run)


def test_a_reader_that_leaves_early_causes_no_noise() -> None:
    command = [sys.executable, "-c", "import sys; from elea.cli.main import main; sys.exit(main())"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*command, "--version"], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(os.name != "posix", reason="shells of POSIX close streams")
def test_a_closed_standard_output_was_a_traceback() -> None:
    """`elea VERB >&-`: Python has no stream there, and whether it is a terminal was asked."""
    command = [sys.executable, "-c", "import sys; from elea.cli.main import main; sys.exit(main())"]
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command, "explain", "04"],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_the_version_after_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """`elea put --version` was told that a key is required."""
    for line in ("put --version", "router -V", "--version"):
        assert main(line.split()) == 0
        assert capsys.readouterr().out.startswith(f"elea {version.VERSION}\n")


_DROPPED = """
import signal, sys, threading
from elea.cli import main
class Verb:
    def __del__(self):
        signal.raise_signal(signal.{name})  # its exception goes no further than here
def run(args):
    Verb()
    threading.Event().wait()
    return 7
main._dispatch = lambda *args: run(args)
sys.exit(main.main())
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_that_came_while_python_collected_garbage_was_lost(name: str, code: int) -> None:
    """Ctrl-C printed `Exception ignored in`, and the verb went on or ended its wait first."""
    ended = subprocess.run(
        [sys.executable, "-c", _DROPPED.format(name=name)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, "")

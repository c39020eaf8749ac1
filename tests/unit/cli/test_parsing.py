"""Options of zenoh's examples on every verb, and errors that are about the verb."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elea.cli.main import VERBS, build_parser, main
from elea.cli.parsing import Parser

NOTHING: tuple[list[str], dict[str, object]] = ([], {})
KEYED: dict[str, tuple[list[str], dict[str, object]]] = {
    "put": (["-k", "a/b", "-p", "on"], {"key": "a/b", "payload": "on"}),
    "pub": (["--key", "a/b", "--payload", "on"], {"key": "a/b", "payload": "on"}),
    "delete": (["-k", "a/b"], {"key": "a/b"}),
    "get": (["-s", "a/b?x=1"], {"selector": "a/b?x=1"}),
    "querier": (["-k", "a/b", "-p", "on"], {"selector": "a/b", "payload": "on"}),
    "sub": (["-k", "a/**"], {"key": "a/**"}),
    "queryable": (["-k", "a/b", "-p", "on"], {"key": "a/b", "payload": "on"}),
    "liveliness sub": (["-k", "a/**"], {"key": "a/**"}),
    "ls": (["-k", "a/**"], {"key_expr": "a/**"}),
    "trace": (["-k", "a/b"], {"key_expr": "a/b"}),
    "record": (["-k", "a/**", "-k", "b/**"], {"key": ["a/**", "b/**"]}),
}
OTHERS = (
    "info",
    "graph",
    "top",
    "ping",
    "pong",
    "throughput send",
    "doctor",
    "replay",
    "historian",
)
COMMON = ["-e", "tcp/127.0.0.1:1", "-l", "tcp/127.0.0.1:2", "-m", "peer", "-c", "x.json5"]


def parsed(verb: str, *arguments: str) -> dict[str, object]:
    names = verb.split()
    return vars(build_parser([names[0]]).parse_args([*names, *arguments]))


@pytest.mark.parametrize("verb", [*KEYED, *OTHERS])
def test_a_verb_with_a_session_has_the_options_of_zenoh(verb: str) -> None:
    own, expected = KEYED.get(verb, NOTHING)
    rest = ["log"] if verb == "historian" else []
    args = parsed(verb, *own, *COMMON, "--no-multicast-scouting", *rest)
    assert (args["connect"], args["listen"]) == (["tcp/127.0.0.1:1"], ["tcp/127.0.0.1:2"])
    assert (args["mode"], args["config"]) == ("peer", "x.json5")
    assert args["no_multicast_scouting"] is True
    assert expected.items() <= args.items()


@pytest.mark.parametrize(
    "arguments",
    [
        ["a/b", "--encoding", "text/plain", "on", "-e", "tcp/127.0.0.1:1"],
        ["a/b", "-e", "tcp/127.0.0.1:1", "--encoding=text/plain", "--json", "on"],
        ["--encoding", "text/plain", "a/b", "-e", "tcp/127.0.0.1:1", "--", "on"],
        ["-e", "tcp/127.0.0.1:1", "-k", "a/b", "--encoding", "text/plain", "on"],
    ],
    ids=" ".join,
)
def test_options_may_stand_between_the_key_and_the_payload(arguments: list[str]) -> None:
    """`put a -e ENDPOINT b` was told that a payload is required."""
    args = parsed("put", *arguments)
    assert (args["key"], args["payload"]) == ("a/b", "on")
    assert (args["encoding"], args["connect"]) == ("text/plain", ["tcp/127.0.0.1:1"])


def test_a_key_is_an_argument_or_an_option_and_not_both(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parsed("sub", "a/b")["key"] == "a/b"
    assert parsed("sub", "--json", "a/b", "--count", "1")["key"] == "a/b"
    assert parsed("put", "a/b", "on")["payload"] == "on"
    assert parsed("get", "a/b")["payload"] is None
    args = parsed("put", "-k", "a/b", "on")
    assert (args["key"], args["payload"]) == ("a/b", "on")
    assert parsed("get", "--selector=a/b", "on")["payload"] == "on"
    assert parsed("ls")["key_expr"] == "**"
    assert parsed("ls", "a/*")["key_expr"] == "a/*"
    assert parsed("record", "a/*", "b")["key"] == ["a/*", "b"]
    for wrong in (["sub"], ["sub", "a", "-k", "b"], ["put", "a"], ["record"]):
        assert main(wrong) == 2
        assert f"usage: elea {wrong[0]} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "usage", "complaint"),
    [
        (["sub", "a", "--cuont", "1"], "elea sub", "--cuont 1; did you mean --count?"),
        (["sub", "a", "-x"], "elea sub", "unrecognized arguments: -x\n"),
        (["log", "verify", "x", "--zzz"], "elea log verify", "unrecognized arguments: --zzz"),
        (["liveliness", "sub", "a", "--histry"], "elea liveliness sub", "did you mean --history?"),
        (["--nonsense"], "elea", "unrecognized arguments: --nonsense\n"),
    ],
)
def test_the_usage_is_that_of_the_verb_that_failed(
    arguments: list[str], usage: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was that of `elea`, which says nothing about the verb."""
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: {usage} [")
    assert complaint in err


def test_every_parser_is_of_the_class_that_does_so() -> None:
    for verb in VERBS:
        for child in build_parser([verb]).verbs().values():
            assert isinstance(child, Parser)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_python_m_elea_is_the_command() -> None:
    ended = run(sys.executable, "-m", "elea", "keyexpr", "canon", "a/**/**")
    assert (ended.returncode, ended.stdout) == (0, "a/**\n")


def test_elead_has_a_usage_and_a_version_of_its_own() -> None:
    elead = "import sys; from elea.cli.router import elead; sys.exit(elead())"
    version = run(sys.executable, "-c", elead, "--version")
    assert version.returncode == 0
    assert version.stdout.startswith("elea ")
    assert "wire version: 9" in version.stdout
    usage = run(sys.executable, "-c", elead, "--bogus")
    assert usage.returncode == 2
    assert usage.stderr.startswith("usage: elead [-h]")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["keyexpr", "canon", "a"]])
def test_only_what_is_needed_is_imported(arguments: list[str]) -> None:
    """`elea --version` imported every verb, Spark's included: 0.42 s."""
    program = (
        "import sys; from elea.cli.main import main; code = main(sys.argv[1:]);"
        "heavy = ('elea.session', 'elea.node', 'elea.daemon', 'elea.spark', 'asyncio', 'ssl');"
        "print([one for one in heavy if one in sys.modules], file=sys.stderr)"
    )
    ended = run(sys.executable, "-c", program, *arguments)
    assert ended.stderr.splitlines()[-1] == "[]"


def test_the_help_shows_the_summaries_of_the_modules(capsys: pytest.CaptureFixture[str]) -> None:
    """They are read from the sources: importing all verbs takes long."""
    assert main(["--help"]) == 0
    quick = capsys.readouterr().out
    assert quick == build_parser(list(VERBS)).format_help()


def test_a_module_without_source_is_imported_for_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd_verb.py").write_text("SUMMARY = 'do ' + 'it'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["--help"], {"odd": "odd_verb"}) == 0
    assert re.search(r"odd +do it", capsys.readouterr().out)


def test_an_option_was_taken_for_another_one_for_its_dashes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`elea record --timeout 1` was asked whether it means --count."""
    assert main(["record", "a", "--to", "log", "--timeout", "1"]) == 2
    assert capsys.readouterr().err.endswith("unrecognized arguments: --timeout 1\n")

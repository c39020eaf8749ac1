"""Wrong command lines, as a stranger writes them: each is told what was expected."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elea.cli.main import main

NOWHERE = ["-e", "tcp/127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["publish", "a", "b"], "no verb 'publish'; did you mean 'pub'?"),
        (["subscribe", "a"], "no verb 'subscribe'; did you mean 'sub'?"),
        (["operate"], "no verb 'operate'; `elea --help` lists the verbs"),  # was: predicate?
        (
            ["sub", "a", "--since", "-10x"],
            "no since: expected -10m, now(-10m) or a",
        ),  # was: one argument
        (["ls", "a//b"], "key expression 'a//b' is refused at offset 2"),  # these two ended with 1
        (["trace", "a//b"], "key expression 'a//b' is refused at offset 2"),
        (["put", "a", "b", "c"], "unexpected argument 'c'; quote an argument that has spaces or *"),
        (["log"], "expected a verb: ls, stat, verify"),
        (["liveliness"], "expected a verb: token, "),
        (["log", "verfy"], "; did you mean 'verify'?"),
        (["get", "a", "-m", "clinet"], "; did you mean 'client'?"),
        (["-v"], "unrecognized arguments: -v; did you mean -V?"),
        (["sub", "a", "--cuont", "3"], "unrecognized arguments: --cuont 3; did you mean --count?"),
        (["sim", "--seed", "x"], "argument --seed: expected a whole number, got 'x'"),
        (["ping", "--size", "x"], "argument --size: expected a whole number, 8 or more, got 'x'"),
        (["trace", "a", "--from", "zz"], "argument --from: no ZenohId: 'zz' is not lower-case"),
        (["put", "a", "b", "-e", "here"], "argument -e/--connect: expected an endpoint; locator"),
        (["put", "a", "b", "-e", "tcp/x"], "expected host:port, with a port of 0 to 65535"),
        (["sub", "a", "-l", "tcp/x:99999"], "ports end at 65535, got 99999"),
        (["put", "a", "b", "-e", "warp/x:1"], "no scheme 'warp'; there are memory, serial, tcp,"),
        (["put", "a", "b", "-e", "TCP/x:1"], "no scheme 'TCP'; did you mean 'tcp'?"),
        (["put", "a", "b", "-e", "tcp://x:1"], "is no URL: write tcp/ADDRESS, without ://"),
        (["put", "a", "b", "-e", "tcp/x:1#bnd=y"], "unknown option 'bnd'; did you mean bind?"),
        (["throughput", "-c", "f", "send"], "-c comes after the verb: elea throughput send -c ..."),
        (["log", "--json", "ls"], "--json comes after the verb: elea log ls --json ..."),
        (["-e", "tcp/x:1", "put", "a", "b"], "no verb 'tcp/x:1'; options come after the verb"),
        (["router", "-l", "tcp"], "argument -l/--listen: expected an endpoint; locator 'tcp'"),
        (["router", "--cfg", "a"], "argument --cfg: expected KEY:VALUE, such as scouting/gossip"),
        (["sub", "a", "--cfg", "b"], "argument --cfg: expected KEY:VALUE, such as scouting/gossip"),
        (["sub", "a", "--since", "noon"], "got 'noon'"),
        (["replay"], "no log: give the directory of one, or --control ID COMMAND"),
        (["replay", "d", "--speed", "-1"], "no speed: saw -1.0; legal is 0"),
        (["log", "export", "d"], "no format: saw 'no name'; legal are parquet"),
        (["demo", "--robots", "1"], "no robots: saw 1; legal are 6 to 99"),
        (["record", "a//b"], "key expression 'a//b' is refused at offset 2"),
        (["top", "--interval", "0"], "expected a number of seconds, 0.2 or more, got '0'"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_usage_says_what_was_expected(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_what_is_not_near_is_not_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    """`--format` was answered with `did you mean --port?`."""
    assert main(["explain", "--format", "x"]) == 2
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["help", "version"])
def test_words_that_are_verbs_elsewhere(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb]) == 0
    assert capsys.readouterr().out.startswith("usage: elea " if verb == "help" else "elea ")


def test_help_about_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "put"]) == 0
    assert capsys.readouterr().out.startswith("usage: elea put ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["put", "a//b", "x"],
        ["sub", "/a"],
        ["get", "a//b?x=1"],
        ["delete", "a/"],
        ["pub", "a#", "x"],
    ],
    ids=lambda one: one[0],
)
def test_an_invalid_key_is_told_before_a_connection_is_tried(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It was `Connection refused`, and the next attempt found the key."""
    assert main([*arguments, *NOWHERE]) == 2
    assert "elea: key expression " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["router", "--rest-http-port", "x"], "expected a port up to 65535"),
        (["router", "--dds", "999"], "expected 0 to 232, got '999'"),
        (["router", "--xrce", "upd/127.0.0.1:1"], "udp/HOST:PORT and tcp/HOST:PORT are legal"),
        (["log", "cat", "nolog", "--key", "a//b"], "a chunk is empty"),
        (["log", "ls", "nolog", "--key", "a//b"], "a chunk is empty"),
        (["xrce", "explain", "zz"], "'zz' are no hex digits"),
        (["pipeline", "backfill", "--table", "t", "--from", "yesterday"], "legal are RFC 3339"),
        (
            ["pipeline", "backfill", "--table", "t", "--from", "now()", "--to", "now(-1s)"],
            "not later",
        ),
    ],
    ids=lambda one: one[-1] if isinstance(one, list) else "",
)
def test_a_value_that_is_wrong_anywhere_is_wrong_usage(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They ended with 1, as if the command had failed."""
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_nothing_to_explain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty batch was explained, with exit code 0."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(["explain"]) == 1
    assert "no input: give hex digits, a file, or bytes" in capsys.readouterr().err


def test_a_file_in_the_place_of_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer was a list of all keys."""
    file = tmp_path / "router.json5"
    file.write_text("{}", encoding="utf-8")
    assert main(["config", "explain", str(file)]) == 2
    assert main(["config", "explain", "nowhere.json5"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("is a file, not a key; give it as --config FILE")
    assert second.startswith("elea: nowhere.json5: is a file")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["router", "--id", "xyz"], "argument -i/--id: "),
        (["config", "explain", "nosuch"], "nosuch: unknown key"),
        (["put", "a", "b", "-m", "client", "--no-multicast-scouting"], "a client needs one"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_is_wrong_in_the_command_line_itself_ended_with_1(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some mistakes in arguments were failures, some wrong usage."""
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_an_option_without_its_value_took_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    """`get a b --attachment` asked for b, with the attachment a; `put a b --cfg` got 'a'."""
    for line in ("get a b --attachment", "put a b --cfg", "sub a --timeout", "sub a -e"):
        assert main(line.split()) == 2
        assert "expected one argument" in capsys.readouterr().err


def test_a_range_of_time_that_is_none_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """`get 'a?_time=yesterday'` asked, and told that nobody answers."""
    nowhere = ["-e", "tcp/127.0.0.1:1"]
    for text in ("a?_time=yesterday", "a?_time=[now(-1h).."):
        assert main(["get", text, *nowhere]) == 2
        assert "cannot connect" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["put a b", "keyexpr canon a", "config explain"])
def test_nonsense_in_rust_log_was_told_by_routers_alone(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every verb reads the variable, as zenoh's programs do, and says what it cannot read."""
    arguments = verb.split()
    if verb == "put a b":
        arguments += ["-e", "tcp/127.0.0.1:1"]
    ended = subprocess.run(
        [sys.executable, "-m", "elea", *arguments],
        env={**os.environ, "RUST_LOG": "nonsense,elea.lnik=debug,hyper=warn"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = ended.stderr.splitlines()
    assert told[0].startswith("elea: RUST_LOG: 'nonsense' is ignored; expected a level")
    assert told[1].startswith("elea: RUST_LOG: area 'elea.lnik' has no effect; known areas are")
    assert not any("hyper" in line for line in told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_was_a_number_and_no_name(tmp_path: Path) -> None:
    """It was `elea: [Errno 28] No space left on device`."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "elea", "keyexpr", "canon", "a"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            text=True,
            timeout=120,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "elea: cannot write to standard output: No space left on device\n"

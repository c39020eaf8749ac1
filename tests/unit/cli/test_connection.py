from __future__ import annotations

import argparse
import socket
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from tests.unit.cli.ends import Running, eventually, free_endpoint

import elea
from elea.cli import parsing
from elea.cli.connection import add_connection_options, config_of, require_neighbour
from elea.cli.main import main
from elea.errors import EleaError, LinkError, MissingDependencyError
from elea.link.registry import Registry


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_options(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ([], "peer"),
        (["--connect", "tcp/a:1"], "client"),
        (["--listen", "tcp/a:1"], "peer"),
        (["--connect", "tcp/a:1", "--listen", "tcp/a:2"], "peer"),
        (["--connect", "tcp/a:1", "--mode", "peer"], "peer"),
        (["--connect", "tcp/a:1", "--cfg", 'mode:"peer"'], "peer"),
        (["--cfg", 'connect/endpoints:["tcp/a:1"]', "--mode", "client"], "client"),
        (["--cfg", "scouting/multicast/enabled:true", "--mode", "client"], "client"),
    ],
)
def test_the_mode_follows_from_the_endpoints_unless_it_is_said(
    arguments: list[str], mode: str
) -> None:
    assert str(config_of(parsed(*arguments)).mode) == mode


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.json5"
    file.write_text('{mode: "client", connect: {endpoints: ["tcp/old:1"]}, namespace: "a"}')
    options = ["--config", str(file), "--connect", "tcp/x:1", "--connect", "tcp/y:2"]
    config = config_of(parsed(*options, "--cfg", "scouting/multicast/enabled:false"))
    assert config.get_json("connect/endpoints") == '["tcp/x:1","tcp/y:2"]'
    assert config.get("namespace") == "a"
    assert config.value("scouting/multicast/enabled", bool) is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", "client"], "give --connect"),
        (["--config", "/nonexistent/file"], "No such file"),
    ],
)
def test_a_bad_configuration_says_what_is_legal(arguments: list[str], words: str) -> None:
    with pytest.raises(EleaError, match=words):
        config_of(parsed(*arguments))


@pytest.mark.parametrize("verb", ["put a b", "doctor", "scout", "router", "config explain"])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("mode", "argument --cfg: expected KEY:VALUE, such as scouting/gossip/enabled:false"),
        ("nosuch:1", "argument --cfg: nosuch: unknown key; the top has access_control"),
        ("scouting/multicats/enabled:false", "nearest known one is scouting/multicast/enabled"),
        ("scouting/multicast/enabled:3", "expected true or false, got the number 3"),
        ("mode:client", "argument --cfg: mode: line 1, column 1: saw 'c'"),
        ("mode:client", "the value is JSON5, so texts need quotes"),
    ],
)
def test_a_wrong_setting_ended_with_1_or_2_by_what_was_wrong_with_it(
    verb: str, setting: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--cfg nosuch:1` was a failure, `--cfg mode` wrong usage; now both are, in every verb."""
    assert main([*verb.split(), "--cfg", setting]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


@pytest.mark.parametrize("verb", ["put a b", "router", "config explain"])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('listen/endpoints:["upd/a:1"]', "listen/endpoints: upd/a:1: no scheme 'upd'; there are"),
        ('connect:{endpoints:["upd/a:1"]}', "connect/endpoints: upd/a:1: no scheme 'upd'"),
        ('listen/endpoints/client:["upd/a:1"]', "listen/endpoints: upd/a:1: no scheme 'upd'"),
        (
            'connect/endpoints:["tcp/a:1", "tcp/a"]',
            "connect/endpoints: tcp/a: expected host:port, with",
        ),
        ('listen/endpoints:["tcp/a:1#so_sendbuf=1"]', "did you mean so_sndbuf?"),
    ],
)
def test_an_unknown_scheme_was_wrong_usage_as_an_option_and_a_failure_as_a_setting(
    verb: str, setting: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`router -l upd/1` ended with 2, `router --cfg 'listen/endpoints:["upd/1"]'` with 1."""
    assert main([*verb.split(), "--cfg", setting]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "argument --cfg: " in err
    assert words in err


def test_a_setting_may_name_a_scheme_whose_package_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written as it should be; what is missing is told when it is used."""

    def refuse(_self: Registry, name: str, _allowed: object = None) -> NoReturn:
        raise MissingDependencyError(f"the scheme {name}", name)

    monkeypatch.setattr(Registry, "scheme", refuse)
    given = 'connect/endpoints:["ws/127.0.0.1:1"]'
    assert parsing.setting(given) == given


def test_nobody_listens_at_the_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    assert main(["put", "a", "b", "--connect", endpoint]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert endpoint in err
    assert "nothing listens there" in err


@pytest.mark.parametrize("verb", [["put", "a", "b"], ["delete", "a"], ["get", "a"]])
def test_nothing_is_sent_to_nobody(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(verb) == 1
    assert "connected to no node: give --connect" in capsys.readouterr().err


def test_a_neighbour_is_waited_for_where_one_can_come() -> None:
    config = {"mode": "peer", "connect": {"endpoints": [free_endpoint()]}}
    with elea.open(config) as session, pytest.raises(LinkError, match="connected to no node"):
        require_neighbour(session, wait_s=0.01)


def test_a_peer_that_listens_sends_to_who_comes() -> None:
    endpoint = free_endpoint()
    command = Running("put", "a", "b", "--listen", endpoint)
    config = {
        "mode": "peer",
        "connect": {"endpoints": [endpoint], "retry": {"period_init_ms": 10}},
        "scouting": {"delay": 10},
    }
    with elea.open(config):
        assert command.code == 0


def test_neighbours_that_come_and_go_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    config = {"mode": "peer", "listen": {"endpoints": [endpoint]}}
    told: list[str] = []

    def saw(words: str) -> bool:
        told.extend(capsys.readouterr().err.splitlines())
        return any(words in line for line in told)

    with elea.open(config) as first:
        zid = str(first.zid())
        retry = ["--cfg", "connect/retry:{period_init_ms: 10}"]
        command = Running("sub", "a", "--count", "1", *retry, "--connect", endpoint)
        assert eventually(lambda: saw(f"connected to peer {zid}"))
    assert eventually(lambda: saw(f"lost peer {zid}"))
    with elea.open(config) as second:
        publisher = second.declare_publisher("a")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("x")
        assert command.code == 0


def test_a_long_run_without_endpoints_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "a", "--timeout", "0"]) == 1
    assert "no endpoint is configured" in capsys.readouterr().err


def test_a_link_closed_in_the_handshake_was_told_without_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a TLS listener does to what does not speak TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            link.recv(65_536)  # so that closing is no reset
            link.close()

        thread = threading.Thread(target=serve)
        thread.start()
        place = f"tcp/127.0.0.1:{server.getsockname()[1]}"
        assert main(["put", "a", "b", "-m", "client", "-e", place]) == 1
        thread.join(30)
    assert "it may expect another scheme, as tls/" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sub", "a"],
        ["pub", "a", "x", "--count", "1"],
        ["queryable", "a", "x"],
        ["querier", "a", "--count", "1"],
        ["liveliness", "sub", "a"],
        ["liveliness", "token", "a"],
        ["pong"],
    ],
    ids=lambda one: " ".join(one[:2]),
)
def test_a_verb_that_was_never_connected_ended_with_0(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`get` said so and ended with 1; `sub` and `pub` were silent."""
    timeout = [] if arguments[0] == "querier" else ["--timeout", "0.01"]
    listen = ["--listen", free_endpoint(), "--no-multicast-scouting"]
    assert main([*arguments, *timeout, *listen]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("elea: connected to no node: give --connect ENDPOINT")
    assert '"done"' not in out


def test_a_spool_needs_no_connection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept for later is not lost."""
    listen = ["--listen", free_endpoint(), "--no-multicast-scouting"]
    options = ["--count", "1", "--spool", str(tmp_path / "spool")]
    assert main(["pub", "a", "x", *options, *listen]) == 0
    assert "wait for a recorder" in capsys.readouterr().err

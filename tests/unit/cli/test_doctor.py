from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import free_endpoint
from tests.unit.cli.test_refused import RULES
from tests.unit.daemon.rig import options, running

import elea
from elea import pure, version
from elea.cli import doctor
from elea.cli.doctor import Node, Status
from elea.cli.doctor import _node as check_node
from elea.cli.main import main
from elea.config.config import Config
from elea.node.ports import Teller

Lines = dict[str, dict[str, str]]

# Tests speak to this host alone: the multicast check asks on loopback.
ON = ("--cfg", "scouting/multicast/enabled:true")
HERE = (*ON, "--cfg", 'scouting/multicast/interface:"lo"')


def examine(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Lines]:
    code = main(["doctor", "--json", "--timeout", "2", *HERE, *arguments])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line.keys() == {"check", "status", "found", "advice"} for line in lines)
    assert all(line["advice"] or line["status"] != "problem" for line in lines)
    return code, {line.pop("check"): line for line in lines}


@contextmanager
def stranger() -> Iterator[str]:
    """Something that listens and does not speak Zenoh."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                link.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp/127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_an_interpreted_build_says_why(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "COMPILED", False)
    monkeypatch.setattr(pure, "FORCED", False)
    monkeypatch.setattr(pure, "build_reason", lambda: "no working C compiler (CC=cc)")
    code, checks = examine(capsys, *hub.connect)
    assert code == 0
    assert checks["software"]["status"] == "note"
    assert "wire version 9, interpreted, " in checks["software"]["found"]
    assert checks["software"]["advice"].startswith(
        "when it was installed: no working C compiler (CC=cc); for speed, install a C compiler"
    )


def test_a_host_without_an_interface_is_told_that_it_reaches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elea.link.interfaces.interface_addresses", list)
    check = doctor._interfaces()
    assert (check.status, check.found) == (Status.PROBLEM, "none is up")
    assert check.advice.startswith("not even this host can be reached; `ip link set lo up`")


def test_a_peer_that_answers(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = examine(capsys, *hub.connect)
    assert code == 0
    assert checks["configuration"]["found"] == "mode client"
    assert "127.0.0.1" in checks["interfaces"]["found"]
    assert "wire version 9, " in checks["software"]["found"]
    assert checks[f"reach {hub.endpoint}"]["status"] == "ok"
    handshake = checks[f"handshake {hub.endpoint}"]
    assert handshake["status"] == "ok"
    assert handshake["found"].startswith(f"peer {hub.session.zid()}, wire version 9")
    assert checks[f"clock {hub.endpoint}"]["status"] in ("ok", "note")
    assert checks["multicast"]["status"] in ("ok", "note")


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    code, checks = examine(capsys, "--connect", endpoint)
    assert code == 1
    assert checks[f"reach {endpoint}"]["status"] == "problem"
    assert f"handshake {endpoint}" not in checks


@pytest.mark.parametrize(
    ("arguments", "check", "advice"),
    [
        (["-l", "tls/127.0.0.1:0"], "listen", "correct what it names"),
        (
            ["-m", "client", "-c", "warp.json5"],
            "handshake warp/127.0.0.1:1",
            "there are memory, serial, tcp, tls",
        ),
    ],
)
def test_the_advice_was_to_free_an_address_whatever_was_wrong(
    arguments: list[str],
    check: str,
    advice: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("warp.json5").write_text('{connect:{endpoints:["warp/127.0.0.1:1"]}}')
    code, checks = examine(capsys, *arguments)
    assert code == 1
    assert checks[check]["advice"].startswith(advice)
    assert advice not in checks[check]["found"]


@pytest.mark.parametrize(
    ("locators", "found", "advice"),
    [
        (
            ("tcp/127.0.0.1:7447", "tcp/[::1]:7447"),
            "it listens at tcp/127.0.0.1:7447, tcp/[::1]:7447 alone, which no other host can reach",
            "start it on 10.0.0.5 with --listen at an address of its network",
        ),
        (
            ("tcp/127.0.0.1:7447", "tcp/169.254.169.254:7447"),
            "tcp/127.0.0.1:7447, tcp/169.254.169.254:7447 is not dialled: a node of another host"
            " told of it",
            "give --connect tcp/169.254.169.254:7447 if it is yours",
        ),
    ],
)
def test_the_loopback_of_another_host_was_advised(
    locators: tuple[str, ...], found: str, advice: str
) -> None:
    node = Node("router 1", "10.0.0.5", locators, Teller.at("10.0.0.5", own_host=False))
    check = check_node(Config(), node, 1.0)
    assert (check.status, check.found, check.advice) == (Status.NOTE, found, advice)


def test_access_rules_that_refuse_the_question_were_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that the node passes nothing on."""
    file = tmp_path / "router.json5"
    file.write_text(RULES, encoding="utf-8")
    with running(options(config=str(file))) as daemon:
        endpoint = daemon.locators()[0]
        code, checks = examine(capsys, "--connect", endpoint)
    assert code == 0
    clock = checks[f"clock {endpoint}"]
    assert clock["found"].startswith("not measured: its access rules refuse declare_subscriber on")


def test_who_listens_is_no_node(capsys: pytest.CaptureFixture[str]) -> None:
    with stranger() as endpoint:
        code, checks = examine(capsys, "--connect", endpoint)
    assert code == 1
    assert checks[f"reach {endpoint}"]["status"] == "ok"
    assert checks[f"handshake {endpoint}"]["status"] == "problem"


def test_an_address_that_is_taken(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = examine(capsys, "--listen", hub.endpoint)
    assert code == 1
    assert checks["listen"]["status"] == "problem"
    code, checks = examine(capsys, "--listen", "tcp/127.0.0.1:0")
    assert (code, checks["listen"]["status"]) == (0, "ok")


def test_a_bad_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.json5"
    file.write_text("{listn: {endpoints: []}}")
    code, checks = examine(capsys, "--config", str(file))
    assert code == 1
    assert checks["configuration"]["status"] == "problem"
    assert "the nearest known one is listen" in checks["configuration"]["found"]


def test_no_endpoint_is_the_reason_why_nothing_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = examine(capsys, "--cfg", "scouting/multicast/enabled:false")
    assert code == 0
    assert checks["multicast"]["found"] == "scouting/multicast is not enabled"
    assert checks["endpoints"]["status"] == "note"
    assert "--connect" in checks["endpoints"]["advice"]


def test_who_answers_by_multicast_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    group = f"224.0.0.224:{free_endpoint().rpartition(':')[2]}"
    multicast = {"enabled": True, "interface": "lo", "address": group}
    listen = {"endpoints": ["tcp/127.0.0.1:0"]}
    with elea.open({"scouting": {"multicast": multicast}, "listen": listen}) as session:
        code, checks = examine(capsys, "--cfg", f'scouting/multicast/address:"{group}"')
        found = f"{group} is heard on lo 127.0.0.1; peer {session.zid()} at 127.0.0.1"
    assert (code, checks["multicast"]["status"]) == (0, "ok")
    assert checks["multicast"]["found"] == found
    assert "endpoints" not in checks


def test_a_group_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, checks = examine(capsys, "--cfg", 'scouting/multicast/interface:"nonesuch0"')
    assert checks["multicast"]["status"] == "note"
    assert "nonesuch0" in checks["multicast"]["found"]


def test_people_see_one_line_per_check(capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    assert main(["doctor", "--color", "always", *HERE, "--connect", endpoint]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(f"\x1b[31mproblem\x1b[0m  reach {endpoint}: ")
    assert "start the other node" in lines[-1]

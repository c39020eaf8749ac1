from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.unit.cli.ends import free_endpoint

import elea
from elea.cli.main import main


@dataclass
class Found:
    session: elea.Session
    group: str
    endpoint: str

    @property
    def options(self) -> list[str]:
        return [
            "--cfg",
            "scouting/multicast/enabled:true",
            "--cfg",
            'scouting/multicast/interface:"lo"',
            "--cfg",
            f'scouting/multicast/address:"{self.group}"',
        ]


@pytest.fixture
def found() -> Iterator[Found]:
    """A peer that answers in a group of its own."""
    endpoint = free_endpoint()
    group = f"224.0.0.224:{endpoint.rpartition(':')[2]}"
    multicast = {"enabled": True, "interface": "lo", "address": group}
    listen = {"endpoints": [endpoint]}
    with elea.open({"scouting": {"multicast": multicast}, "listen": listen}) as session:
        yield Found(session, group, endpoint)


def test_a_node_is_printed_once(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scout", "--timeout", "1.3", *found.options]) == 0  # it is asked twice
    out, err = capsys.readouterr()
    assert out == f"peer {found.session.zid()} {found.endpoint}\n"
    assert err.startswith("elea: 1 node in 1.")
    assert err.endswith(f"asked {found.group} on lo 127.0.0.1\n")


def test_it_ends_when_enough_are_found(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--count", "1", "--timeout", "0", "--json", "--what", "peer"]
    assert main(["scout", *options, *found.options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "whatami": "peer",
        "zid": str(found.session.zid()),
        "locators": [found.endpoint],
    }


def test_fewer_than_wanted(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scout", "--count", "2", "--timeout", "0.2", *found.options]) == 1


def test_nobody_of_a_role_is_there(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scout", "--what", "router", "--timeout", "0.2", *found.options]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "0 nodes" in err


@pytest.mark.parametrize("roles", ["", "robot", "peer,router"])
def test_what_is_no_role(roles: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scout", "--what", roles]) == 2
    assert "legal are router, peer, client" in capsys.readouterr().err


def test_an_interface_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["scouting/multicast/enabled:true", 'scouting/multicast/interface:"nonesuch0"']
    assert main(["scout", "--cfg", options[0], "--cfg", options[1]]) == 1
    assert "no interface 'nonesuch0' with IPv4; there are " in capsys.readouterr().err


def test_it_asked_the_network_where_the_environment_forbids_it(
    found: Found, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ELEA_NO_SCOUTING` silenced nodes, but not the verb."""
    options = ["--timeout", "0.2", *found.options[2:]]  # without scouting/multicast/enabled
    monkeypatch.setenv("ELEA_NO_SCOUTING", "1")
    assert main(["scout", *options]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "elea: scouting/multicast/enabled: disabled by ELEA_NO_SCOUTING=1 in the environment;"
        " unset it, or give --cfg scouting/multicast/enabled:true\n"
    )

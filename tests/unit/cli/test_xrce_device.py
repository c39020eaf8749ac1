"""`elea xrce pub`, `sub`, `pull` and `scout`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.ends import Running, eventually, free_endpoint
from tests.unit.devices.rig import Served, client_of, served, subscriber

from elea.cli.main import main


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as one:
        yield one


def test_pub(gateway: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"\x00\x01")
    with client_of(gateway) as client:
        took = subscriber(gateway, client, "cli/**")
        where = ["--connect", gateway.udp]
        many = ["--count", "2", "--interval", "0", "--matched", "--json"]
        assert (
            main(["xrce", "pub", "/cli/a", "21.5", *where, *many, "--encoding", "text/plain"]) == 0
        )
        for _ in range(2):
            sample = took.recv(timeout=20)
            assert (sample.payload.to_string(), str(sample.encoding)) == ("21.5", "text/plain")
        done = json.loads(capsys.readouterr().out)
        assert done == {"done": "pub", "key_expr": "/cli/a", "count": 2}
        file = ["--file", str(tmp_path / "value")]
        assert main(["xrce", "pub", "xrce://cli/b", *file, "-e", gateway.tcp, "--best-effort"]) == 0
        assert took.recv(timeout=20).payload.to_bytes() == b"\x00\x01"


def test_sub(gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(gateway) as client:
        publisher = client.declare_publisher("told/x")
        command = Running(
            "xrce", "sub", "/told/*", "-e", gateway.udp, "--count", "2", "--pid", "0c"
        )
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("one")
        publisher.put(b"two")
        assert command.code == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[:2] == ["PUT told/x: one", "PUT told/x: two"]
    assert "2 samples" in told.err


def test_sub_in_windows_and_in_time(gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--window", "200:100", "--timeout", "0.1", "--count", "1"]
    assert main(["xrce", "sub", "/never/x", "-e", gateway.udp, *window]) == 1
    assert "0 samples" in capsys.readouterr().err


def test_pull(gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        name = f"/rest{number}/x#transient"
        assert main(["xrce", "pub", name, str(number), "-e", gateway.udp]) == 0
    assert main(["xrce", "pull", "/rest*/x", "-e", gateway.udp, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["key_expr"] for one in lines) == ["rest1/x", "rest2/x"]
    assert main(["xrce", "pull", "/rest*/x", "-e", gateway.tcp, "--max", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["xrce", "pull", "/nothing/here", "-e", gateway.udp]) == 1


def test_scout(gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "scout", "-e", gateway.udp]) == 0
    told = f"{gateway.udp} broker|durability {gateway.udp} {gateway.tcp}\n"
    assert capsys.readouterr().out == told
    assert main(["xrce", "scout", "-e", gateway.tcp, "--count", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == gateway.tcp
    group = ["--group", "239.255.0.77:17447", "--interface", "127.0.0.1", "--timeout", "0.1"]
    assert main(["xrce", "scout", *group]) == 1
    assert "0 gateways" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pub", "/a/$", "1"], "was refused by the gateway: invalid; names are such as"),
        (["sub", "/a?{nonesuch(x)}"], "was refused by the gateway: unsupported"),
        (["pub", "/a", "1", "--matched"], "a reader did not come"),
    ],
)
def test_what_the_gateway_does_not_take(
    gateway: Served,
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Long enough for a gateway that is held up; the last one waits for all of it.
    monkeypatch.setattr("elea.cli.xrce_device.TIMEOUT_S", 2.0)
    assert main(["xrce", *arguments, "-e", gateway.udp]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (["-e", "tls/127.0.0.1:1"], "udp/HOST:PORT and tcp/HOST:PORT are legal"),
        (["--pid", "xyz"], "1 to 16 octets as hex digits"),
        (["--mtu", "15"], "legal are 16 to 65535"),
        (["--window", "100:100"], "the duration below the period"),
    ],
)
def test_wrong_usage(option: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xrce", "sub", "/a", *option]) == 2
    assert complaint in capsys.readouterr().err


def test_nobody_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elea.cli.xrce_device.TIMEOUT_S", 0.1)
    endpoint = free_endpoint().replace("tcp", "udp")
    assert main(["xrce", "pub", "/a", "1", "-e", endpoint]) == 1
    assert f"`elea router --xrce {endpoint}` would serve it" in capsys.readouterr().err

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import WAIT_S, Running, eventually, free_endpoint

import elea
from elea.cli.connection import Neighbours
from elea.cli.main import main


def test_samples_are_printed_until_there_are_enough(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher = hub.session.declare_publisher("room/1")
    command = Running("sub", "room/**", "--count", "2", *hub.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put("warm \x1b[31m", encoding="text/plain", attachment="note")
    publisher.delete()
    assert command.code == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "PUT room/1 [text/plain]: warm \\x1b[31m",
        "  attachment: note",
        "DELETE room/1",
    ]
    first, last = err.splitlines()
    assert first == f"elea: connected to peer {hub.session.zid()}"
    assert last.startswith("elea: 2 samples in ")
    assert last.endswith(" 0 dropped")


def test_json_lines(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = hub.session.declare_publisher("room/1")
    command = Running("sub", "room/1", "--count", "3", "--json", *hub.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put('{"t": 1}', encoding="application/json")
    publisher.put(b"\xff\x00", timestamp=hub.session.new_timestamp())
    publisher.delete()
    assert command.code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stamp = lines[1].pop("timestamp")
    assert stamp.endswith(f"/{hub.session.zid()}")
    usual = {"priority": "data", "congestion_control": "drop", "express": False}
    assert lines == [
        {
            "key_expr": "room/1",
            "kind": "put",
            "payload": '{"t": 1}',
            "value": {"t": 1},
            "encoding": "application/json",
            "timestamp": None,
            **usual,
        },
        {
            "key_expr": "room/1",
            "kind": "put",
            "payload_base64": "/wA=",
            "encoding": "zenoh/bytes",
            **usual,
        },
        {"key_expr": "room/1", "kind": "delete", "timestamp": None, **usual},
    ]


def test_the_time_is_over(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "a", "--timeout", "0", *hub.connect]) == 0
    assert main(["sub", "a", "--timeout", "0", "--count", "1", *hub.connect]) == 1
    assert capsys.readouterr().err.count("0 samples") == 2


def test_a_subscriber_that_is_alone_is_told_once_while_it_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --timeout it was told at its end, and waited in silence before."""
    monkeypatch.setattr("elea.cli.connection.WAIT_S", 0.01)
    listen = free_endpoint()
    command = Running("sub", "a", "--count", "1", "-l", listen)
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return "elea: still waiting: connected to no node: give --connect" in told

    assert eventually(is_told)
    config = {"mode": "client", "connect": {"endpoints": [listen]}}
    with elea.open(config) as session, session.declare_publisher("a") as publisher:
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("b")
        assert command.code == 0
    assert "still waiting" not in capsys.readouterr().err
    assert told.count("still waiting") == 1


def test_a_subscriber_with_a_neighbour_is_not_told_to_connect(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    neighbours = Neighbours()
    with hub.session.info.declare_transport_events_listener() as events:
        config = {"mode": "client", "connect": {"endpoints": [hub.endpoint]}}
        with elea.open(config):
            neighbours.tell(events.recv(WAIT_S))
            neighbours.remind()
    assert "still waiting" not in capsys.readouterr().err


def test_an_interrupt_ends_it_with_a_summary(hub: Hub) -> None:
    code = "import sys; from elea.cli.main import main; sys.exit(main())"
    publisher = hub.session.declare_publisher("a")
    with subprocess.Popen(
        [sys.executable, "-c", code, "sub", "a", *hub.connect],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put("x")
            assert process.stdout is not None
            assert process.stdout.readline() == "PUT a: x\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("elea: 1 sample in ")
    assert "Traceback" not in err

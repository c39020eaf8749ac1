from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually

from elea.cli.main import main


def test_what_comes_is_sent_back(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    answers = hub.session.declare_subscriber("back")
    publisher = hub.session.declare_publisher("forth")
    options = ["--key", "forth", "--reply-key", "back", "--count", "1", "--json"]
    command = Running("pong", *options, *hub.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put(b"\x00\xff" * 1_000)
    assert answers.recv(timeout=10).payload == b"\x00\xff" * 1_000
    assert command.code == 0
    done = {"done": "pong", "key_expr": "forth", "pings": 1}
    assert json.loads(capsys.readouterr().out) == done


def test_the_time_is_over(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pong", "--timeout", "0", "--count", "1", *hub.connect]) == 1
    assert "0 pings in " in capsys.readouterr().err

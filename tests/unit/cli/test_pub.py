from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub

import elea
from elea.cli.main import main


def test_values_are_published(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    subscriber = hub.session.declare_subscriber("a")
    options = ["--count", "5", "--interval", "0", "--encoding", "text/plain", "--attachment", "n"]
    assert main(["pub", "a", "x", *options, "--json", *hub.connect]) == 0
    samples = [subscriber.recv(timeout=5) for _ in range(5)]
    assert {sample.payload.to_string() for sample in samples} == {"x"}
    assert samples[0].encoding == elea.Encoding.TEXT_PLAIN
    assert samples[0].attachment == b"n"
    out, err = capsys.readouterr()
    assert json.loads(out) == {"done": "pub", "key_expr": "a", "sent": 5, "dropped": 0}
    assert err.splitlines()[-1].startswith("elea: 5 values in ")


def test_the_time_is_over(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pub", "a", "x", "--timeout", "0", "--count", "3", *hub.connect]) == 1
    assert "elea: 0 values in" in capsys.readouterr().err

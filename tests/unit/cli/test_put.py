from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hub

import elea
from elea.cli.main import main


def test_a_value_arrives_with_all_that_was_asked_for(hub: Hub) -> None:
    subscriber = hub.session.declare_subscriber("room/*")
    options = ["--encoding", "text/plain", "--attachment", "why", "--priority", "real-time"]
    options += ["--congestion-control", "block", "--express"]
    assert main(["put", "room/1", "21.5 °C", *options, *hub.connect]) == 0
    sample = subscriber.recv(timeout=5)
    assert str(sample.key_expr) == "room/1"
    assert sample.payload == "21.5 °C"
    assert sample.encoding == elea.Encoding.TEXT_PLAIN
    assert sample.attachment == b"why"
    assert sample.priority is elea.Priority.REAL_TIME
    assert sample.congestion_control is elea.CongestionControl.BLOCK
    assert sample.express


def test_payloads_from_standard_input_and_from_a_file(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = bytes(range(256)) * 300
    (tmp_path / "payload").write_bytes(octets)
    subscriber = hub.session.declare_subscriber("a")
    assert main(["put", "a", "--file", str(tmp_path / "payload"), *hub.connect]) == 0
    assert subscriber.recv(timeout=5).payload == octets
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets), encoding="ascii"))
    assert main(["put", "a", "-", *hub.connect]) == 0
    assert subscriber.recv(timeout=5).payload == octets


def test_success_is_silent_for_people_and_one_object_for_programs(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["put", "a", "x", *hub.connect]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["put", "a", "x", "--json", *hub.connect]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == {"done": "put", "key_expr": "a", "octets": 1}


@pytest.mark.parametrize("arguments", [[], ["x", "--file", "y"]])
def test_exactly_one_payload(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["put", "a", *arguments]) == 2
    assert "usage: elea put" in capsys.readouterr().err


def test_a_bad_key_and_a_missing_file_are_told(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["put", "a//b", "x", *hub.connect]) == 1
    assert main(["put", "a", "--file", "/nonexistent/file", *hub.connect]) == 1
    bad, missing = capsys.readouterr().err.splitlines()
    assert "'a//b' is refused at offset 2" in bad
    assert missing == "elea: /nonexistent/file: No such file or directory"

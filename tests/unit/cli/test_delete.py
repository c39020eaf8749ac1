from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub

import elea
from elea.cli.main import main


def test_a_deletion_arrives(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    subscriber = hub.session.declare_subscriber("a/**")
    options = ["--attachment", "old", "--priority", "background", "--json"]
    assert main(["delete", "a/b", *options, *hub.connect]) == 0
    sample = subscriber.recv(timeout=5)
    assert sample.kind is elea.SampleKind.DELETE
    assert str(sample.key_expr) == "a/b"
    assert sample.attachment == b"old"
    assert sample.priority is elea.Priority.BACKGROUND
    assert json.loads(capsys.readouterr().out) == {"done": "delete", "key_expr": "a/b"}

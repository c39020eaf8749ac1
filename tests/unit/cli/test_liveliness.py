from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually

import elea
from elea.cli.main import main


def test_a_token_is_there_while_the_command_runs(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = hub.session.liveliness().declare_subscriber("group/*", history=True)
    command = Running("liveliness", "token", "group/me", "--timeout", "0.2", "--json", *hub.connect)
    assert watcher.recv(timeout=10).kind is elea.SampleKind.PUT
    assert watcher.recv(timeout=10).kind is elea.SampleKind.DELETE
    assert command.code == 0
    assert json.loads(capsys.readouterr().out) == {"done": "token", "key_expr": "group/me"}


def test_what_is_there(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    token = hub.session.liveliness().declare_token("group/a")
    assert main(["liveliness", "get", "group/*", *hub.connect]) == 0
    assert capsys.readouterr() == ("ALIVE group/a\n", "")
    assert main(["liveliness", "get", "group/*", "--json", *hub.connect]) == 0
    assert json.loads(capsys.readouterr().out) == {"key_expr": "group/a", "alive": True}
    token.undeclare()
    assert main(["liveliness", "get", "group/*", *hub.connect]) == 1
    assert "nothing is there" in capsys.readouterr().err


def test_what_comes_and_goes(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def saw(line: str) -> bool:
        printed.extend(capsys.readouterr().out.splitlines())
        return line in printed

    first = hub.session.liveliness().declare_token("group/a")
    options = ["--history", "--count", "3"]
    command = Running("liveliness", "sub", "group/*", *options, *hub.connect)
    assert eventually(lambda: saw("ALIVE group/a"))
    second = hub.session.liveliness().declare_token("group/b")
    first.undeclare()
    assert command.code == 0
    assert saw("GONE group/a")
    assert printed == ["ALIVE group/a", "ALIVE group/b", "GONE group/a"]
    second.undeclare()


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["liveliness"]) == 2
    assert "usage: elea liveliness" in capsys.readouterr().err

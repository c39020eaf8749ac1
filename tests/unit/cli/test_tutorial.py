"""The commands of the tutorial do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.unit.cli.ends import Running, eventually, free_endpoint

import elea
from elea.cli.main import main

TUTORIAL = Path(__file__).resolve().parents[3] / "docs" / "tutorial" / "first-pub-sub.md"


def ready(verb: str, key: str, endpoint: str) -> bool:
    """Whether the first terminal waits for what comes next."""
    config = {"mode": "peer", "connect": {"endpoints": [endpoint], "retry": {"period_init_ms": 10}}}
    with elea.open(config) as session:
        declare = session.declare_publisher if verb == "sub" else session.declare_querier
        writer = declare(key)
        return eventually(lambda: writer.matching_status.matching)


def test_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    for endpoint in sorted(set(re.findall(r"tcp/127\.0\.0\.1:\d+", text))):
        text = text.replace(endpoint, free_endpoint())
    waiting: list[Running] = []
    commands = [shlex.split(line) for line in re.findall(r"^\$ elea (.+)$", text, re.MULTILINE)]
    assert len(commands) == 7
    for command in commands:
        if "--listen" in command:
            waiting.append(Running(*command))
            assert ready(command[0], command[1], command[command.index("--listen") + 1])
        elif command[0] == "doctor":
            assert [one.code for one in waiting] == [0, 0]
            assert main(command) == 1  # by now nobody listens there
        else:
            assert main(command) == 0, command
    shown = re.findall(r"^(?:PUT|DELETE|    [{}]|      \").*$", text, re.MULTILINE)
    assert len(shown) == 7
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line in shown] == shown

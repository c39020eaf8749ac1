"""`elea router` runs with the allocator that gives memory back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from elea.cli.allocator import use_system_allocator
from elea.cli.main import main

SHOW = "import os, sys; from elea.cli import router; from elea.cli.main import main;"
SHOW += "router.run = lambda args: print(os.environ.get('PYTHONMALLOC')) or 0; main()"


def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, argv: calls.append([path, *argv]))
    return calls


def test_a_router_begins_anew_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    command = [sys.executable, "-c", SHOW, "router"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "malloc\n"
    monkeypatch.setenv("PYTHONMALLOC", "pymalloc")
    assert subprocess.run(command, capture_output=True, text=True).stdout == "pymalloc\n"


def test_only_where_the_c_library_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    calls = started(monkeypatch)
    monkeypatch.setattr(sys, "orig_argv", sys.argv)
    monkeypatch.setattr(sys, "platform", "win32")
    use_system_allocator()
    assert calls == []


def test_whoever_calls_the_command_is_not_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    calls = started(monkeypatch)
    assert main(["router", "--config-check"]) == 0
    assert calls == []

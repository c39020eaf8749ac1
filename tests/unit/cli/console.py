"""Runs the console examples of a page: commands, and what the page says that they print.

A command that ends in `&` is a process that runs until the page is over. Others are run here, again
and again until they print what the page shows, because what they look at is on its way; those that
show nothing are run once. `...` in what is shown stands for anything.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint

from elea.cli.main import main

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDPOINT = re.compile(r"(?:tcp|udp)/127\.0\.0\.1:74\d\d")
DOCS = Path(__file__).resolve().parents[3] / "docs"


@dataclass
class Command:
    arguments: list[str]
    background: bool
    shown: list[str] = field(default_factory=list)


@dataclass
class Page:
    """The commands of a page, and what its processes print according to it."""

    commands: list[Command]
    printed: list[str]
    files: dict[str, str] = field(default_factory=dict)  # what else it shows, by the language


def section_of(name: str, title: str) -> str:
    """The text of a section of a page; of the whole page for an empty title."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0] if title else text


def read_page(name: str, section: str = "") -> Page:
    """A page, or a section of it, with endpoints that are free."""
    text = section_of(name, section)
    for endpoint in sorted(set(_ENDPOINT.findall(text))):
        text = text.replace(endpoint, endpoint[:3] + free_endpoint()[3:])
    commands: list[Command] = []
    printed: list[str] = []
    files: dict[str, str] = {}
    for language, block in _BLOCK.findall(text):
        if not language:
            printed += block.splitlines()
        elif language != "console":
            files[language] = files.get(language, "") + block
        for line in block.splitlines() if language == "console" else ():
            if line.startswith("$ elea "):
                words = shlex.split(line.removeprefix("$ elea "))
                background = words[-1] == "&"
                commands.append(Command(words[:-1] if background else words, background))
            else:
                commands[-1].shown.append(line)
    return Page(commands, printed, files)


def matches(shown: list[str], output: str) -> bool:
    """Whether each line that is shown is printed, in this order."""
    lines = iter(output.splitlines())
    patterns = [".*".join(map(re.escape, line.split("..."))) for line in shown]
    return all(any(re.fullmatch(one, line) for line in lines) for one in patterns)


def run_page(name: str, capsys: pytest.CaptureFixture[str], section: str = "") -> None:
    """Do what a page, or a section of it, says."""
    page = read_page(name, section)
    assert page.commands
    with ExitStack() as stack:
        output: list[str] = []
        for command in page.commands:
            if command.background:
                _wait_for(command, stack.enter_context(process(command, output)), output, capsys)
            elif command.shown:
                run_until_shown(command, capsys)
            else:
                assert main(command.arguments) == 0, command
        assert eventually(lambda: all(line in output for line in page.printed)), output


def run_until_shown(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""

    def look() -> bool:
        nonlocal printed
        capsys.readouterr()
        main(command.arguments)
        printed = capsys.readouterr().out
        return matches(command.shown, printed)

    assert eventually(look), (command, printed)


@contextmanager
def process(command: Command, output: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on, until the end of the block; what it prints comes into `output`."""
    started = subprocess.Popen(
        [sys.executable, "-m", "elea.cli.main", *command.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
    )
    assert started.stdout is not None
    reader = threading.Thread(target=_read, args=(started, output))
    reader.start()
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        reader.join(WAIT_S)
        started.stdout.close()


def _read(process: subprocess.Popen[str], output: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        output.append(line.rstrip("\n"))


def _wait_for(
    command: Command,
    process: subprocess.Popen[str],
    output: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Until it does what it is for: a router listens, others have declared their key."""
    if command.shown:
        assert eventually(lambda: matches(command.shown, "\n".join(output))), command
        return
    verb, key, *rest = command.arguments
    if verb == "record":  # it answers once it records
        there = ["--connect", rest[rest.index("--listen") + 1]]
        asked = ["get", "@elea/log/*/info", *there]
        assert eventually(lambda: main(asked) == 0 and capsys.readouterr().out), command
        return
    if verb == "xrce":  # a device, which names keys with a slash
        verb, key, *rest = key, rest[0].removeprefix("/"), *rest[1:]
    connect = rest[rest.index("--connect") : rest.index("--connect") + 2]

    def is_declared() -> bool:  # and not only a key expression that it is a part of
        main(["ls", key, *connect])
        return any(line.split()[:1] == [key] for line in capsys.readouterr().out.splitlines())

    assert eventually(is_declared), command
    assert verb in ("sub", "pub")
    assert process.poll() is None

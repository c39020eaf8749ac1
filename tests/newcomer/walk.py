"""Do what a page says, as somebody who has nothing else: `python -m tests.newcomer.walk PAGE`.

It runs with the Python of an environment (environments.py), in the directory that the page is to be
followed in, on a host of its own: what is started here ends with the namespace of its processes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.newcomer import page as pages
from tests.newcomer.page import Command, File, Page, Printed, Program

import elea
from elea.cli.main import main
from elea.errors import EleaError

WAIT_S = float(os.environ.get("ELEA_WALK_WAIT_S", "60"))  # only a failure takes as long
COMMAND_S = float(os.environ.get("ELEA_WALK_COMMAND_S", "300"))  # Java starts slowly
# Runs blocks that are named on its standard input, one interpreter for all of them.
_INTERPRETER = """
import doctest, io, json, os, sys, traceback
names = {"__name__": "__main__"}
orders, answers = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w")
sys.path.insert(0, os.getcwd())
for order in orders:
    step = json.loads(order)
    failure = ""
    try:
        if ">>> " in step["text"]:
            name = step["name"]
            test = doctest.DocTestParser().get_doctest(step["text"], names, name, name, 0)
            told = io.StringIO()
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(test, out=told.write, clear_globs=False)
            names.update(test.globs)
            failure = told.getvalue()
        else:
            exec(compile(step["text"], step["name"], "exec"), names)
    except BaseException:
        failure = traceback.format_exc()
    sys.stdout.flush()
    print(json.dumps(failure), file=answers, flush=True)
"""


class PageError(Exception):
    """A page does not do what it says; str() names the line."""


class Process:
    """Something that goes on; its lines are collected."""

    def __init__(self, arguments: list[str], fds: tuple[int, ...] = ()) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.popen = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
            pass_fds=fds,
        )
        for stream, lines in ((self.popen.stdout, self.lines), (self.popen.stderr, self.errors)):
            assert stream is not None
            threading.Thread(target=_read, args=(stream, lines), daemon=True).start()


class Interpreter:
    """One Python for all programs of a page."""

    def __init__(self) -> None:
        order, self._answer = os.pipe(), os.pipe()
        arguments = [sys.executable, "-c", _INTERPRETER, str(order[0]), str(self._answer[1])]
        self.process = Process(arguments, (order[0], self._answer[1]))
        assert self.process.popen.stdin is not None
        self.process.popen.stdin.write("\n" * 10)  # whoever asks for Enter gets it
        self.process.popen.stdin.flush()
        self._orders, self._answers = os.fdopen(order[1], "w"), os.fdopen(self._answer[0])

    def run(self, program: Program, name: str) -> None:
        print(json.dumps({"text": program.text, "name": name}), file=self._orders, flush=True)
        ended = threading.Timer(COMMAND_S, self.process.popen.kill)
        ended.start()
        answer = self._answers.readline()
        ended.cancel()
        failure = json.loads(answer) if answer else f"no end within {COMMAND_S:g} s"
        if failure:
            raise PageError(f"{failure}\n{_tail(self.process.errors)}")


class Walk:
    """One walk through a page."""

    def __init__(self, name: str, page: Page) -> None:
        self._name = name
        self._page = page
        self._running: list[Process] = []
        self._interpreter: Interpreter | None = None

    def run(self) -> None:
        for step in self._page.steps:
            started_s = time.monotonic()
            try:
                self._step(step)
            except PageError as error:
                raise PageError(f"{self._name}:{step.line}: {error}") from None
            if "-v" in sys.argv:
                taken_s = time.monotonic() - started_s
                sys.stderr.write(f"{self._name}:{step.line}: {taken_s:.1f} s\n")

    def end(self) -> None:
        """End what runs; what that started in turn ends with the namespace."""
        for process in self._running:
            process.popen.kill()
            process.popen.wait()

    def _step(self, step: pages.Step) -> None:
        match step:
            case File():
                Path(step.name).parent.mkdir(parents=True, exist_ok=True)
                Path(step.name).write_text(step.text, encoding="utf-8")
                Path(step.name).chmod(0o600)
            case Program():
                if self._interpreter is None:
                    self._interpreter = Interpreter()
                    self._running.append(self._interpreter.process)
                self._interpreter.run(step, f"{self._name}:{step.line}")
            case Printed():
                if not _eventually(lambda: pages.contains(step.shown, self._printed())):
                    raise PageError(f"expected\n{_text(step.shown)}\ngot\n{self._all()}")
            case Command() if step.text.startswith("pip install "):
                pass  # what the page needs is there
            case Command() if step.background:
                self._start(step)
            case Command():
                _run(step)

    def _start(self, command: Command) -> None:
        process = Process(["bash", "-c", f"exec {command.foreground_text}"])
        self._running.append(process)
        shows = partial(_shows, command, process)
        ready = shows if command.shown else _readiness(command, process)
        is_over = lambda: ready() or process.popen.poll() is not None  # noqa: E731
        if not _eventually(is_over, COMMAND_S) or not ready():
            raise PageError(
                f"{command.text}\nis not ready: exit code {process.popen.poll()}, printed\n"
                f"{_text(process.lines)}\n{_tail(process.errors)}"
            )

    def _printed(self) -> list[str]:
        return [line for process in self._running for line in process.lines]

    def _all(self) -> str:
        return "\n".join(f"{_text(one.lines)}\n{_tail(one.errors)}" for one in self._running)


def _shows(command: Command, process: Process) -> bool:
    return pages.contains(command.shown, list(process.lines))


def _run(command: Command) -> None:
    """Run a command; one that shows something, until it does, as a reader would look again."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            ended = subprocess.run(
                ["bash", "-c", command.text],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                env=_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PageError(f"{command.text}\ndoes not end within {COMMAND_S:g} s") from None
        printed = ended.stdout.splitlines()
        if ended.returncode == 0 and pages.matches(command.shown, printed):
            return
        if not command.shown or time.monotonic() > deadline_s:
            raise PageError(
                f"{command.text}\nexit code {ended.returncode}, expected\n{_text(command.shown)}\n"
                f"got\n{_text(printed)}\n{_tail(ended.stderr.splitlines())}"
            )
        time.sleep(0.2)


def _readiness(command: Command, process: Process) -> Callable[[], bool]:
    """When a command that goes on, and shows nothing, does what it is for."""
    words = shlex.split(command.foreground_text)
    if words[0] != "elea":
        raise PageError(f"{command.text}\ngoes on and shows nothing by which it is known to run")
    if "--config" in words:  # its identity is its own: look at what it says
        return lambda: any("connected to" in line for line in process.errors)
    verb, *rest = words[1:]
    if verb == "pipeline":
        return _pipeline_runs
    if verb == "xrce":  # a device, which names keys with a slash
        verb, rest = rest[0], [rest[1].removeprefix("/"), *rest[2:]]
    key = rest[rest.index("--key-expr") + 1] if "--key-expr" in rest else rest[0]
    key = re.sub(r"\{.+?\}", "*", key)
    if "--listen" in rest:
        endpoint = rest[rest.index("--listen") + 1]
        return lambda: _matches(verb, key, endpoint)
    if "--connect" not in rest:
        raise PageError(f"{command.text}\ngoes on and shows nothing by which it is known to run")
    endpoint = rest[rest.index("--connect") + 1]
    if verb == "replay":
        status = f"@elea/replay/{rest[rest.index('--id') + 1]}/status"
        return lambda: _answers(status, endpoint)
    return lambda: _declares(verb, key, endpoint)


def _matches(verb: str, key: str, endpoint: str) -> bool:
    """Whether whoever listens at an endpoint has declared what a verb declares."""
    if verb == "record":
        return _answers("@elea/log/*/info", endpoint)
    try:
        with elea.open(_client(endpoint)) as session:
            asks = verb in ("queryable", "historian")
            declare = session.declare_querier if asks else session.declare_publisher
            writer = declare(key)
            return _eventually(lambda: writer.matching_status.matching, 2.0)
    except EleaError:  # it does not listen yet
        return False


def _answers(key: str, endpoint: str) -> bool:
    try:
        with elea.open(_client(endpoint)) as session:
            return any(one.ok for one in session.get(key, timeout=2.0))
    except EleaError:
        return False


def _pipeline_runs() -> bool:
    asked = ["elea", "pipeline", "status"]
    ended = subprocess.run(asked, capture_output=True, text=True, env=_environment(), check=False)
    return ": running" in ended.stdout


def _client(endpoint: str) -> dict[str, object]:
    return {"mode": "client", "connect": {"endpoints": [endpoint]}}


def _declares(verb: str, key: str, endpoint: str) -> bool:
    """Whether a router has this key among its declarations, and not only one that it is part of."""
    shown, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(told):
        main(["ls", key, "--connect", endpoint])
    if "admin space" in told.getvalue():  # no router: ask whether somebody wants the key
        return _matches(verb, key, endpoint)
    return any(line.split()[:1] == [key] for line in shown.getvalue().splitlines())


def _environment() -> dict[str, str]:
    """What a shell has, with the environment's commands first."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "USER") if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _eventually(condition: Callable[[], bool], limit_s: float = WAIT_S) -> bool:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def _read(stream: io.TextIOBase, lines: list[str]) -> None:
    for line in stream:
        lines.append(line.rstrip("\n"))


def _text(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) or "    (nothing)"


def _tail(lines: list[str]) -> str:
    return "\n".join(f"  ! {line}" for line in lines[-30:] if " INFO " not in line)


def walk(path: Path) -> int:
    """Walk through a page; the exit code."""
    followed = Walk(path.name, pages.read(path))
    try:
        followed.run()
    except PageError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        return 1
    finally:
        followed.end()
    return 0


if __name__ == "__main__":
    code = walk(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(code)  # threads read of processes that the namespace ends

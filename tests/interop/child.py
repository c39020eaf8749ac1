"""A session in a process of its own, which can be stopped, continued and killed.

`Child` is the test's end. The process reads one command per line and answers each with a line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]


class Child:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.zid = str(self._answer())

    def do(self, what: str, key: str, **options: object) -> Any:
        """Run a command there, and wait until it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "key": key, **options}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        """End it without a word."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)

    def stop(self) -> None:
        """Freeze it: it keeps its connections and says nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        assert text, "the other process has ended"
        return json.loads(text)


@contextmanager
def child(name: str, settings: Mapping[str, object]) -> Iterator[Child]:
    """A session of `elea` or of `eclipse` in another process."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.interop.child", name, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def main(name: str, settings: str) -> None:
    """The other process."""
    from tests.interop.ends import open_session  # late: the parent needs no second import

    session = open_session(name, json.loads(settings))
    kept: dict[str, Any] = {}
    _say(str(session.info.zid()))
    for text in sys.stdin:
        _say(_run(session, kept, **json.loads(text)))


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _run(session: Any, kept: dict[str, Any], *, do: str, key: str, **options: Any) -> Any:
    match do:
        case "token":
            kept[key] = session.liveliness().declare_token(key)
        case "undeclare":
            kept.pop(key).undeclare()
        case "subscribe":
            kept[key] = taken = []
            session.declare_subscriber(key, lambda sample: taken.append(len(sample.payload)))
        case "taken":
            return kept[key]
        case "stall":
            # A subscriber whose function never returns: nothing is read after a while.
            session.declare_subscriber(key, lambda sample: threading.Event().wait())
        case "keep queries":
            kept[key] = []
            session.declare_queryable(key, kept[key].append)
        case "put":
            session.put(key, b"1")
        case _:
            raise ValueError(do)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The command against a second session, in one process, on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.ports import free_port

from elea.cli.main import main

WAIT_S = 20


def free_endpoint() -> str:
    return f"tcp/127.0.0.1:{free_port()}"


def eventually(condition: Callable[[], object]) -> bool:
    """Poll: what is waited for happens in other threads."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.005)
    return True


class Running:
    """A command in a thread of its own; `code` waits for its end."""

    def __init__(self, *arguments: str) -> None:
        self._code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(arguments,), daemon=True)
        self._thread.start()

    def _run(self, arguments: tuple[str, ...]) -> None:
        self._code = main(arguments)

    @property
    def code(self) -> int:
        self._thread.join(WAIT_S)
        assert self._code is not None, "the command did not end"
        return self._code

"""Supervisor: a program beside this one, started again when it ends by itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from elea.errors import EleaError

_BACK_OFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_STEADY_S: Final = 300.0  # one that ran so long begins anew with the shortest pause
_TAIL_LEN: Final = 2_000


class State(Enum):
    """How a program is."""

    RUNNING = "running"
    WAITING = "waiting"  # to be started again
    ENDED = "ended"  # by itself, as it should
    FAILED = "failed"  # too often
    STOPPED = "stopped"


class Supervisor:
    """One program.

    It is in a group of its own: Ctrl-C is for who supervises it, which ends it in its turn. Its
    standard input is a pipe that is closed when who supervises it is gone, killed or not: a program
    that is not to outlive it ends then.

    Args:
        command: What is run, without a shell.
        output: The file that has what it says, and what it said before.
        restarts_max: So often in a row it is started again; None: for ever.
        clock: Monotonic seconds.

    Raises:
        EleaError: it cannot be started at all.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        restarts_max: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._output = output
        self._restarts_max = restarts_max
        self._clock = clock
        self._again_s: float | None = None
        self._in_row = 0
        self.restarts = 0
        self.state = State.RUNNING
        self._start()

    @property
    def pid(self) -> int:
        """The process that runs, or ran last."""
        return self._process.pid

    def _start(self) -> None:
        self._started_s = self._clock()
        with self._output.open("ab") as output:
            try:
                self._process = subprocess.Popen(  # noqa: S603  # a program of ours, no shell
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise EleaError(f"{self._command[0]} cannot be started: {error}") from error

    def tend(self) -> State:
        """See how it is, and start it again if it is time to; to be called now and then."""
        if self.state is State.RUNNING:
            code = self._process.poll()
            if code == 0:
                self._close()
                self.state = State.ENDED
            elif code is not None:
                self._close()
                self._fell()
        elif self.state is State.WAITING:
            assert self._again_s is not None
            if self._clock() >= self._again_s:
                self.restarts += 1
                self.state = State.RUNNING
                self._start()
        return self.state

    def _fell(self) -> None:
        if self._clock() - self._started_s >= _STEADY_S:
            self._in_row = 0
        if self._restarts_max is not None and self._in_row >= self._restarts_max:
            self.state = State.FAILED
            return
        pause_s = _BACK_OFF_S[min(self._in_row, len(_BACK_OFF_S) - 1)]
        self._in_row += 1
        self._again_s = self._clock() + pause_s
        self.state = State.WAITING

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def last_words(self) -> str:
        """The last line of what it said that is not empty."""
        try:
            octets = self._output.read_bytes()[-_TAIL_LEN:]
        except OSError:
            return ""
        lines = octets.decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end, and wait; whether it did so in time. One that did not is killed."""
        if self._process.poll() is None:
            self._process.terminate()
        self.state = State.STOPPED
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        finally:
            self._close()
        return True

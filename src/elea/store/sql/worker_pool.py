"""WorkerPool: processes that answer questions, so that no question can harm this one.

Each is started before it is needed, and kept while it behaves. One that takes too long, uses too
much memory, or answers nobody any more is killed, and another one is started in its place.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from elea.errors import StoreError
from elea.store.sql import frames

_MODULE: Final = "elea.store.sql.worker"
_LOOK_S: Final = 0.05  # between two looks at the asker, the clock and the memory
_GRACE_S: Final = 0.5  # the engine ends by itself at its time, if it looks up
_START_S: Final = 60.0  # a process that is not ready by then never is
_END_S: Final = 10.0  # from being killed to being gone
_FRAME_LEN: Final = 64 * 2**10  # read at once
# What a process of ours needs of the environment; secrets are in others.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
_SETTINGS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # gives back what is free
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Question(NamedTuple):
    """What is asked, and within which bounds."""

    text: str
    format: str  # json or arrow
    tables: Mapping[str, Path]
    rows_count: int
    rows_len: int
    time_s: float
    memory_len: int


class Piece(NamedTuple):
    """A part of an answer: rows, or in front of them their schema."""

    octets: bytes
    rows_count: int | None  # None: the schema


class RefusedError(Exception):
    """A question that is not legal, or exceeds a bound; its text says which."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class WorkerPool:
    """Processes, until `stop`: as many as there were questions at once, and one from the start.

    How many askers there are at once is their bound.

    Args:
        is_stopping: Whether answers are to end.
    """

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        self._lock = threading.Lock()
        self.killed_count = 0
        self._idle = deque([_Process()])

    def ask(self, question: Question, is_wanted: Callable[[], bool]) -> PendingAnswer:
        """Begin to answer; iterate over it, in a `with`."""
        return PendingAnswer(self, question, lambda: not self._is_stopping() and is_wanted())

    def stop(self) -> None:
        """End the processes; those that answer are ended by who asked them."""
        with self._lock:
            idle, self._idle = list(self._idle), deque()
        for process in idle:
            process.kill()

    @contextmanager
    def _lent(self) -> Iterator[_Process]:
        lent = self._take_idle() or _Process()
        try:
            yield lent
        finally:
            process: _Process | None = lent
            if not lent.is_idle:
                ran = lent.kill()
                with self._lock:
                    self.killed_count += ran
                process = None if self._is_stopping() else _Process()  # for the next one
            with self._lock:
                if process is not None and not self._is_stopping():
                    self._idle.append(process)
                    process = None
            if process is not None:
                process.kill()

    def _take_idle(self) -> _Process | None:
        """Return the process that is warm; one that was killed while it was idle is no use."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None or process.is_running:
                return process
            process.kill()


class PendingAnswer:
    """The pieces of one answer. `is_cut` tells at its end whether there is more."""

    def __init__(self, pool: WorkerPool, question: Question, is_wanted: Callable[[], bool]) -> None:
        self.is_cut = False
        self._pool = pool
        self._question = question
        self._is_wanted = is_wanted

    def __iter__(self) -> Generator[Piece, None, None]:
        with self._pool._lent() as process:
            clock = _Clock(self._question.time_s + _GRACE_S, self._is_wanted)
            process.wait_ready(_Clock(_START_S, self._is_wanted))
            process.ask(self._question)
            while True:
                kind, content = process.frame(clock, self._question)
                if kind == frames.DONE:
                    self.is_cut = bool(json.loads(content)["cut"])
                    break
                if kind == frames.ERROR:
                    process.settle(_Clock(_GRACE_S, self._is_wanted))
                    raise _raised(json.loads(content))
                if kind == frames.SCHEMA:
                    yield Piece(content, None)
                else:
                    [rows_count] = frames.ROWS.unpack_from(content)
                    yield Piece(content[frames.ROWS.size :], rows_count)
            process.settle(_Clock(_GRACE_S, self._is_wanted))


class _Clock:
    """Time that is spent waiting for a process, not that in which an asker takes its answer."""

    def __init__(self, time_s: float, is_wanted: Callable[[], bool]) -> None:
        self.left_s = time_s
        self.is_wanted = is_wanted


class _Process:
    """One process."""

    def __init__(self) -> None:
        self.is_idle = False  # it waits for a question
        self._buffer = bytearray()
        self._memory_base: int | None = None
        root = str(Path(__file__).parents[3])
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        path = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
        self._process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us, and we end it
            env={**environment, **_SETTINGS, "PYTHONPATH": path},
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> bool:
        """End it at once; whether it still ran."""
        ran = self.is_running
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # a question that it never read
                pipe.close()
        return ran

    def wait_ready(self, clock: _Clock) -> None:
        """Wait until it can be asked."""
        if not self.is_idle:
            self.frame(clock, None)
            self.is_idle = True
        self._memory_base = self._memory_base or _rss_len(self.pid)

    def ask(self, question: Question) -> None:
        """Give it a question."""
        self.is_idle = False
        request = {
            "text": question.text,
            "format": question.format,
            "tables": {name: str(path.absolute()) for name, path in question.tables.items()},
            "rows": question.rows_count,
            "rows_len": question.rows_len,
            "time_s": question.time_s,
            "memory_len": question.memory_len,
        }
        content = json.dumps(request).encode()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frames.LENGTH.pack(len(content)) + content)
            self._process.stdin.flush()
        except OSError:
            raise self._ended(None) from None

    def settle(self, clock: _Clock) -> None:
        """After an answer: whether it takes another question is seen soon, or it is replaced."""
        with suppress(StoreError, RefusedError, AbandonedError):
            self.is_idle = self.frame(clock, None)[0] == frames.READY

    def frame(self, clock: _Clock, question: Question | None) -> tuple[bytes, bytes]:
        """What it says next."""
        while len(self._buffer) < frames.HEAD.size:
            self._receive(clock, question)
        kind, length = frames.HEAD.unpack_from(self._buffer)
        end = frames.HEAD.size + length
        while len(self._buffer) < end:
            self._receive(clock, question)
        content = bytes(self._buffer[frames.HEAD.size : end])
        del self._buffer[:end]
        return kind, content

    def _receive(self, clock: _Clock, question: Question | None) -> None:
        since_s = time.monotonic()
        while not select.select([self._output], [], [], min(_LOOK_S, max(clock.left_s, 0)))[0]:
            now_s = time.monotonic()
            clock.left_s -= now_s - since_s
            since_s = now_s
            if clock.left_s <= 0:
                raise _too_slow(question)
            if not clock.is_wanted():
                raise AbandonedError
            self._check_memory(question)
        clock.left_s -= time.monotonic() - since_s
        octets = os.read(self._output, _FRAME_LEN)
        if not octets:
            raise self._ended(question)
        self._buffer += octets

    def _check_memory(self, question: Question | None) -> None:
        """Where the system does not keep the limit, we do."""
        if question is None or self._memory_base is None:
            return
        if _rss_len(self.pid) > self._memory_base + frames.allowance(question.memory_len):
            raise _too_large(question)

    def _ended(self, question: Question | None) -> Exception:
        """Why it ended in the middle of a question."""
        code = self._process.wait(_END_S)
        if question is None or code >= 0:
            return StoreError(f"the process for SQL ended with status {code}")
        if -code == signal.SIGXCPU:
            return _too_slow(question)
        if -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL):
            return _too_large(question)
        return StoreError(f"the process for SQL ended by {signal.Signals(-code).name}")


def _rss_len(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _too_slow(question: Question | None) -> Exception:
    if question is None:
        return StoreError(f"the process for SQL was not ready within {_START_S:g} s")
    return RefusedError(frames.too_much_time(question.time_s))


def _too_large(question: Question) -> Exception:
    return RefusedError(frames.too_much_memory(question.memory_len))


def _raised(told: Mapping[str, Any]) -> Exception:
    detail = str(told["detail"])
    return RefusedError(detail) if told["kind"] == frames.INVALID else StoreError(detail)

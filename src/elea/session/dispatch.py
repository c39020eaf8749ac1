"""Runs functions of the user: in order for each of them, and none holds up another for long.

One thread at a time, the runner, takes values from the queue and calls. It may be the I/O thread
itself, so that the common, quick function costs no change of threads. When a function takes long or
waits for something of this session, another thread becomes the runner; the first one keeps only the
function it is in, with the values that come for it meanwhile, and ends with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from elea.session.deliver_hot import Outlet
from elea.session.ports import CallbackThread

SLOW_S: Final = 0.02  # a function that takes longer is slow
QUIET_S: Final = 1.0  # so long after the last call somebody still looks for slow functions
RUN_COUNT_MAX: Final = 256  # values of one function taken at a time
THREADS_COUNT_MAX: Final = 64  # functions that may be slow at the same time

_ONE_THREAD: Final = (CallbackThread.CALLER, CallbackThread.WORLD)

Due = deque[tuple[Outlet, object]]


class Runnable(Protocol):
    """A function of the user as an outlet."""

    held: bool
    backlog: deque[object]

    def run(self, value: object) -> None: ...
    def put_off(self, value: object) -> None: ...
    def caught_up(self) -> None: ...


class _Run:
    """One thread's turn as the runner."""

    __slots__ = ("beat", "dispatcher", "on_io", "outlet")

    def __init__(self, dispatcher: Dispatcher, on_io: bool) -> None:
        self.dispatcher = dispatcher
        self.on_io = on_io
        self.outlet: Runnable | None = None
        self.beat = 0


class _Here(threading.local):
    run: _Run | None = None


_HERE: Final = _Here()
BEFORE_WAITING: Final[list[Callable[[], None]]] = []  # called before anybody waits


def about_to_wait() -> None:
    """The calling thread is going to wait: if it is a runner, another takes its place first."""
    for function in list(BEFORE_WAITING):
        function()
    run = _HERE.run
    if run is not None:
        run.dispatcher.replace(run)


def in_callback() -> bool:
    """Whether the calling thread is inside a function of the user that a session called."""
    return _HERE.run is not None


class Dispatcher:
    """Runs what is due for one session."""

    def __init__(
        self,
        due: Due,
        due_now: Due,
        mode: CallbackThread,
        relieve: Callable[[], bool],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self._due = due
        self._due_now = due_now
        self._mode = mode
        self._relieve = relieve
        self._on_drained = on_drained  # told each time nothing is due any more
        # Letting go of a function may run a finaliser, which may come back here.
        self._lock = threading.RLock()
        self._now_lock = threading.Lock()
        self._run: _Run | None = None
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread_count = 0
        self._idle_count = 0
        self._watched = False  # a thread looks whether the runner is held up

    def deliver(self, *, on_io: bool) -> None:
        """See that everything due is run: here, or by a thread of the session."""
        if self._due_now:
            self._work_off_now()
        if not self._due:
            return
        if self._mode in _ONE_THREAD or (on_io and self._mode is CallbackThread.IO):
            self._work_off(on_io=on_io)
        else:
            with self._lock:
                if self._run is None:
                    self._call_thread()

    def replace(self, run: _Run) -> None:
        """`run` is going to wait: let another thread go on. Called by the runner itself."""
        if self._mode is CallbackThread.CALLER or not self._take_place_of(run):
            return
        if self._mode is CallbackThread.WORLD:  # no other thread would: do it before waiting
            self._work_off(on_io=False)
        else:
            with self._lock:
                self._call_thread()

    def close(self) -> None:
        """End the threads once all is delivered."""
        with self._lock:
            for _ in range(self._thread_count):
                self._wake.put(False)

    def _work_off_now(self) -> None:
        # Who does not get the lock may go: its holder looks at the queue once more afterwards.
        while self._due_now and self._now_lock.acquire(blocking=False):
            try:
                while self._due_now:
                    outlet, value = self._due_now.popleft()
                    outlet.accept(value)
                    del value
            finally:
                self._now_lock.release()

    def _work_off(self, *, on_io: bool) -> None:
        """Become the runner in this thread, unless there is one, and run all that is due."""
        run = _Run(self, on_io)
        with self._lock:
            if self._run is not None or not self._due:
                return
            self._run = run
            if not self._watched and self._mode not in _ONE_THREAD:
                self._call_thread()
        outer = _HERE.run
        _HERE.run = run
        try:
            values: list[object] = []
            while (outlet := self._next(run, values)) is not None:
                for value in values:
                    outlet.run(value)
                    run.beat += 1
                # Nothing may outlive its function here: a query ends when nobody refers to it.
                value = None
                values.clear()
        finally:
            _HERE.run = outer

    def _next(self, run: _Run, values: list[object]) -> Runnable | None:
        """What to call next and with which values; None: this turn is over."""
        with self._lock:
            if self._run is not run:
                # Somebody else is the runner now: finish the function that held us up.
                held = run.outlet
                assert held is not None
                values.extend(held.backlog)
                held.backlog.clear()
                held.held = bool(values)
                if values:
                    return held
                held.caught_up()
                return None
            due = self._due
            while due:
                found, value = due.popleft()
                outlet: Runnable = found  # type: ignore[assignment]  # only functions are due
                if outlet.held:
                    outlet.put_off(value)
                    continue
                values.append(value)
                while due and due[0][0] is found and len(values) < RUN_COUNT_MAX:
                    values.append(due.popleft()[1])
                run.outlet = outlet
                return outlet
            self._run = run.outlet = None
        if self._on_drained is not None:
            self._on_drained()
        return None

    def _take_place_of(self, run: _Run) -> bool:
        with self._lock:
            if self._run is not run or run.outlet is None:
                return False
            if self._idle_count == 0 and self._thread_count >= THREADS_COUNT_MAX:
                return False
            run.outlet.held = True
            self._run = None
        if run.on_io:
            self._relieve()
        return True

    def _call_thread(self) -> None:
        if self._idle_count == 0 and self._thread_count < THREADS_COUNT_MAX:
            self._thread_count += 1
            name = f"elea-callbacks-{self._thread_count}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._wake.put(True)

    def _serve(self) -> None:
        """The life of a thread: wait, run what is due, take the place of a slow runner."""
        seen: tuple[_Run | None, int] = (None, -1)
        quiet_s = 0.0
        while self._wait(watch=quiet_s < QUIET_S):
            quiet_s += SLOW_S
            run = self._run
            if run is not None and seen == (run, run.beat):
                self._take_place_of(run)
                run = self._run
            if run is not None:
                if seen != (run, run.beat):
                    quiet_s = 0.0
                seen = (run, run.beat)
            elif self._due:
                quiet_s = 0.0
                self._work_off(on_io=False)

    def _wait(self, *, watch: bool) -> bool:
        """Wait to be called; the one that watches waits a moment only. False: end."""
        with self._lock:
            self._idle_count += 1
            watch = watch and not self._watched
            self._watched |= watch
        try:
            more = self._wake.get(timeout=SLOW_S if watch else None)
        except Empty:
            more = True
        with self._lock:
            self._idle_count -= 1
            if watch:
                self._watched = False
            if not more:
                self._thread_count -= 1
        return more

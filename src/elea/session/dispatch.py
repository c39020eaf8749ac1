"""Runs functions of the user: in order for each of them, and none holds up another for long.

One thread at a time, the runner, takes values from the queue and calls. It may be the I/O thread
itself, so that the common, quick function costs no change of threads. When a function takes long or
waits for something of this session, another thread becomes the runner; the first one keeps only the
function it is in, with the values that come for it meanwhile, and ends with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from elea.session.outlet_hot import BEFORE_WAITING, Beat, CallbackOutlet, DueQueue
from elea.session.ports import CallbackThread

SLOW_S: Final = 0.02  # a function that takes longer is slow
QUIET_S: Final = 1.0  # so long after the last call somebody still looks for slow functions
RUN_COUNT_MAX: Final = 256  # values of one function taken at a time
THREADS_COUNT_MAX: Final = 64  # functions that may be slow at the same time

_ONE_THREAD: Final = (CallbackThread.CALLER, CallbackThread.WORLD)
_UNWATCHED: Final = Beat()  # of functions that hold up only who calls them


class _Run:
    """One thread's turn as the runner."""

    __slots__ = ("beat", "dispatcher", "on_io", "outlet")

    def __init__(self, dispatcher: Dispatcher, on_io: bool) -> None:
        self.dispatcher = dispatcher
        self.on_io = on_io
        self.outlet: CallbackOutlet | None = None
        self.beat = Beat()


class _Here(threading.local):
    run: _Run | None = None


_HERE: Final = _Here()


def about_to_wait() -> None:
    """The calling thread is going to wait for something of a session."""
    for function in list(BEFORE_WAITING):
        function()


def _step_aside() -> None:
    """If the calling thread is a runner, another takes its place."""
    run = _HERE.run
    if run is not None:
        run.dispatcher.replace(run)


BEFORE_WAITING.append(_step_aside)


def in_callback() -> bool:
    """Whether the calling thread is inside a function of the user that a session called."""
    return _HERE.run is not None


class Dispatcher:
    """Runs what is due for one session."""

    def __init__(
        self,
        due: DueQueue,
        due_now: DueQueue,
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
        self._busy_count = 0  # threads that call functions, or are about to
        self._ended: threading.Event | None = None  # somebody waits until there are none

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
        """End the threads once all is delivered. The interpreter stays until it is."""
        self.deliver(on_io=False)
        with self._lock:
            for _ in range(self._thread_count):
                self._wake.put(False)
            if self._busy_count == 0 and not self._due:
                return
            ended = self._ended = threading.Event()
        with suppress(RuntimeError):  # the interpreter is ending already
            threading.Thread(target=ended.wait, name="elea-callbacks-last").start()

    def _work_off_now(self) -> None:
        # Who does not get the lock may go: its holder looks at the queue once more afterwards.
        while self._due_now and self._now_lock.acquire(blocking=False):
            try:
                while (parcel := self._due_now.take()) is not None:
                    parcel.outlet.run_all(parcel.values, _UNWATCHED)
            finally:
                self._now_lock.release()

    def _work_off(self, *, on_io: bool) -> None:
        """Become the runner in this thread, unless there is one, and run all that is due."""
        run = _Run(self, on_io)
        with self._lock:
            if self._run is not None or not self._due:
                return
            self._busy_count += 1
            self._run = run
            if not self._watched and self._mode not in _ONE_THREAD:
                self._call_thread()
        outer = _HERE.run
        _HERE.run = run
        try:
            values: list[object] = []
            while (outlet := self._next(run, values)) is not None:
                outlet.run_all(values, run.beat)
                values.clear()
        finally:
            _HERE.run = outer

    def _next(self, run: _Run, values: list[object]) -> CallbackOutlet | None:
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
                self._leave()
                return None
            due = self._due
            while (parcel := due.take()) is not None:
                outlet = parcel.outlet
                if outlet.held:
                    for value in parcel.values:
                        outlet.put_off(value)
                    continue
                values += parcel.values
                while len(values) < RUN_COUNT_MAX and due.has_more_for(outlet):
                    more = due.take()
                    assert more is not None  # nobody else takes from it
                    values += more.values
                run.outlet = outlet
                return outlet
            self._run = run.outlet = None
            self._leave()
        if self._on_drained is not None:
            self._on_drained()
        return None

    def _leave(self) -> None:
        """A thread calls no more functions. Under the lock."""
        self._busy_count -= 1
        if self._busy_count == 0 and self._ended is not None:
            self._ended.set()

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
            if run is not None and seen == (run, run.beat.count):
                self._take_place_of(run)
                run = self._run
            if run is not None:
                if seen != (run, run.beat.count):
                    quiet_s = 0.0
                seen = (run, run.beat.count)
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

"""Runs functions of the user: in order for each of them, and none holds up another for long.

One thread at a time, the runner, takes values from the queue and calls. It may be the I/O thread
itself, so that the common, quick function costs no change of threads. When a function takes long or
waits for something of this session, another thread becomes the runner; the first one keeps only the
function it is in, with the values that come for it meanwhile, and ends with it.

What a function raises never ends a thread of the session. An `Exception` is logged, wherever the
function runs. Anything else (KeyboardInterrupt, SystemExit, GeneratorExit) is logged in the I/O
thread and in threads of the session; it is raised in a thread of the application: by the `put` that
called the function, or out of the event loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, NoReturn

from elea.session.outlet import BEFORE_WAITING, Beat, CallbackOutlet, DueQueue, OwnQueue, Parcel
from elea.session.ports import CallbackThread

SLOW_S: Final = 0.02  # a function that takes longer is slow
QUIET_S: Final = 1.0  # so long after the last call somebody still looks for slow functions
RUN_COUNT_MAX: Final = 256  # values of one function taken at a time
THREADS_COUNT_MAX: Final = 64  # functions that may be slow at the same time

_ONE_THREAD: Final = (CallbackThread.CALLER, CallbackThread.WORLD)
_UNWATCHED: Final = Beat()  # of functions that hold up only who calls them

_LOGGER: Final = logging.getLogger("elea.session")


class _Run:
    """One thread's turn as the runner."""

    __slots__ = ("beat", "dispatcher", "left", "on_io", "outlet")

    def __init__(self, dispatcher: Dispatcher, on_io: bool) -> None:
        self.dispatcher = dispatcher
        self.on_io = on_io
        self.outlet: CallbackOutlet | None = None
        self.beat = Beat()
        self.left = False  # it calls no more functions


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
        own: OwnQueue,
        mode: CallbackThread,
        relieve: Callable[[], bool],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self._due = due
        self._due_now = due_now
        self._own = own
        self._mode = mode
        self._relieve = relieve
        self._on_drained = on_drained  # told each time nothing is due any more
        # Letting go of a function may run a finaliser, which may come back here.
        self._lock = threading.RLock()
        self._now_lock = threading.Lock()
        self._run: _Run | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread_count = 0
        self._idle_count = 0  # threads that wait, or were started and are about to
        self._watched = False  # a thread looks whether the runner is held up
        self._busy_count = 0  # threads that call functions, or are about to
        self._closed = False  # threads end once nothing is due
        self._ended: threading.Event | None = None  # somebody waits until there are none

    def deliver(self, *, on_io: bool) -> None:
        """See that everything due is run: here, or by a thread of the session."""
        if self._due_now or self._own:
            self._work_off_now(on_io=on_io)
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
        """End the threads once all is delivered. The interpreter stays until it is.

        What becomes due afterwards is delivered as well, by a thread that ends with it.
        """
        self.deliver(on_io=False)
        self._own.give_up_all()
        with self._lock:
            if self._is_left():
                self._call_thread()
            self._closed = True
            # No thread waits for the queue from now on: one value for each that does is enough.
            for _ in range(self._idle_count):
                self._wake.put(None)
            if self._busy_count == 0 and not self._due:
                return
            ended = self._ended = threading.Event()
        with suppress(RuntimeError):  # the interpreter is ending already
            threading.Thread(target=ended.wait, name="elea-callbacks-last").start()

    def _work_off_now(self, *, on_io: bool) -> None:
        """Call functions with what this thread brought.

        The I/O thread and threads of the session also take what others left. A thread of the
        application does not: what such a function raises is not for it, and a signal is.
        """
        own = self._own
        takes_left = on_io or self._mode in _ONE_THREAD
        while own.has_own() or (takes_left and self._is_left()):
            overtakes = not takes_left and len(own.left) > 0
            if overtakes or not self._now_lock.acquire(blocking=False):
                own.give_up()
                # With one thread the holder is further up the stack, and looks once more.
                if self._mode not in _ONE_THREAD:
                    with self._lock:
                        self._call_thread()
                return
            try:
                while (parcel := self._take_now(takes_left=takes_left)) is not None:
                    try:
                        self._call(parcel.outlet, parcel.values, _UNWATCHED, on_io=on_io)
                    except BaseException:
                        if parcel.values:
                            own.left.appendleft(parcel)
                        own.give_up()
                        raise
            finally:
                self._now_lock.release()
                if self._is_left() and self._mode not in _ONE_THREAD:
                    with self._lock:
                        self._call_thread()  # others are not to wait

    def _is_left(self) -> bool:
        """Whether a value waits for a function that any thread of the session may call."""
        return len(self._own.left) > 0 or len(self._due_now) > 0

    def _take_now(self, *, takes_left: bool) -> Parcel | None:
        """Return what to call next: what was left comes first, as it was brought earlier."""
        if takes_left:
            with suppress(IndexError):
                return self._own.left.popleft()
        parcel = self._own.take_own()
        if parcel is None and takes_left:
            parcel = self._due_now.take()
        return parcel

    def _call(
        self, outlet: CallbackOutlet, values: list[object], beat: Beat, *, on_io: bool
    ) -> None:
        """Call a function with each value; what is left in `values` when it raises is for later."""
        while values:
            try:
                outlet.run_all(values, beat)
                values.clear()
            except BaseException as error:
                if not self._can_go_on(error, on_io=on_io):
                    raise

    def _can_go_on(self, error: BaseException, *, on_io: bool) -> bool:
        """Whether what a function raised is dealt with; if not, it is the calling thread's."""
        if self._mode not in _ONE_THREAD:
            if on_io:
                _LOGGER.error("callback error", exc_info=error)
            return on_io
        if self._mode is not CallbackThread.CALLER or not on_io:
            return False
        import asyncio  # late: who drives sessions by threads does not pay for it

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        # Not in the middle of reading a link: the loop decides what it means, as for its own.
        loop.call_soon(_raise, error)
        return True

    def _work_off(self, *, on_io: bool) -> None:
        """Become the runner in this thread, unless there is one, and run all that is due."""
        run = _Run(self, on_io)
        with self._lock:
            if self._run is not None or not self._due:
                return
            if not self._watched and self._mode not in _ONE_THREAD:
                self._call_thread()
            self._busy_count += 1
            self._run = run
        outer = _HERE.run
        _HERE.run = run
        # Unless there is one thread only, functions run in the I/O thread or in one of ours.
        ours = on_io or self._mode not in _ONE_THREAD
        values: list[object] = []
        try:
            while (outlet := self._next(run, values)) is not None:
                self._call(outlet, values, run.beat, on_io=ours)
        except BaseException:
            self._break_off(run, values)
            raise
        finally:
            _HERE.run = outer

    def _break_off(self, run: _Run, values: list[object]) -> None:
        """A function raised what this thread has to raise: somebody else calls the rest."""
        with self._lock:
            outlet = run.outlet
            if self._run is run:
                self._run = None
            elif outlet is not None:
                values.extend(outlet.backlog)
                outlet.backlog.clear()
                outlet.held = False
                outlet.caught_up()
            if outlet is not None and values:
                self._due.put_back(outlet, values)
            run.outlet = None
            self._leave(run)

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
                self._leave(run)
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
            self._leave(run)
        if self._on_drained is not None:
            self._on_drained()
        return None

    def _leave(self, run: _Run) -> None:
        """A thread calls no more functions. Under the lock."""
        if run.left:
            return
        run.left = True
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
        """See that a thread looks for something to do. Under the lock."""
        if self._idle_count == 0 and self._thread_count < THREADS_COUNT_MAX:
            name = f"elea-callbacks-{self._thread_count + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many in this process, or the interpreter is ending
                _LOGGER.exception("no thread for callbacks could be started")
                return
            self._thread_count += 1
            self._idle_count += 1
        if self._wake.qsize() < self._idle_count:
            self._wake.put(None)

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
            if self._is_left():
                self._work_off_now(on_io=True)
            if run is not None:
                if seen != (run, run.beat.count):
                    quiet_s = 0.0
                seen = (run, run.beat.count)
            elif self._due:
                quiet_s = 0.0
                self._work_off(on_io=False)
            with self._lock:
                self._idle_count += 1

    def _wait(self, *, watch: bool) -> bool:
        """Wait to be called; the one that watches waits a moment only. False: end."""
        with self._lock:
            closed = self._closed
            idle = self._run is None and not self._due and not self._is_left()
            watch = watch and not self._watched and not closed
            self._watched |= watch
            if closed and idle:
                self._idle_count -= 1
                self._thread_count -= 1
                return False
        if not closed:
            with suppress(Empty):
                self._wake.get(timeout=SLOW_S if watch else None)
        elif not idle:
            time.sleep(SLOW_S)  # not for the queue: what is in it is for those that wait for it
        with self._lock:
            self._idle_count -= 1
            if watch:
                self._watched = False
        return True


def _raise(error: BaseException) -> NoReturn:
    raise error

"""Watching descriptors: a loop in a thread of its own, or the application's asyncio loop.

Both pollers behave the same. A callback that raises is reported through `on_error` and the loop
goes on. Readiness is a level: what was not read is told again. One deadline per poller is enough;
`elea.link.timers` shares it out.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from elea.errors import ClosedError
from elea.limits import DEFAULT_LIMITS
from elea.link.base import READ, WRITE, Callback

_LOG: Final = logging.getLogger("elea.link")
_STOP_WAIT_S: Final = 2.0  # a callback that hangs must not hang the one who stops the loop
_NAP_S: Final = 3_600.0  # the system calls take no time of arbitrary length
_FOREVER_NS: Final = 1 << 63
_SHORT_WAITS: Final = 2  # a wait of so many spins is short: if both ends spin, it is shorter
_TURNS_PER_TRIAL: Final = 16

_EPOLLIN: Final = 0x001
_EPOLLOUT: Final = 0x004
_EPOLL_MASKS: Final = (0, _EPOLLIN, _EPOLLOUT, _EPOLLIN | _EPOLLOUT)  # by READ | WRITE
_EVENTS_COUNT_MAX: Final = 1_024  # descriptors told in one turn; the others are told in the next

ErrorHook = Callable[[BaseException], None]


class Poller(Protocol):
    """What links need of a loop. Every method may be called by any thread."""

    def register(
        self, fd: int, on_readable: Callback, on_writable: Callback, interest: int = READ
    ) -> None:
        """Watch a descriptor for READ, WRITE, both, or nothing for now (0)."""

    def modify(self, fd: int, interest: int) -> None:
        """Watch it for something else; nothing happens if it is not registered."""

    def unregister(self, fd: int) -> None:
        """Forget it, before it is closed; nothing happens if it is not registered."""

    def call_soon_threadsafe(self, call: Callback) -> None:
        """Run something on the loop, after what is running now."""

    def said(self) -> None:
        """Something was sent, so an answer may come soon."""

    def set_deadline(self, at_ns: int | None, call: Callback | None) -> None:
        """Run something once when the monotonic clock reaches `at_ns`, in place of the last one."""

    def in_loop(self) -> bool:
        """Whether the caller runs on the loop; False for a thread that was relieved."""

    def relieve(self) -> bool:
        """Another thread goes on with the loop; False if there cannot be another."""

    def stop(self) -> None:
        """End the loop. Calls made before are run; what was registered is forgotten, not closed."""


def log_error(error: BaseException) -> None:
    """The default error hook: a traceback in the log."""
    _LOG.error("a callback of the network loop failed", exc_info=error)


class Watcher(Protocol):
    """Waits for descriptors. `sees_changes`: also for those that change while it waits."""

    sees_changes: bool

    def register(self, fd: int, interest: int) -> None: ...
    def modify(self, fd: int, interest: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def select(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """Descriptors that are ready, and for what."""

    def close(self) -> None: ...


class Epoll:
    """A Watcher of Linux, without the steps in between that `selectors` takes."""

    __slots__ = ("_epoll", "_modify", "_poll", "sees_changes")

    def __init__(self) -> None:
        self.sees_changes = True
        epoll = self._epoll = select.epoll()
        self._poll = epoll.poll
        self._modify = epoll.modify

    def register(self, fd: int, interest: int) -> None:
        self._epoll.register(fd, _EPOLL_MASKS[interest])

    def modify(self, fd: int, interest: int) -> None:
        self._modify(fd, _EPOLL_MASKS[interest])

    def unregister(self, fd: int) -> None:
        with suppress(OSError):  # closed already
            self._epoll.unregister(fd)

    def select(self, timeout_s: float | None) -> list[tuple[int, int]]:
        try:
            found = self._poll(timeout_s, _EVENTS_COUNT_MAX)
        except InterruptedError:
            return []
        ready: list[tuple[int, int]] = []
        for fd, event in found:
            # An error is told to whoever reads or writes next.
            mask = (READ if event & ~_EPOLLOUT else 0) | (WRITE if event & ~_EPOLLIN else 0)
            ready.append((fd, mask))
        return ready

    def close(self) -> None:
        self._epoll.close()


class Selector:
    """A Watcher of any platform."""

    __slots__ = ("_selector", "sees_changes")

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        self._selector = selectors.DefaultSelector() if selector is None else selector
        self.sees_changes = type(self._selector).__name__ == "KqueueSelector"

    def register(self, fd: int, interest: int) -> None:
        self._selector.register(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self._selector.modify(fd, interest)

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def select(self, timeout_s: float | None) -> list[tuple[int, int]]:
        return [(key.fd, mask) for key, mask in self._selector.select(timeout_s)]

    def close(self) -> None:
        self._selector.close()


def new_watcher() -> Watcher:
    """The best one of this platform."""
    return Epoll() if hasattr(select, "epoll") else Selector()


class SelectorPoller:
    """A loop in a daemon thread, which starts with the first thing there is to watch.

    After a fork the child's poller is empty and starts anew when it is used: what the parent
    watches stays the parent's. `on_fork` is called in the child, so that an owner may drop what it
    inherited.

    Args:
        name: of the thread.
        on_error: told of exceptions in callbacks.
        on_fork: called in a forked child.
        spin_ns: how long to look for more before sleeping, where more is likely; 0: never.
        watcher: makes what waits for descriptors.
    """

    def __init__(
        self,
        *,
        name: str = "elea-io",
        on_error: ErrorHook = log_error,
        on_fork: Callback | None = None,
        spin_ns: int = DEFAULT_LIMITS.spin_ns,
        watcher: Callable[[], Watcher] = new_watcher,
    ) -> None:
        self._new_watcher = watcher
        self.on_fork = on_fork
        self._eagerness = Eagerness(0 if _cores_count() < 2 else spin_ns)
        self._name = name
        self._on_error = on_error
        self._stopping = False
        self._lock: threading.Lock
        self._watches: dict[int, _Watch]
        self._calls: deque[Callback]
        self._deadline: _Deadline | None
        self._asleep_until_ns: int  # 0 while awake
        self._ident: int  # of the thread that runs the loop; 0: none
        self._worker: threading.Thread | None
        self._selector: Watcher | None
        self._waker: _Waker | None
        self._kernel_side: bool  # whether the selector sees changes while it waits
        self._forget()

    def register(
        self, fd: int, on_readable: Callback, on_writable: Callback, interest: int = READ
    ) -> None:
        with self._lock:
            selector = self._started()
            if fd in self._watches:
                raise ValueError(f"descriptor {fd} is registered already")
            self._watches[fd] = _Watch(on_readable, on_writable, interest)
            if interest:
                selector.register(fd, interest)
        self._noticed()

    def modify(self, fd: int, interest: int) -> None:
        with self._lock:
            watch = self._watches.get(fd)
            if watch is None or watch.interest == interest:
                return
            selector = self._started()
            if not interest:
                selector.unregister(fd)
            elif not watch.interest:
                selector.register(fd, interest)
            else:
                selector.modify(fd, interest)
            watch.interest = interest
        self._noticed()

    def unregister(self, fd: int) -> None:
        with self._lock:
            watch = self._watches.pop(fd, None)
            if watch is not None and watch.interest and self._selector is not None:
                self._selector.unregister(fd)

    def call_soon_threadsafe(self, call: Callback) -> None:
        with self._lock:
            self._started()
            self._calls.append(call)
        self._wake_from(0)

    def set_deadline(self, at_ns: int | None, call: Callback | None) -> None:
        if at_ns is None or call is None:
            self._deadline = None
            return
        with self._lock:
            self._started()
            self._deadline = _Deadline(at_ns, call)
        self._wake_from(at_ns)

    def said(self) -> None:
        # Another thread said it: while the other end makes up its answer, there is time to wake.
        if self._eagerness.say(time.monotonic_ns()) and not self.in_loop():
            self._wake()

    def in_loop(self) -> bool:
        return self._ident == threading.get_ident()

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            thread = self._worker
        if thread is not None and not self.in_loop():
            self._wake()
            thread.join(_STOP_WAIT_S)

    # The loop.

    def relieve(self) -> bool:
        """The loop's thread is held up in a callback: another one goes on with the loop.

        The first ends when its callback returns; for it `in_loop` is False from now on, and what
        is left of its turn is done by the other. Called by any thread; False if there is no loop.
        """
        with self._lock:
            selector = self._selector
            if selector is None or self._stopping:
                return False
            self._ident = 0
            self._worker = threading.Thread(
                target=self._run, args=(selector,), name=self._name, daemon=True
            )
            self._worker.start()
        return True

    def _run(self, selector: Watcher) -> None:
        ident = self._ident = threading.get_ident()
        while not self._stopping:
            self._turn(selector)
            if self._ident != ident:
                return  # relieved: the loop belongs to another thread
        self._run_calls()  # what was asked for before the end
        with self._lock:
            if self._ident == ident:
                self._close()

    def _turn(self, selector: Watcher) -> None:
        # First say that we sleep, then look for a reason not to: whoever adds one looks after that.
        self._asleep_until_ns = _FOREVER_NS
        try:
            events = self._spin(selector) or selector.select(self._patience_s())
        except OSError as error:
            self._failed(error)  # a descriptor was closed before it was unregistered
            events = []
        self._asleep_until_ns = 0
        watches = self._watches
        heard = False
        found: list[tuple[int, int, _Watch]] = []
        for fd, mask in events:
            one = watches.get(fd)
            if one is not None:
                found.append((fd, mask, one))
                heard = heard or (mask & READ != 0 and not one.is_waker)
        if heard:
            self._eagerness.hear(time.monotonic_ns())
        for fd, mask, watch in found:
            # A callback before this one may have dropped this descriptor, or registered it anew.
            if mask & READ and watches.get(fd) is watch:
                self._call(watch.on_readable)
            if not self.in_loop():
                return  # relieved; descriptors that are still ready tell it again
            if mask & WRITE and watches.get(fd) is watch:
                self._call(watch.on_writable)
        self._run_calls()
        if not self.in_loop():
            return
        due = self._deadline
        if due is not None and due.at_ns <= time.monotonic_ns():
            with self._lock:
                if self._deadline is due:  # another thread may have set the next one meanwhile
                    self._deadline = None
            self._call(due.call)

    def _spin(self, selector: Watcher) -> list[tuple[int, int]]:
        """Look again and again for a moment, if something is likely to come within it.

        To be woken costs several times what it takes to answer a message.
        """
        now_ns = time.monotonic_ns()
        until_ns = self._eagerness.begin(now_ns)
        while now_ns < until_ns and not self._calls and not self._stopping:
            events = selector.select(0)
            if events:
                return events
            now_ns = time.monotonic_ns()
            due = self._deadline
            if due is not None and due.at_ns <= now_ns:
                break
        return []

    def _run_calls(self) -> None:
        for _ in range(len(self._calls)):  # those that calls add wait for the next turn
            self._call(self._calls.popleft())
            if not self.in_loop():
                return  # relieved: the other thread runs the rest

    def _patience_s(self) -> float | None:
        due = self._deadline
        if due is not None:
            self._asleep_until_ns = due.at_ns
        if self._calls or self._stopping:
            return 0
        if due is None:
            return None
        return min(max(0, due.at_ns - time.monotonic_ns()) / 1e9, _NAP_S)

    def _call(self, call: Callback) -> None:
        try:
            call()
        except BaseException as error:  # even SystemExit: the thread is not the caller's to end
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        try:
            self._on_error(error)
        except Exception as worse:
            log_error(worse)

    def _noticed(self) -> None:
        """epoll and kqueue see changes while they wait; the others have to be told."""
        if not self._kernel_side:
            self._wake_from(0)

    def _wake_from(self, at_ns: int) -> None:
        if at_ns < self._asleep_until_ns and not self.in_loop():
            self._wake()

    def _wake(self) -> None:
        waker = self._waker
        if waker is not None:
            waker.ring()

    # Starting, ending, forking.

    def _started(self) -> Watcher:
        """The selector of the running thread; called with the lock."""
        if self._stopping:
            raise ClosedError("the poller was stopped")
        if self._selector is None:
            _RUNNING.append(self)
            selector = self._selector = self._new_watcher()
            self._kernel_side = selector.sees_changes
            waker = self._waker = _Waker()
            self._watches[waker.fd] = _Watch(waker.clear, _nothing, READ, is_waker=True)
            selector.register(waker.fd, READ)
            self._worker = threading.Thread(
                target=self._run, args=(selector,), name=self._name, daemon=True
            )
            self._worker.start()
        return self._selector

    def _close(self) -> None:
        if self._selector is not None:
            _RUNNING.remove(self)
            self._selector.close()
        if self._waker is not None:
            self._waker.close()
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._watches = {}
        self._calls = deque()
        self._deadline = None
        self._asleep_until_ns = 0
        self._ident = 0
        self._worker = None
        self._selector = None
        self._waker = None
        self._kernel_side = True

    def _forked(self) -> None:
        """In the child: the thread is gone, its lock may be held for ever, epoll is shared."""
        if self._waker is not None:
            self._waker.forked()
        self._close()
        if self.on_fork is not None:
            self._call(self.on_fork)


class Eagerness:
    """Decides whether to spin before sleeping: told the time, it knows no clock.

    To spin may be worth while in a dialogue: what was said is answered soon. Whether it is shows in
    how long answers take with and without: on a busy machine, who sleeps is served before who
    spins. So the better way is taken, and the other one tried now and then. Before something is
    said there is nothing to spin for, and another thread of this process may need the interpreter.
    """

    __slots__ = ("_dialogue", "_medians_ns", "_said_ns", "_spin_ns", "_spins", "_turns")

    def __init__(self, spin_ns: int) -> None:
        self._spin_ns = spin_ns
        self._said_ns = 0  # when something was first said since something was heard
        self._dialogue = False  # the last answer came soon
        self._spins = False  # for the answer to what was said
        self._turns = 0
        self._medians_ns = [spin_ns, spin_ns]  # of the time to an answer, sleeping and spinning

    def say(self, now_ns: int) -> bool:
        """Something is said; whether to spin for the answer from now on."""
        if self._said_ns:
            return False
        self._said_ns = now_ns
        if self._dialogue:
            self._turns += 1
            sleeping_ns, spinning_ns = self._medians_ns
            tries_other = self._turns % _TURNS_PER_TRIAL == 0
            self._spins = (spinning_ns <= sleeping_ns) != tries_other
        return self._spins

    def begin(self, now_ns: int) -> int:
        """A wait begins; until when to spin, `now_ns` or earlier for not at all."""
        return now_ns + self._spin_ns if self._spins else 0

    def hear(self, now_ns: int) -> None:
        """A link has something to read."""
        if self._said_ns:
            waited_ns = now_ns - self._said_ns
            if self._dialogue:
                median_ns = self._medians_ns[self._spins]
                step_ns = max(median_ns >> 4, 1)
                self._medians_ns[self._spins] += step_ns if waited_ns > median_ns else -step_ns
            self._dialogue = waited_ns < _SHORT_WAITS * self._spin_ns
        else:
            self._dialogue = False
        self._said_ns = 0
        self._spins = False


def _cores_count() -> int:
    """The cores this process may use: on a single one, spinning keeps the sender from sending."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Deadline:
    """Something to call at a time."""

    __slots__ = ("at_ns", "call")

    def __init__(self, at_ns: int, call: Callback) -> None:
        self.at_ns = at_ns
        self.call = call


class _Watch:
    """A registered descriptor."""

    __slots__ = ("interest", "is_waker", "on_readable", "on_writable")

    def __init__(
        self, on_readable: Callback, on_writable: Callback, interest: int, *, is_waker: bool = False
    ) -> None:
        self.is_waker = is_waker
        self.on_readable = on_readable
        self.on_writable = on_writable
        self.interest = interest


class _Waker:
    """A descriptor that other threads make readable: an eventfd, or a socket pair."""

    __slots__ = ("_lock", "_pair", "_rung", "fd")

    def __init__(self) -> None:
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._lock = threading.Lock()
        self._rung = False
        if hasattr(os, "eventfd"):
            self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._pair = socket.socketpair()
            for one in self._pair:
                one.setblocking(False)
            self.fd = self._pair[0].fileno()

    def ring(self) -> None:
        with self._lock:
            if self._rung:
                return
            self._rung = True
            if self.fd < 0:
                return  # the loop ended meanwhile
            if self._pair is None:
                os.eventfd_write(self.fd, 1)
            else:
                self._pair[1].send(b"\0")

    def clear(self) -> None:
        with self._lock:
            # Rung again from here on means another turn; what rang before is seen in this one.
            self._rung = False
            if self._pair is None:
                os.eventfd_read(self.fd)
            else:
                self._pair[0].recv(64)

    def close(self) -> None:
        with self._lock:  # who rings writes to this descriptor, and its number is soon another's
            if self._pair is None:
                os.close(self.fd)
            else:
                for one in self._pair:
                    one.close()
            self.fd = -1

    def forked(self) -> None:
        """In the child: who held the lock is gone."""
        self._lock = threading.Lock()


def _nothing() -> None:
    """What happens when something is writable that nobody writes to."""


def _forked() -> None:
    for poller in list(_RUNNING):
        poller._forked()


_RUNNING: Final[list[SelectorPoller]] = []  # as long as they have a thread

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

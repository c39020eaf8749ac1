"""The poller on an asyncio loop that is running already: no thread, nothing blocks."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from contextlib import suppress
from typing import Final

from elea.errors import ClosedError
from elea.link.base import READ, WRITE, Callback
from elea.link.poller import ErrorHook, log_error

_STOPPED: Final = "the poller was stopped"
_POLLERS: Final[weakref.WeakSet[AsyncioPoller]] = weakref.WeakSet()


class AsyncioPoller:
    """`elea.link.poller.Poller` on the loop the application runs.

    The loop is watched by the application's own thread, so calls from there take effect at once;
    calls from other threads are handed over.

    Args:
        loop: the loop; the running one if not given.
        on_error: told of exceptions in callbacks.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, *, on_error: ErrorHook = log_error
    ) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._on_error = on_error
        self._watches: dict[int, _Watch] = {}
        self._deadline: tuple[int, Callback] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._stopped = False
        _POLLERS.add(self)

    def register(
        self, fd: int, on_readable: Callback, on_writable: Callback, interest: int = READ
    ) -> None:
        if self._stopped:
            raise ClosedError(_STOPPED)
        if not self.in_loop():
            self.call_soon_threadsafe(lambda: self.register(fd, on_readable, on_writable, interest))
            return
        if fd in self._watches:
            raise ValueError(f"descriptor {fd} is registered already")
        self._watches[fd] = _Watch(self, fd, on_readable, on_writable)
        self.modify(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        if not self.in_loop():
            self._hand_over(lambda: self.modify(fd, interest))
            return
        watch = self._watches.get(fd)
        if watch is not None:
            self._watch_for(watch, interest)

    def unregister(self, fd: int) -> None:
        if not self.in_loop():
            self._hand_over(lambda: self.unregister(fd))
            return
        watch = self._watches.pop(fd, None)
        if watch is not None:
            self._watch_for(watch, 0)

    def call_soon_threadsafe(self, call: Callback) -> None:
        if self._stopped:
            raise ClosedError(_STOPPED)
        try:
            self._loop.call_soon_threadsafe(self._call, call)
        except RuntimeError as error:
            raise ClosedError("the event loop is closed") from error

    def set_deadline(self, at_ns: int | None, call: Callback | None) -> None:
        if at_ns is None or call is None:
            self._deadline = None  # a timer that fires without a deadline does nothing
            return
        if self._stopped:
            raise ClosedError(_STOPPED)
        self._deadline = (at_ns, call)
        if self.in_loop():
            self._arm()
        else:
            self.call_soon_threadsafe(self._arm)

    def relieve(self) -> bool:
        """The loop is the application's: nobody can take its place."""
        return False

    def said(self) -> None:
        """The application's loop sleeps as it likes."""

    def in_loop(self) -> bool:
        return asyncio._get_running_loop() is self._loop

    def stop(self) -> None:
        if self._stopped:
            return
        if self.in_loop():
            self._stop()
        else:
            self._hand_over(self._stop)
            self._stopped = True

    def forked(self) -> None:
        """In the child: what the loop watches is the parent's, and so is its descriptor."""
        self._stopped = True
        for watch in self._watches.values():
            watch.interest = 0
        self._watches = {}
        self._deadline = None

    def _hand_over(self, call: Callback) -> None:
        with suppress(ClosedError):  # a loop that has ended watches nothing
            self.call_soon_threadsafe(call)

    def _stop(self) -> None:
        self._stopped = True
        for watch in self._watches.values():
            self._watch_for(watch, 0)
        self._watches.clear()
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()

    def _watch_for(self, watch: _Watch, interest: int) -> None:
        changed = interest ^ watch.interest
        watch.interest = interest
        if changed & READ:
            if interest & READ:
                self._loop.add_reader(watch.fd, watch.readable)
            else:
                self._loop.remove_reader(watch.fd)
        if changed & WRITE:
            if interest & WRITE:
                self._loop.add_writer(watch.fd, watch.writable)
            else:
                self._loop.remove_writer(watch.fd)

    def _arm(self) -> None:
        due = self._deadline
        if due is None:
            return
        if self._timer is not None:
            if self._timer_ns <= due[0]:
                return  # it fires early enough and looks again then
            self._timer.cancel()
        delay_s = max(0, due[0] - time.monotonic_ns()) / 1e9
        self._timer_ns = due[0]
        self._timer = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        due = self._deadline
        if due is None:
            return
        if due[0] > time.monotonic_ns():
            self._arm()
            return
        self._deadline = None
        self._call(due[1])

    def _call(self, call: Callback) -> None:
        try:
            call()
        except Exception as error:  # what ends a program ends it: that is the application's loop
            try:
                self._on_error(error)
            except Exception as worse:
                log_error(worse)


class _Watch:
    """A registered descriptor."""

    __slots__ = ("_on_readable", "_on_writable", "_poller", "fd", "interest")

    def __init__(
        self, poller: AsyncioPoller, fd: int, on_readable: Callback, on_writable: Callback
    ) -> None:
        self._poller = poller
        self._on_readable = on_readable
        self._on_writable = on_writable
        self.fd = fd
        self.interest = 0

    def readable(self) -> None:
        if self.interest & READ:  # dropped by a callback of this very turn?
            self._poller._call(self._on_readable)

    def writable(self) -> None:
        if self.interest & WRITE:
            self._poller._call(self._on_writable)


def _forked() -> None:
    for poller in list(_POLLERS):
        poller.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

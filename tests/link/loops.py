"""Both pollers behind one face, so that one suite serves them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

from tests.link.rig import turns

from elea.link.asyncio_poller import AsyncioPoller
from elea.link.poller import Poller, SelectorPoller


class Loop(Protocol):
    """A poller under test, and how to let it run."""

    poller: Poller
    errors: list[BaseException]

    def until(self, done: Callable[[], bool]) -> None:
        """Let the loop turn until something holds."""

    def run(self, call: Callable[[], None]) -> None:
        """Run something on the loop and wait for it."""

    def wait_for_the_end(self) -> None:
        """After stop on the loop itself: until nothing more happens."""

    def close(self) -> None: ...


class ThreadLoop:
    """SelectorPoller: it runs by itself."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._name = f"elea-io of test {id(self)}"
        self.poller: Poller = SelectorPoller(on_error=self.errors.append, name=self._name)

    def until(self, done: Callable[[], bool]) -> None:
        for _ in turns():
            self.run(lambda: None)
            if done():
                return
        raise AssertionError("it never happened")

    def run(self, call: Callable[[], None]) -> None:
        ran = threading.Event()

        def both() -> None:
            try:
                call()
            finally:
                ran.set()

        self.poller.call_soon_threadsafe(both)
        assert ran.wait(20)

    def wait_for_the_end(self) -> None:
        for thread in threading.enumerate():
            if thread.name.startswith(self._name):  # not a thread that another test left
                thread.join(20)
                assert not thread.is_alive()

    def close(self) -> None:
        self.poller.stop()


class AsyncioLoop:
    """AsyncioPoller: it runs while someone waits."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self.poller: Poller = AsyncioPoller(self._loop, on_error=self.errors.append)

    def until(self, done: Callable[[], bool]) -> None:
        for _ in turns():
            self._loop.run_until_complete(asyncio.sleep(0))
            if done():
                return
        raise AssertionError("it never happened")

    def run(self, call: Callable[[], None]) -> None:
        async def inside() -> None:
            call()

        self._loop.run_until_complete(inside())

    def wait_for_the_end(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        self.poller.stop()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


LOOPS: list[Callable[[], Loop]] = [ThreadLoop, AsyncioLoop]

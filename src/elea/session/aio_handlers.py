"""Handlers for an event loop: channels that are awaited, and functions that may be coroutines."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from queue import Empty
from typing import Final, Generic, Self, TypeVar, cast

from elea.errors import ClosedError
from elea.session.handlers import (
    DEFAULT_CAPACITY,
    AnyHandler,
    BuiltinHandler,
    Callback,
    FifoChannel,
    Handler,
)
from elea.session.outlet import END, Channel

T = TypeVar("T")

AsyncCallback = Callable[[T], Awaitable[object]]
IntoHandler = (
    BuiltinHandler[T]
    | Callback[T]
    | Callable[[T], object]
    | Callable[[T], Awaitable[object]]
    | None
)

_LOGGER: Final = logging.getLogger("elea.session")


class AsyncHandler(Generic[T]):
    """Access to what was received: `await recv()`, or `async for`."""

    __slots__ = ("_channel", "_handler", "_loop", "_waiters")

    def __init__(self, handler: Handler[T]) -> None:
        self._handler = handler  # it keeps the channel open as long as we are there
        self._channel: Channel = handler._channel
        self._loop = asyncio.get_running_loop()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._channel.on_change = self._changed

    def try_recv(self) -> T | None:
        """The next value, or None if there is none now.

        Raises:
            ClosedError: no more values will come.
        """
        return self._handler.try_recv()

    async def recv(self, timeout: float | None = None) -> T:
        """The next value; wait for it, at most `timeout` seconds if given.

        Raises:
            ClosedError: no more values will come.
            TimeoutError: none came in time.
        """
        async with asyncio.timeout(timeout):
            value = await self._take()
        if value is END:
            raise ClosedError("channel is empty and closed")
        return cast(T, value)

    def drain(self) -> list[T]:
        """All values that are there now."""
        return self._handler.drain()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        value = await self._take()
        if value is END:
            raise StopAsyncIteration
        return cast(T, value)

    def __len__(self) -> int:
        return len(self._channel)

    async def _take(self) -> object:
        while True:
            try:
                value = self._channel.take(blocking=False, timeout=None)
                return value if value is END else self._handler.converted(value)
            except Empty:
                waiter = self._loop.create_future()
                self._waiters.append(waiter)
                await waiter

    def _changed(self) -> None:
        """Something came, brought by any thread."""
        if not self._waiters:
            return
        if asyncio._get_running_loop() is self._loop:
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


class AsyncReplies(AsyncHandler[T]):
    """The replies to a query: `async for` as they come, or `await` all of them."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, list[T]]:
        return self._all().__await__()

    async def _all(self) -> list[T]:
        return [reply async for reply in self]


class Adapted(Generic[T]):
    """What a handler argument becomes for the session underneath.

    A coroutine function is fed from a channel, one value at a time and in order.
    """

    __slots__ = ("_drop", "_function", "handler")

    def __init__(self, handler: IntoHandler[T]) -> None:
        function = handler.callback if isinstance(handler, Callback) else handler
        self._function: AsyncCallback[T] | None = None
        self._drop = handler.drop if isinstance(handler, Callback) else None
        self.handler: AnyHandler[T]
        if inspect.iscoroutinefunction(function):
            self._function = function
            self.handler = FifoChannel(DEFAULT_CAPACITY)
        elif isinstance(handler, Callback):
            self.handler = Callback(handler.callback, handler.drop, indirect=False)
        elif callable(handler):
            self.handler = Callback(handler, indirect=False)
        else:
            self.handler = handler

    def started(
        self, channel: object, owner: object, tasks: set[asyncio.Task[None]]
    ) -> AsyncHandler[T] | None:
        """The entity is declared: what it is read from, or None if a function receives.

        `owner` is kept alive meanwhile: what has a function goes on in the background.
        """
        if not isinstance(channel, Handler):
            return None
        values: AsyncHandler[T] = AsyncHandler(channel)
        if self._function is None:
            return values
        task = asyncio.get_running_loop().create_task(self._feed(values, owner))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return None

    async def _feed(self, values: AsyncHandler[T], owner: object) -> None:
        assert self._function is not None
        task = asyncio.current_task()
        async for value in values:
            try:
                await self._function(value)
            except (KeyboardInterrupt, SystemExit):
                raise  # the loop ends with it, as with any task's
            except BaseException:
                if _is_ending(task):
                    raise
                _LOGGER.exception("callback error")
            del value  # a query ends when nobody refers to it
        if self._drop is not None:
            try:
                self._drop()
            except Exception:
                _LOGGER.exception("callback error")


def _is_ending(task: asyncio.Task[object] | None) -> bool:
    """Whether a task is cancelled or closed, rather than that the function in it raised."""
    try:
        running = asyncio.current_task()
    except RuntimeError:  # no loop: the coroutine is closed
        return True
    return running is not task or (task is not None and task.cancelling() > 0)

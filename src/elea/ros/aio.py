"""Nodes on an event loop: the same verbs, awaited (R2-603).

    async with aio.Node("inspector", connect="tcp/127.0.0.1:7447") as node:
        async for message in node.subscribe("/robot1/imu"):
            ...

Network and decoding stay in threads of the session; messages come to the loop one by one. Callbacks
may be coroutine functions: each is awaited before the next message is handed over.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Self

from elea.ros import node as blocking
from elea.ros.endpoints import Publisher, Subscription
from elea.ros.formats.qos import DEFAULT, QoS
from elea.ros.graph import Graph
from elea.ros.services import CALL_S, WAIT_S, Client, Service

_log: Final = logging.getLogger("elea.ros")


class AsyncSubscription:
    """Messages for `async for`, or one at a time by `take`."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    @property
    def subscription(self) -> Subscription:
        """What it is made of: counts, and the token."""
        return self._subscription

    async def take(self, timeout: float | None = None) -> Any:
        """The next message.

        Raises:
            TimeoutError: none came in time.
            StopAsyncIteration: it is closed.
        """
        taken = await asyncio.to_thread(self._taken, timeout)
        if taken is _ENDED:
            raise StopAsyncIteration
        return taken

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Any]:
        while True:
            try:
                yield await self.take()
            except StopAsyncIteration:
                return

    def _taken(self, timeout: float | None) -> Any:
        try:
            return self._subscription.take(timeout)
        except StopIteration:  # which no coroutine may raise
            return _ENDED

    async def close(self) -> None:
        """Withdraw it."""
        await asyncio.to_thread(self._subscription.close)


class AsyncClient:
    """Calls a service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, request: object, timeout: float = CALL_S, *, wait: float = WAIT_S) -> Any:
        """Ask, and return the response; raises as `elea.ros.Client.call`."""
        return await asyncio.to_thread(self._client.call, request, timeout, wait=wait)


class Node:
    """A node whose verbs are awaited; arguments are those of `elea.ros.Node`."""

    def __init__(self, name: str, **options: Any) -> None:
        self._name = name
        self._options = options
        self._node: blocking.Node | None = None

    async def __aenter__(self) -> Self:
        self._node = await asyncio.to_thread(blocking.Node, self._name, **self._options)
        return self

    async def __aexit__(self, *_args: object) -> None:
        await asyncio.to_thread(self.node.close)

    @property
    def node(self) -> blocking.Node:
        """The node itself.

        Raises:
            RuntimeError: outside of `async with`.
        """
        if self._node is None:
            raise RuntimeError("a node of elea.ros.aio is used inside of `async with`")
        return self._node

    @property
    def graph(self) -> Graph:
        """Who else is there."""
        return self.node.graph

    def create_publisher(self, type: str, topic: str, qos: QoS | int = DEFAULT) -> Publisher:
        """A publisher; `publish` does not wait."""
        return self.node.create_publisher(type, topic, qos)

    def create_subscription(
        self,
        type: str | None,
        topic: str,
        callback: Callable[[Any], Awaitable[object] | object] | None = None,
        qos: QoS | int = DEFAULT,
        **options: Any,
    ) -> AsyncSubscription:
        """A subscription; a callback runs on this loop, and may be a coroutine function."""
        heard = None if callback is None else _on_loop(callback, topic)
        made = self.node.create_subscription(type, topic, heard, qos, **options)
        return AsyncSubscription(made)

    async def subscribe(self, topic: str, type: str | None = None, **options: Any) -> Any:
        """A subscription with the type of the topic, which is waited for."""
        made = await asyncio.to_thread(self.node.subscribe, topic, type, **options)
        return AsyncSubscription(made)

    def create_service(self, type: str, name: str, handle: Callable[..., Any]) -> Service:
        """A server; a handler that is a coroutine function runs on this loop."""
        loop = asyncio.get_running_loop()
        if not inspect.iscoroutinefunction(handle):
            return self.node.create_service(type, name, handle)

        def answer(request: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(handle(request), loop).result()

        return self.node.create_service(type, name, answer)

    def create_client(self, type: str, name: str) -> AsyncClient:
        """A client."""
        return AsyncClient(self.node.create_client(type, name))


def _on_loop(
    callback: Callable[[Any], Awaitable[object] | object], topic: str
) -> Callable[[Any], None]:
    """A function for another thread that runs a callback here, one message after the other."""
    loop = asyncio.get_running_loop()

    async def run(message: Any) -> None:
        try:
            found = callback(message)
            if inspect.isawaitable(found):
                await found
        except Exception:
            _log.exception("callback of %s failed", topic)

    def heard(message: Any) -> None:
        asyncio.run_coroutine_threadsafe(run(message), loop).result()

    return heard


_ENDED: Final = object()

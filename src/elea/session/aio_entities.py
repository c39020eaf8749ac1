"""What is declared on an event loop's session: ended by `await undeclare()` or `async with`."""

from __future__ import annotations

import asyncio
from typing import Generic, Self, TypeVar, final

from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.session.aio_handlers import AsyncHandler
from elea.session.listeners import Listening
from elea.session.liveliness import LivelinessToken
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.queryable import Queryable
from elea.session.since import HistoryStatus
from elea.session.spool import Spool, SpoolStats
from elea.session.subscriber import Subscriber

T = TypeVar("T")


class Entity:
    """Something declared on a session; `await undeclare()` or `async with` end it."""

    __slots__ = ("_inner",)

    _inner: Listening[object] | Publisher | Querier | LivelinessToken | Spool

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_args: object) -> None:
        await self.undeclare()

    async def undeclare(self) -> None:
        """End it.

        Raises:
            ClosedError: it was undeclared before.
        """
        self._inner.undeclare()


@final
class AsyncReceiver(Entity, Generic[T]):
    """A subscriber, a queryable or a listener: `async for`, or `await recv()`."""

    __slots__ = ("_values",)

    _inner: Listening[object]

    def __init__(self, inner: Listening[object], values: AsyncHandler[T] | None) -> None:
        self._inner = inner
        self._values = values  # None: a function receives

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        return self._keyed().id

    @property
    def key_expr(self) -> KeyExpr:
        """Its key."""
        return self._keyed().key_expr

    @property
    def dropped_count(self) -> int:
        """How many values its channel had no room for."""
        return self._inner.dropped_count

    @property
    def history(self) -> HistoryStatus | None:
        """How far a subscriber is with what was published before; None if not asked for."""
        return self._inner.history if isinstance(self._inner, Subscriber) else None

    def try_recv(self) -> T | None:
        """What was received next, or None."""
        return self._channel().try_recv()

    async def recv(self, timeout: float | None = None) -> T:
        """What is received next.

        Raises:
            ClosedError: nothing will come any more.
            TimeoutError: nothing came in time.
        """
        return await self._channel().recv(timeout)

    def drain(self) -> list[T]:
        """All that was received and not read."""
        return self._channel().drain()

    def __aiter__(self) -> AsyncHandler[T]:
        return self._channel()

    def _keyed(self) -> Subscriber[object] | Queryable[object]:
        if not isinstance(self._inner, (Subscriber, Queryable)):
            raise AttributeError(f"a {type(self._inner).__name__} has no key of its own")
        return self._inner

    def _channel(self) -> AsyncHandler[T]:
        if self._values is None:
            raise AttributeError("a function receives; only a channel can be read from")
        return self._values


@final
class AsyncToken(Entity):
    """Says that something is there until it is undeclared."""

    __slots__ = ()

    def __init__(self, inner: LivelinessToken) -> None:
        self._inner = inner


@final
class AsyncSpool(Entity):
    """Acknowledged puts that wait for a recorder."""

    __slots__ = ()

    _inner: Spool

    def __init__(self, inner: Spool) -> None:
        self._inner = inner

    def stats(self) -> SpoolStats:
        """What it has, and what became of what it had."""
        return self._inner.stats()

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits any more, at most `timeout` seconds; whether that is so."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._inner.drained()), timeout)
        except TimeoutError:
            return False

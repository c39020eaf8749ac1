"""The verbs of a session as coroutines on the caller's event loop; public as `elea.aio`.

    async with elea.aio.open() as session:
        async for sample in session.declare_subscriber("robot/*/pose"):
            await session.put("seen", sample.payload)

The node runs on the loop itself: there is no thread, and nothing here blocks it. A function that
receives is called on the loop; it may be a coroutine function, which is awaited for one value after
the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Generic, Self, TypeVar, Unpack, final

from elea.config.config import Config
from elea.ids import EntityGlobalId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.qos import Locality
from elea.sample import Reply, Sample
from elea.session import runtime
from elea.session.aio_driver import LoopDriver, open_loop_driver
from elea.session.aio_handlers import Adapted, AsyncHandler, AsyncReplies, IntoHandler
from elea.session.cancellation import CancellationToken
from elea.session.context import BLOCK_NS, CLOSE_NS
from elea.session.convert import (
    IntoEncoding,
    IntoKeyExpr,
    IntoParameters,
    IntoSelector,
    IntoZBytes,
)
from elea.session.handlers import BuiltinHandler
from elea.session.info import SessionInfo
from elea.session.listeners import Listening
from elea.session.liveliness import LivelinessToken
from elea.session.matching import MatchingStatus
from elea.session.options import (
    GetOptions,
    PublicationOptions,
    PublisherOptions,
    PutOptions,
    QuerierOptions,
    QueryOptions,
    SubscriberOptions,
)
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.query import Query
from elea.session.queryable import Queryable
from elea.session.session import Session
from elea.session.settings import IntoConfig, config_of
from elea.session.since import HistoryStatus
from elea.session.stack import TimestampCallback
from elea.session.subscriber import Subscriber
from elea.timestamp import Timestamp

T = TypeVar("T")


class _Entity:
    """Something declared on a session; `await undeclare()` or `async with` end it."""

    __slots__ = ("_inner",)

    _inner: Listening[object] | Publisher | Querier | LivelinessToken

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
class AsyncReceiver(_Entity, Generic[T]):
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
class AsyncPublisher(_Entity):
    """Sends samples on one key."""

    __slots__ = ("_session",)

    _inner: Publisher

    def __init__(self, session: AsyncSession, inner: Publisher) -> None:
        self._session = session
        self._inner = inner

    @property
    def key_expr(self) -> KeyExpr:
        """The key it publishes on."""
        return self._inner.key_expr

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        return self._inner.id

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are subscribers for its key."""
        return self._inner.matching_status

    async def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        **options: Unpack[PublicationOptions],
    ) -> None:
        """Publish a value; waits for room if it may not be dropped."""
        self._inner.put(payload, encoding=encoding, **options)
        await self._session.room()

    def try_put(self, payload: IntoZBytes, *, encoding: IntoEncoding | None = None) -> bool:
        """Publish a value if there is room for it now."""
        return self._inner.try_put(payload, encoding=encoding)

    async def delete(self, **options: Unpack[PublicationOptions]) -> None:
        """Publish the end of the key's value."""
        self._inner.delete(**options)
        await self._session.room()

    def declare_matching_listener(
        self, handler: IntoHandler[MatchingStatus] = None
    ) -> AsyncReceiver[MatchingStatus]:
        """Be told when the first subscriber comes and when the last goes."""
        adapted = Adapted(handler)
        inner = self._inner.declare_matching_listener(adapted.handler)
        return self._session.receiver(inner, adapted)


@final
class AsyncQuerier(_Entity):
    """Asks on one key, again and again."""

    __slots__ = ("_session",)

    _inner: Querier

    def __init__(self, session: AsyncSession, inner: Querier) -> None:
        self._session = session
        self._inner = inner

    @property
    def key_expr(self) -> KeyExpr:
        """The key it asks on."""
        return self._inner.key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are queryables for its key."""
        return self._inner.matching_status

    def get(
        self,
        handler: BuiltinHandler[Reply] | None = None,
        *,
        parameters: IntoParameters | None = None,
        **options: Unpack[QueryOptions],
    ) -> AsyncReplies[Reply]:
        """Ask: `async for` the replies as they come, or `await` all of them."""
        return AsyncReplies(self._inner.get(handler, parameters=parameters, **options))


@final
class AsyncLiveliness:
    """Tokens that say that something is there."""

    __slots__ = ("_session",)

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    def declare_token(self, key_expr: IntoKeyExpr) -> AsyncToken:
        """Say that something is there."""
        return AsyncToken(self._session.blocking.liveliness().declare_token(key_expr))

    def get(
        self,
        key_expr: IntoKeyExpr,
        handler: BuiltinHandler[Reply] | None = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncReplies[Reply]:
        """Ask for the tokens there are."""
        replies = self._session.blocking.liveliness().get(
            key_expr, handler, timeout=timeout, cancellation_token=cancellation_token
        )
        return AsyncReplies(replies)

    def declare_subscriber(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoHandler[Sample] = None,
        *,
        history: bool | None = None,
    ) -> AsyncReceiver[Sample]:
        """Watch tokens come and go."""
        adapted = Adapted(handler)
        liveliness = self._session.blocking.liveliness()
        inner = liveliness.declare_subscriber(key_expr, adapted.handler, history=history)
        return self._session.receiver(inner, adapted)


@final
class AsyncToken(_Entity):
    """Says that something is there until it is undeclared."""

    __slots__ = ()

    def __init__(self, inner: LivelinessToken) -> None:
        self._inner = inner


@final
class AsyncSession:
    """A session on an event loop. Its verbs are those of `elea.Session`."""

    __slots__ = ("__weakref__", "_driver", "_tasks", "blocking")

    def __init__(self, session: Session, driver: LoopDriver) -> None:
        self.blocking = session  # the same session; its verbs do not block, but for a full queue
        self._driver = driver
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_args: object) -> None:
        await self.close()

    @property
    def info(self) -> SessionInfo:
        """Who it is, and who it is connected to."""
        return self.blocking.info

    @property
    def config(self) -> Config:
        """The configuration it was opened with."""
        return self.blocking.config

    def zid(self) -> ZenohId:
        """The identity of its node."""
        return self.blocking.zid()

    def is_closed(self) -> bool:
        """Whether it is closed."""
        return self.blocking.is_closed()

    def new_timestamp(self) -> Timestamp:
        """A new timestamp of the node's clock."""
        return self.blocking.new_timestamp()

    async def close(self) -> None:
        """Undeclare everything, write what is pending, close all links."""
        if self.blocking.is_closed():
            return
        self.blocking.close()
        await self._driver.closed(CLOSE_NS)
        current = asyncio.current_task()
        others = [task for task in self._tasks if task is not current]
        if others:
            await asyncio.wait(others)

    async def put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        **options: Unpack[PutOptions],
    ) -> None:
        """Publish a value; waits for room if it may not be dropped."""
        self.blocking.put(key_expr, payload, encoding=encoding, **options)
        await self.room()

    async def delete(self, key_expr: IntoKeyExpr, **options: Unpack[PutOptions]) -> None:
        """Publish the end of a key's value."""
        self.blocking.delete(key_expr, **options)
        await self.room()

    def get(
        self,
        selector: IntoSelector,
        handler: BuiltinHandler[Reply] | None = None,
        **options: Unpack[GetOptions],
    ) -> AsyncReplies[Reply]:
        """Ask queryables: `async for` the replies as they come, or `await` all of them."""
        return AsyncReplies(self.blocking.get(selector, handler, **options))

    def declare_subscriber(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoHandler[Sample] = None,
        **options: Unpack[SubscriberOptions],
    ) -> AsyncReceiver[Sample]:
        """Receive the samples of keys that intersect this one; with `since`, earlier ones first."""
        adapted = Adapted(handler)
        inner = self.blocking.declare_subscriber(key_expr, adapted.handler, **options)
        return self.receiver(inner, adapted)

    def declare_queryable(
        self,
        key_expr: IntoKeyExpr,
        handler: IntoHandler[Query] = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> AsyncReceiver[Query]:
        """Answer queries on keys that intersect this one."""
        adapted = Adapted(handler)
        inner = self.blocking.declare_queryable(
            key_expr, adapted.handler, complete=complete, allowed_origin=allowed_origin
        )
        return self.receiver(inner, adapted)

    def declare_publisher(
        self, key_expr: IntoKeyExpr, **options: Unpack[PublisherOptions]
    ) -> AsyncPublisher:
        """Prepare to publish on one key again and again."""
        return AsyncPublisher(self, self.blocking.declare_publisher(key_expr, **options))

    def declare_querier(
        self, key_expr: IntoKeyExpr, **options: Unpack[QuerierOptions]
    ) -> AsyncQuerier:
        """Prepare to ask on one key again and again."""
        return AsyncQuerier(self, self.blocking.declare_querier(key_expr, **options))

    def declare_keyexpr(self, key_expr: IntoKeyExpr) -> KeyExpr:
        """Say that a key will be used often."""
        return self.blocking.declare_keyexpr(key_expr)

    def liveliness(self) -> AsyncLiveliness:
        """Tokens, and who watches them."""
        return AsyncLiveliness(self)

    def receiver(self, inner: Listening[object], adapted: Adapted[T]) -> AsyncReceiver[T]:
        """What receives, on this loop."""
        return AsyncReceiver(inner, adapted.started(inner.handler, inner, self._tasks))

    async def room(self) -> None:
        """Wait for room, if a sample that may not be dropped found none."""
        if self._driver.is_full:
            face = self.blocking._context.core.face
            await self._driver.room(face.id, face.now_ns() + BLOCK_NS)


@final
class Opening:
    """A session that is being opened: `await` it, or use it in `async with`."""

    __slots__ = ("_callback", "_config", "_session")

    def __init__(self, config: Config, callback: TimestampCallback | None) -> None:
        self._config = config
        self._callback = callback
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[object, None, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, *_args: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def _open(self) -> AsyncSession:
        driver = await open_loop_driver(self._config)
        session = Session(self._config, driver, timestamp_callback=self._callback)
        runtime.describe(session, driver)
        return AsyncSession(session, driver)


def open(
    config: IntoConfig | None = None, *, timestamp_callback: TimestampCallback | None = None
) -> Opening:
    """Open a session on the running loop; arguments and errors as `elea.open`.

    Example:
        >>> async def main() -> None:
        ...     async with open({"scouting": {"multicast": {"enabled": False}}}) as session:
        ...         await session.put("a", "1")
        >>> asyncio.run(main())
    """
    return Opening(config_of(config), timestamp_callback)

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
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar, Unpack, final, overload

from elea.config.config import Config
from elea.ids import EntityGlobalId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.qos import Locality
from elea.sample import Reply, Sample
from elea.session import runtime
from elea.session.ack import Ack, StoredAck, settle
from elea.session.aio_driver import LoopDriver, open_loop_driver
from elea.session.aio_entities import AsyncReceiver, AsyncSpool, AsyncToken, Entity
from elea.session.aio_handlers import Adapted, AsyncReplies, IntoHandler
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
from elea.session.promise import Promise
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.query import Query
from elea.session.session import Session
from elea.session.settings import IntoConfig, config_of
from elea.session.stack import TimestampCallback
from elea.timestamp import Timestamp

T = TypeVar("T")


@final
class AsyncPublisher(Entity):
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

    @overload
    async def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: None = None,
        **options: Unpack[PublicationOptions],
    ) -> None: ...
    @overload
    async def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PublicationOptions],
    ) -> StoredAck: ...
    async def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
        **options: Unpack[PublicationOptions],
    ) -> StoredAck | None:
        """Publish a value; waits for room if it may not be dropped. `ack` as of `Session.put`."""
        if ack is not None or timeout is not None:
            return await self._session.acknowledged(
                self._inner.begin_stored(payload, encoding, options, ack, timeout)
            )
        self._inner.put(payload, encoding=encoding, **options)
        await self._session.room()
        return None

    def try_put(self, payload: IntoZBytes, *, encoding: IntoEncoding | None = None) -> bool:
        """Publish a value if there is room for it now."""
        return self._inner.try_put(payload, encoding=encoding)

    @overload
    async def delete(self, *, ack: None = None, **options: Unpack[PublicationOptions]) -> None: ...
    @overload
    async def delete(
        self, *, ack: Ack, timeout: float | None = None, **options: Unpack[PublicationOptions]
    ) -> StoredAck: ...
    async def delete(
        self,
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
        **options: Unpack[PublicationOptions],
    ) -> StoredAck | None:
        """Publish the end of the key's value; `ack` as of `Session.put`."""
        if ack is not None or timeout is not None:
            return await self._session.acknowledged(
                self._inner.begin_stored(None, None, options, ack, timeout)
            )
        self._inner.delete(**options)
        await self._session.room()
        return None

    def declare_matching_listener(
        self, handler: IntoHandler[MatchingStatus] = None
    ) -> AsyncReceiver[MatchingStatus]:
        """Be told when the first subscriber comes and when the last goes."""
        adapted = Adapted(handler)
        inner = self._inner.declare_matching_listener(adapted.handler)
        return self._session.receiver(inner, adapted)


@final
class AsyncQuerier(Entity):
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

    @overload
    async def put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: None = None,
        **options: Unpack[PutOptions],
    ) -> None: ...
    @overload
    async def put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck: ...
    async def put(
        self,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck | None:
        """Publish a value; waits for room if it may not be dropped. `ack` as of `Session.put`."""
        if ack is not None or timeout is not None:
            return await self.acknowledged(
                self.blocking._begin_put(key_expr, payload, encoding, options, ack, timeout)
            )
        self.blocking.put(key_expr, payload, encoding=encoding, **options)
        await self.room()
        return None

    @overload
    async def delete(
        self, key_expr: IntoKeyExpr, *, ack: None = None, **options: Unpack[PutOptions]
    ) -> None: ...
    @overload
    async def delete(
        self,
        key_expr: IntoKeyExpr,
        *,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck: ...
    async def delete(
        self,
        key_expr: IntoKeyExpr,
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
        **options: Unpack[PutOptions],
    ) -> StoredAck | None:
        """Publish the end of a key's value; `ack` as of `Session.put`."""
        if ack is not None or timeout is not None:
            return await self.acknowledged(
                self.blocking._begin_put(key_expr, None, None, options, ack, timeout)
            )
        self.blocking.delete(key_expr, **options)
        await self.room()
        return None

    def declare_spool(
        self,
        directory: Path | str | None = None,
        *,
        max_bytes: int | None = None,
        max_age: float | None = None,
        live: bool = True,
    ) -> AsyncSpool:
        """Have acknowledged puts wait here while no recorder is there; as of `Session`."""
        return AsyncSpool(
            self.blocking.declare_spool(directory, max_bytes=max_bytes, max_age=max_age, live=live)
        )

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

    async def acknowledged(self, promise: Promise[StoredAck]) -> StoredAck:
        """What becomes of an acknowledged put that was begun."""
        await self.room()
        try:
            return await _awaited(promise)
        finally:
            settle(self.blocking._context)

    async def room(self) -> None:
        """Wait for room, if a sample that may not be dropped found none."""
        if self._driver.has_room is not None:
            await self._driver.room(self._driver.now_ns() + BLOCK_NS)


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


async def _awaited(promise: Promise[T]) -> T:
    """What another thread ends, on this loop."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is gone, and who waited with it
            loop.call_soon_threadsafe(end)

    promise.then(tell)
    await ended
    return promise.result()

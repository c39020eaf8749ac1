"""The verbs on an event loop, over a node in memory and over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.unit.session.fake_node import FakeDriver

from elea import aio
from elea.answers import QUEUED
from elea.config.config import Config
from elea.errors import ClosedError, ZError
from elea.provenance import SampleKind
from elea.qos import CongestionControl
from elea.sample import Reply, Sample
from elea.session.aio import AsyncSession
from elea.session.aio_driver import LoopDriver
from elea.session.handlers import Callback, RingChannel
from elea.session.query import Query
from elea.session.session import Session


class FakeLoopDriver(FakeDriver):
    """A fake driver whose closing takes a few turns of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.links_left = 3
        self.ended = False

    def start(self) -> None:
        raise AssertionError("nobody starts a fake")

    def is_connected(self, deadline_ns: int) -> bool:
        return True

    def begin_close(self) -> None:
        self.closed = True

    def has_links(self) -> bool:
        self.links_left -= 1
        return self.links_left > 0

    def end_close(self) -> None:
        self.ended = True


def on_loop(test: Callable[[FakeLoopDriver], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            async with asyncio.timeout(20):
                await test(FakeLoopDriver())

        asyncio.run(main())

    run.__name__ = getattr(test, "__name__", "test")
    return run


@contextlib.asynccontextmanager
async def session_on(driver: FakeLoopDriver) -> AsyncIterator[AsyncSession]:
    loop_driver = LoopDriver(driver)
    async with AsyncSession(Session(Config(), loop_driver), loop_driver) as session:
        yield session
    assert driver.ended


@on_loop
async def test_samples_are_awaited(driver: FakeLoopDriver) -> None:
    async with session_on(driver) as session:
        subscriber = session.declare_subscriber("a/*")
        waiting = asyncio.create_task(subscriber.recv())
        await asyncio.sleep(0)
        await session.put("a/1", "x", encoding="text/plain")
        sample = await waiting
        assert sample.payload == "x"
        publisher = session.declare_publisher("a/2")
        assert publisher.matching_status
        await publisher.put("y")
        await publisher.delete()
        assert publisher.try_put("z")
        assert [one.kind for one in subscriber.drain()] == [
            SampleKind.PUT,
            SampleKind.DELETE,
            SampleKind.PUT,
        ]
        assert subscriber.try_recv() is None
        assert (str(subscriber.key_expr), str(publisher.key_expr)) == ("a/*", "a/2")
        with pytest.raises(TimeoutError):
            await subscriber.recv(timeout=0.01)
        await publisher.undeclare()
        with pytest.raises(ZError, match="Undeclared"):
            await publisher.put("z")


@on_loop
async def test_iteration_ends_with_the_subscriber(driver: FakeLoopDriver) -> None:
    async with session_on(driver) as session:
        subscriber = session.declare_subscriber("a")
        got: list[str] = []

        async def read() -> None:
            async for sample in subscriber:
                got.append(sample.payload.to_string())

        reading = asyncio.create_task(read())
        await session.put("a", "1")
        await session.put("a", "2")
        await asyncio.sleep(0)
        await subscriber.undeclare()
        await reading
        assert got == ["1", "2"]


@on_loop
async def test_functions_may_be_coroutines(driver: FakeLoopDriver) -> None:
    got: list[str] = []
    ended = asyncio.Event()

    async def receive(sample: Sample) -> None:
        await asyncio.sleep(0.001 if sample.payload == "1" else 0)
        got.append(sample.payload.to_string())
        if sample.payload == "2":
            raise RuntimeError("it goes on")

    async with session_on(driver) as session:
        session.declare_subscriber("a", Callback(receive, ended.set))
        plain: list[Sample] = []
        session.declare_subscriber("a", plain.append)
        for number in ("1", "2", "3"):
            await session.put("a", number)
        assert len(plain) == 3
    assert got == ["1", "2", "3"]
    assert ended.is_set()


@on_loop
async def test_queries(driver: FakeLoopDriver) -> None:
    async def answer(query: Query) -> None:
        await asyncio.sleep(0)
        query.reply("q", query.payload or "nothing")

    def texts(replies: list[Reply]) -> list[str]:
        return [reply.result.payload.to_string() for reply in replies]

    async with session_on(driver) as session:
        session.declare_queryable("q", answer)
        assert texts(await session.get("q", payload="x")) == ["x"]
        assert texts([reply async for reply in session.get("q")]) == ["nothing"]
        async with session.declare_querier("q", timeout=3) as querier:
            assert querier.matching_status
            assert str(querier.key_expr) == "q"
            assert texts(await querier.get(RingChannel(4), parameters="a=1")) == ["nothing"]
        queryable = session.declare_queryable("p")
        replies = session.get("p")
        async with asyncio.timeout(5):
            async for query in queryable:
                with query:
                    query.reply("p", "1")
                break
        assert texts(await replies) == ["1"]


@on_loop
async def test_liveliness_and_matching(driver: FakeLoopDriver) -> None:
    async with session_on(driver) as session:
        tokens = session.liveliness().declare_subscriber("t/*", history=True)
        async with session.liveliness().declare_token("t/1"):
            replies = await session.liveliness().get("t/*")
            assert len(replies) == 1
        assert [(await tokens.recv()).kind for _ in range(2)] == [SampleKind.PUT, SampleKind.DELETE]
        publisher = session.declare_publisher("a")
        listener = publisher.declare_matching_listener()
        async with session.declare_subscriber("a"):
            assert (await listener.recv()).matching
        assert not (await listener.recv()).matching
        with pytest.raises(AttributeError, match="no key"):
            listener.key_expr  # noqa: B018


@on_loop
async def test_a_full_queue_is_awaited_and_not_blocked_on(driver: FakeLoopDriver) -> None:
    async with session_on(driver) as session:
        driver.node.result, driver.node.room = QUEUED, False
        putting = asyncio.create_task(
            session.put("a", "1", congestion_control=CongestionControl.BLOCK)
        )
        await asyncio.sleep(0.02)
        assert not putting.done()
        driver.node.room = True
        await putting


@on_loop
async def test_closing_ends_everything(driver: FakeLoopDriver) -> None:
    async with session_on(driver) as session:
        subscriber = session.declare_subscriber("a")
        waiting = asyncio.create_task(subscriber.recv())
        await asyncio.sleep(0)
    assert session.is_closed()
    with pytest.raises(ClosedError):
        await waiting
    await session.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_two_sessions_over_tcp() -> None:
    """The real driver on the caller's loop, both ends."""
    at: dict[str, object] = {"endpoints": [f"tcp/127.0.0.1:{free_port()}"]}
    alone: dict[str, object] = {"multicast": {"enabled": False}}

    async def answer(query: Query) -> None:
        query.reply("q", "42")

    async def main() -> None:
        async with aio.open({"scouting": alone, "listen": at}) as server:
            server.declare_queryable("q", answer)
            subscriber = server.declare_subscriber("a/**")
            client = await aio.open({"scouting": alone, "mode": "client", "connect": at})
            await client.put("a/1", "over the wire")
            sample = await subscriber.recv(timeout=10)
            assert sample.payload == "over the wire"
            [reply] = await client.get("q", timeout=10)
            assert reply.result.payload == "42"
            assert client.info.peers_zid() == [server.zid()]
            await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))

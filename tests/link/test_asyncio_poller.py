"""What only the poller on an asyncio loop does: running where the application runs."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from elea.errors import ClosedError
from elea.link.asyncio_poller import AsyncioPoller
from elea.link.memory import memory_pair
from elea.link.pump import LinkPump
from elea.locator import Locator


def nothing() -> None:
    """For callbacks that a test has no use for."""


def test_it_takes_the_running_loop_and_starts_no_thread() -> None:
    async def main() -> list[bytes]:
        before = threading.active_count()
        poller = AsyncioPoller()
        one, other = memory_pair(Locator("memory/a"), Locator("memory/b"))
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        pumps = [
            LinkPump(
                link,
                poller,
                on_data=lambda data, now_ns: heard.put_nowait(data),
                on_closed=lambda reason: heard.put_nowait(reason.encode()),
            )
            for link in (one, other)
        ]
        for pump in pumps:
            pump.start()
        pumps[0].send([b"hello"])
        seen = [await heard.get()]
        pumps[0].close("bye")
        seen += [await heard.get(), await heard.get()]
        assert threading.active_count() == before
        poller.stop()
        return seen

    assert asyncio.run(main()) == [b"hello", b"bye", b"the peer closed the link"]


def test_outside_a_loop_it_needs_one() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncioPoller()


def test_a_loop_that_is_closed_takes_no_more_calls() -> None:
    loop = asyncio.new_event_loop()
    poller = AsyncioPoller(loop)
    loop.close()
    with pytest.raises(ClosedError, match="event loop is closed"):
        poller.call_soon_threadsafe(nothing)
    poller.stop()
    with pytest.raises(ClosedError, match="stopped"):
        poller.call_soon_threadsafe(nothing)


def test_other_threads_may_register_and_stop() -> None:
    loop = asyncio.new_event_loop()
    poller = AsyncioPoller(loop)
    one, other = socket.socketpair()
    heard: list[bytes] = []

    def readable() -> None:
        heard.append(one.recv(9))
        loop.stop()

    def work() -> None:
        poller.register(one.fileno(), readable, nothing)
        other.send(b"x")

    worker = threading.Thread(target=work)
    worker.start()
    loop.run_forever()
    worker.join()
    assert heard == [b"x"]
    stopper = threading.Thread(target=poller.stop)
    stopper.start()
    stopper.join()
    other.send(b"y")
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    one.close()
    other.close()
    assert heard == [b"x"]


def test_leaving_the_program_is_not_swallowed() -> None:
    async def main() -> None:
        AsyncioPoller().call_soon_threadsafe(exit_now)
        await asyncio.sleep(20)

    def exit_now() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        asyncio.run(main())


def test_an_error_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(error: BaseException) -> None:
        raise ValueError("the hook itself") from error

    def break_it() -> None:
        raise RuntimeError("in a callback")

    async def main() -> None:
        AsyncioPoller(on_error=fail).call_soon_threadsafe(break_it)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert "the hook itself" in caplog.text

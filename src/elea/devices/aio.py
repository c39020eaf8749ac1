"""AsyncDevice: a device on the caller's event loop. The session is kept while the loop runs.

async with await open_device("udp/127.0.0.1:7447") as device:
    temperature = await device.resource("/lab/temperature")
    await device.write(temperature, b"21.5")
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Final, Self, cast

from elea.devices.device import Known
from elea.devices.lines import endpoint_of
from elea.errors import DecodeError, LinkError
from elea.xrce.client import Received
from elea.xrce.declaration_records import Property
from elea.xrce.framing import FrameStream, frame_prefix
from elea.xrce.session.session import Ended
from elea.xrce.session.settings import SessionSettings

_SECOND_NS: Final = 1_000_000_000
_CLOSE_S: Final = 3.0


async def open_device(
    endpoint: str, settings: SessionSettings | None = None, *, timeout_s: float = 10.0
) -> AsyncDevice:
    """A device that has a session with the gateway at an endpoint.

    Raises:
        InvalidValueError: `endpoint` is none.
        LinkError: The gateway cannot be reached.
        ClosedError: It refused.
        TimeoutError: It did not answer.
    """
    device = AsyncDevice(endpoint, settings, timeout_s)
    await device._open()
    return device


class AsyncDevice(Known):
    """As `Device`, with coroutines; made by `open_device`."""

    def __init__(self, endpoint: str, settings: SessionSettings | None, timeout_s: float) -> None:
        super().__init__(endpoint, settings, timeout_s)
        self._line: _Line | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()

    async def _open(self) -> None:
        endpoint = endpoint_of(self.endpoint)
        host, port = endpoint.host_port()
        loop = asyncio.get_running_loop()
        try:
            if endpoint.protocol == "tcp":
                _, stream = await loop.create_connection(lambda: _Stream(self), host, port)
                self._line = stream
            else:
                _, datagrams = await loop.create_datagram_endpoint(
                    lambda: _Datagrams(self), remote_addr=(host, port)
                )
                self._line = datagrams
        except OSError as error:
            raise LinkError(f"connect to {self.endpoint}: {error.strerror or error}") from error
        self.client.open(time.monotonic_ns())
        try:
            await self._wait(lambda: self._events.opened is not None, "an answer")
        except BaseException:
            self._give_up()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Declarations.

    async def resource(self, name: str, properties: Iterable[Property] = ()) -> int:
        """Name a resource; the id to write to. What is written is sent, whoever reads it."""
        rid = self.client.resource(name, properties)
        await self._commit()
        return rid

    async def publisher(self, name: str, properties: Iterable[Property] = ()) -> int:
        """Name a resource and say that it will be written; its id.

        What is written is sent only while somebody reads it, which the gateway tells: see
        `wait_matched`. The gateway reads what is to be kept, such as `/lab/t#transient`.

        Raises:
            RefusedError: The gateway does not take it.
        """
        rid = self.client.resource(name, properties)
        self.client.publisher(rid)
        await self._commit()
        return rid

    async def subscriber(
        self,
        name: str,
        *,
        pull: bool = False,
        window_ms: tuple[int, int, int] | None = None,
        properties: Iterable[Property] = (),
    ) -> int:
        """Subscribe to a resource, a pattern, or a selection `name?{predicate}`; its id.

        Raises:
            RefusedError: The gateway does not take it.
        """
        id_ = self._named(name)
        self.client.subscriber(id_, pull=pull, window_ms=window_ms, properties=properties)
        await self._commit()
        return id_

    async def forget(self, id_: int) -> None:
        """Release an id, and what was declared for it."""
        self.client.forget(id_)
        await self._commit()

    # Data.

    async def wait_matched(self, id_: int) -> None:
        """Wait until somebody reads what a publisher writes.

        Raises:
            TimeoutError: Nobody does.
        """
        await self._wait(lambda: self.is_matched(id_), "a reader")

    async def write(self, id_: int, payload: bytes, *, reliable: bool = True) -> None:
        """Write a sample under an id; waits while the window is full.

        What is longer than the window goes on its way while other methods run: see `flush`.
        """
        await self._write(
            lambda: self.client.write(id_, payload, time.monotonic_ns(), reliable=reliable)
        )

    async def write_to(self, name: str, payload: bytes, *, reliable: bool = True) -> None:
        """Write a sample under a name, which needs no declaration."""
        await self._write(
            lambda: self.client.write_to(name, payload, time.monotonic_ns(), reliable=reliable)
        )

    async def pull(self, id_: int, max_samples: int | None = None) -> list[Received]:
        """Fetch samples that wait for a subscriber, or what is at rest of a resource."""
        events = self._events
        events.pulls_ended.discard(id_)
        await self._write(
            lambda: self.client.pull(id_, time.monotonic_ns(), max_samples=max_samples)
        )
        await self._wait(lambda: id_ in events.pulls_ended, "the end of the answer")
        return events.pulled(id_)

    async def receive(self) -> Received:
        """The next sample.

        Raises:
            ClosedError: The session ended.
        """
        while not self._events.samples:
            self._events.check()
            await self._turn()
        return self._events.samples.popleft()

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Samples as they come, until the session ends."""
        while self._events.samples or self._events.ended is None:
            if self._events.samples:
                yield self._events.samples.popleft()
            else:
                await self._turn()

    async def flush(self) -> None:
        """Wait until the gateway has acknowledged all that is reliable.

        Raises:
            TimeoutError: It did not.
        """
        await self._wait(lambda: not self.client.unacknowledged_count, "acknowledgements")

    async def close(self) -> None:
        """End the session in order. Legal twice."""
        if self.is_open:
            self.client.close(time.monotonic_ns())
            self.pump()
            try:
                async with asyncio.timeout(_CLOSE_S):
                    while self._events.ended is None:
                        await self._turn()
            except TimeoutError:
                pass  # it is gone already
        self._give_up()

    # The passing of time, told by the loop.

    def received(self, frame: bytes) -> None:
        """A frame came."""
        self.client.receive(frame, time.monotonic_ns())
        self.pump()
        self._news.set()  # the window may have moved on

    def lost(self, reason: str) -> None:
        """The connection ended."""
        if self._events.ended is None:
            self._events.ended = Ended(0, reason)
        self._news.set()

    def pump(self) -> None:
        """Send what is to be sent, note what happened, and be woken when something is due."""
        now_ns = time.monotonic_ns()
        due_ns = self.client.next_timer_ns()
        if due_ns is not None and due_ns <= now_ns:
            self.client.handle_timer(now_ns)
        if self._line is not None:
            for frame in self.client.data_to_send(now_ns):
                self._line.send(frame)
        while (event := self.client.next_event()) is not None:
            self._events.take(event)
            self._news.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self.client.next_timer_ns()
        if due_ns is not None and self._events.ended is None:
            delay_s = max(due_ns - now_ns, 0) / _SECOND_NS
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.pump)

    async def _turn(self) -> None:
        self._news.clear()
        self.pump()
        await self._news.wait()

    async def _commit(self) -> None:
        self._events.settled.clear()
        self.client.commit()
        await self._wait(lambda: bool(self._events.settled), "the answer to what was declared")
        self._events.check_settled()

    async def _write(self, write: Callable[[], bool]) -> None:
        self._events.check()
        if not write():
            await self._wait(write, "room in the window")
        self.pump()

    async def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                self.pump()
                while not condition():
                    self._events.check()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise self._late(what) from None

    def _give_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line is not None:
            self._line.close()


class _Datagrams(asyncio.DatagramProtocol):
    """The socket of a device by UDP."""

    def __init__(self, device: AsyncDevice) -> None:
        self._device = device
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The loop's own kind inherits nothing of that name.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data:
            self._device.received(data)

    def error_received(self, exc: Exception) -> None:
        """Nobody is there now; frames that matter are sent again."""

    def send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.sendto(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Stream(asyncio.Protocol):
    """The socket of a device by TCP."""

    def __init__(self, device: AsyncDevice) -> None:
        self._device = device
        self._stream = FrameStream()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._stream.receive(data)
        try:
            while (frame := self._stream.next_frame()) is not None:
                self._device.received(frame)
        except DecodeError as error:
            self._device.lost(f"{self._device.endpoint} does not speak XRCE: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._device.lost(f"{self._device.endpoint} ended the connection")

    def send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame_prefix(frame) + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


_Line = _Datagrams | _Stream

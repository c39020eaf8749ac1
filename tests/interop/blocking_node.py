"""The smallest node that can talk: one blocking socket around the sans-IO transport."""

from __future__ import annotations

import queue
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from tests.pairs import Collector, seeded

from elea.transport.batching_hot import SENT
from elea.transport.cookie import CookieJar
from elea.transport.handshake import Acceptor, Failure, Opener, State
from elea.transport.negotiation import Agreed, Offer
from elea.transport.unicast import Transport, adapt_stream
from elea.wire.codec_hot import NetworkMessage
from elea.wire.framing import StreamDecoder, frame
from elea.wire.transport.close import CloseReason

LINK = 1
WAIT_S = 10
_READ_LEN = 1 << 20


class RefusedError(Exception):
    """The handshake failed; `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass
class Node:
    """An established transport on a socket."""

    sock: socket.socket
    stream: StreamDecoder
    transport: Transport
    sink: Collector = field(default_factory=Collector)
    closed: bool = False

    @classmethod
    def dial(cls, port: int, offer: Offer) -> Self:
        """Open a transport to a listener on loopback."""
        sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        return cls._establish(sock, Opener(offer, time.monotonic_ns()))

    @classmethod
    def accept(cls, listener: socket.socket, offer: Offer) -> Self:
        """Take the next connection of a listener."""
        listener.settimeout(WAIT_S)
        sock, address = listener.accept()
        jar = CookieJar(seeded())
        return cls._establish(sock, Acceptor(offer, jar, str(address), time.monotonic_ns()))

    @classmethod
    def _establish(cls, sock: socket.socket, side: Opener | Acceptor) -> Self:
        sock.settimeout(WAIT_S)
        stream = StreamDecoder()
        try:
            agreed = _shake(sock, stream, side)
        except BaseException:
            sock.close()
            raise
        adapt_stream(stream, agreed)
        transport = Transport(agreed)
        transport.add_link(LINK, agreed, time.monotonic_ns())
        return cls(sock, stream, transport)

    def send(self, message: NetworkMessage, *, reliable: bool = True) -> None:
        """Send one message, now."""
        assert self.transport.send(message, reliable, time.monotonic_ns()) == SENT
        self.flush()

    def flush(self) -> None:
        while (batch := self.transport.pull(LINK, time.monotonic_ns())) is not None:
            self.sock.sendall(batch)

    def run_until(self, reached: Callable[[], bool], wait_s: float = WAIT_S) -> None:
        """Read, deliver and keep alive until something is the case."""
        end = time.monotonic() + wait_s
        while not reached():
            left = end - time.monotonic()
            assert left > 0, "it did not happen in time"
            timer_ns = self.transport.next_timer_ns()
            pause = 0.02 if timer_ns is None else (timer_ns - time.monotonic_ns()) / 1e9
            readable, _, _ = select.select([self.sock], [], [], min(max(pause, 0), 0.02))
            if readable:
                self._read()
            self.transport.handle_timer(time.monotonic_ns())
            self.flush()

    def close(self) -> None:
        """Say goodbye."""
        self.transport.close(CloseReason.GENERIC, time.monotonic_ns())
        self.flush()
        self.sock.close()

    def _read(self) -> None:
        data = self.sock.recv(_READ_LEN)
        self.closed = self.closed or not data
        self.stream.feed(data)
        while not self.closed and (batch := self.stream.next_batch()) is not None:
            now_ns = time.monotonic_ns()
            self.closed = bool(self.transport.receive_batch(LINK, batch, now_ns, self.sink))


def _shake(sock: socket.socket, stream: StreamDecoder, side: Opener | Acceptor) -> Agreed:
    while True:
        now_ns = time.monotonic_ns()
        if isinstance(side, Opener) and side.state is State.PEER_KNOWN:
            side.proceed(now_ns)
        if isinstance(side, Acceptor) and side.state is State.ADMITTING:
            side.admit(now_ns)
        for batch in side.outgoing():
            sock.sendall(frame(batch))
        if side.failure is not None:
            raise RefusedError(side.failure)
        if side.agreed is not None:
            return side.agreed
        side.receive_batch(_next_batch(sock, stream), time.monotonic_ns())


def _next_batch(sock: socket.socket, stream: StreamDecoder) -> bytes:
    while True:
        batch = stream.next_batch()
        if batch is not None:
            return batch
        data = sock.recv(_READ_LEN)
        if not data:
            raise RefusedError(Failure("the link ended", None, by_peer=True))
        stream.feed(data)


def drain(got: queue.SimpleQueue[bytes], count: int) -> list[bytes]:
    """The next `count` payloads that a callback queued."""
    return [got.get(timeout=WAIT_S) for _ in range(count)]

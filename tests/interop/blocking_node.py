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

from elea.answers import SENT
from elea.limits import DEFAULT_LIMITS
from elea.transport.cookie import CookieJar
from elea.transport.handshake import Acceptor, Failure, Opener, State
from elea.transport.negotiation import Agreed, Offer
from elea.transport.unicast import Transport, adapt_stream
from elea.wire.codec import NetworkMessage
from elea.wire.framing import StreamDecoder, frame
from elea.wire.transport.close import CloseReason

WAIT_S = 10
_READ_LEN = 1 << 20


class RefusedError(Exception):
    """The handshake failed; `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass
class Node:
    """An established transport, on one socket or more."""

    transport: Transport
    sink: Collector = field(default_factory=Collector)
    links: dict[int, tuple[socket.socket, StreamDecoder]] = field(default_factory=dict)

    @classmethod
    def dial(cls, port: int, offer: Offer) -> Self:
        """Open a transport to a listener on loopback."""
        link = dial(port, offer)
        node = cls(Transport(link[2]))
        node.add(link)
        return node

    @classmethod
    def accept(cls, listener: socket.socket, offer: Offer) -> Self:
        """Take the next connection of a listener."""
        link = accept(listener, offer)
        node = cls(Transport(link[2]))
        node.add(link)
        return node

    def add(self, link: Link) -> int:
        """Let a link join; its number."""
        sock, stream, agreed = link
        assert agreed.joins(self.transport.agreed) or not self.links
        link_id = max(self.links, default=0) + 1
        adapt_stream(stream, agreed, DEFAULT_LIMITS)
        self.links[link_id] = sock, stream
        self.transport.add_link(link_id, agreed, time.monotonic_ns())
        return link_id

    def drop(self, link_id: int) -> None:
        """Lose a link without a word."""
        sock, _ = self.links.pop(link_id)
        sock.close()
        self.transport.remove_link(link_id, "dropped by the test")

    def send(self, message: NetworkMessage, *, reliable: bool = True) -> None:
        """Send one message, now."""
        assert self.transport.send(message, reliable, time.monotonic_ns()) == SENT
        self.flush()

    def flush(self) -> None:
        for link_id, (sock, _) in self.links.items():
            while (batch := self.transport.pull(link_id, time.monotonic_ns())) is not None:
                sock.sendall(batch)

    def run_until(self, reached: Callable[[], bool], wait_s: float = WAIT_S) -> None:
        """Read, deliver and keep alive until something is the case."""
        end = time.monotonic() + wait_s
        while not reached():
            assert time.monotonic() < end, "it did not happen in time"
            sockets = {sock: link_id for link_id, (sock, _) in self.links.items()}
            readable, _, _ = select.select(list(sockets), [], [], 0.02)
            for sock in readable:
                self._read(sockets[sock])
            self.transport.handle_timer(time.monotonic_ns())
            self.flush()

    @property
    def closed(self) -> bool:
        """Whether the peer is gone."""
        return self.transport.closed

    def close(self) -> None:
        """Say goodbye."""
        self.transport.close(CloseReason.GENERIC, time.monotonic_ns())
        self.flush()
        self.release()

    def release(self) -> None:
        """Close the sockets."""
        for sock, _ in self.links.values():
            sock.close()

    def _read(self, link_id: int) -> None:
        sock, stream = self.links[link_id]
        data = sock.recv(_READ_LEN)
        if not data:
            self.drop(link_id)
            return
        stream.feed(data)
        while (batch := stream.next_batch()) is not None:
            now_ns = time.monotonic_ns()
            if self.transport.receive_batch(link_id, batch, now_ns, self.sink):
                sock.close()
                del self.links[link_id]
                return


Link = tuple[socket.socket, StreamDecoder, Agreed]


def dial(port: int, offer: Offer) -> Link:
    """A link to a listener on loopback, after its handshake."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    return _establish(sock, Opener(offer, time.monotonic_ns()))


def accept(listener: socket.socket, offer: Offer) -> Link:
    """The next link of a listener, after its handshake."""
    listener.settimeout(WAIT_S)
    sock, address = listener.accept()
    jar = CookieJar(seeded())
    return _establish(sock, Acceptor(offer, jar, str(address), time.monotonic_ns()))


def _establish(sock: socket.socket, side: Opener | Acceptor) -> Link:
    sock.settimeout(WAIT_S)
    stream = StreamDecoder()
    try:
        return sock, stream, _shake(sock, stream, side)
    except BaseException:
        sock.close()
        raise


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

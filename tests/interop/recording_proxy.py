"""A TCP proxy on loopback that keeps the octets of both directions in the order they passed.

It can also be what goes wrong: `cut` breaks a connection, `hold` lets nothing pass any more.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from elea.wire.conversation import Conversation, Direction, Seen
from elea.wire.framing import StreamDecoder

_READ_LEN = 65_536


@dataclass(slots=True)
class Passed:
    """Octets that passed in one direction of one connection."""

    connection: int
    direction: Direction
    data: bytes


@dataclass
class RecordingProxy:
    """Forwards every connection to `target_port` and records it."""

    target_port: int
    passed: list[Passed] = field(default_factory=list)
    refused: int = 0  # connections that nobody took at the other end
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)
    _count: int = 0
    _open: dict[int, tuple[socket.socket, socket.socket]] = field(default_factory=dict)
    _passing: threading.Event = field(default_factory=threading.Event)
    _refusing: bool = False

    def __post_init__(self) -> None:
        self._passing.set()

    @property
    def endpoint(self) -> str:
        """Where the proxy listens."""
        return f"tcp/127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._count

    def cut(self, connection: int) -> None:
        """Break a connection: both ends see a reset."""
        with self._lock:
            ends = self._open.pop(connection)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # The pump of this direction may be inside recv(): shutdown wakes it, close resets.
            try:
                end.shutdown(socket.SHUT_RD)
            except OSError:
                continue  # gone already
        for end in ends:
            end.close()

    def hold(self) -> None:
        """Let nothing pass any more, and keep everything open: the ends hear silence."""
        self._passing.clear()

    def release(self) -> None:
        """Let pass again, what was held first."""
        self._passing.set()

    def refuse(self) -> None:
        """Close every further connection at once."""
        self._refusing = True

    def admit(self) -> None:
        """Take connections again."""
        self._refusing = False

    def said(self, direction: Direction, connection: int = 0) -> list[dict[str, Any]]:
        """The messages of one direction in their order; those of FRAMEs stand in its place."""
        with self._lock:
            passed = [one for one in self.passed if one.connection == connection]
        found: list[dict[str, Any]] = []
        for where, _, seen in follow(passed):
            if where.direction is direction:
                found += _messages(seen.tree)
        return found

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._passing.set()
        # A blocked accept() does not notice close(); shutdown() wakes it on Linux.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already
        for thread in self._threads:
            thread.join(timeout=10)
        for one in sockets:
            one.close()

    def _start(self, target: object, *args: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # the proxy is closing
            if self._refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                self.refused += 1
                near.close()  # as if nobody listened here
                continue
            with self._lock:
                self._sockets += [near, far]
                connection = self._count
                self._count += 1
                self._open[connection] = near, far
            self._start(self._pump, near, far, connection, Direction.INITIATOR)
            self._start(self._pump, far, near, connection, Direction.ACCEPTOR)

    def _pump(
        self, source: socket.socket, sink: socket.socket, connection: int, direction: Direction
    ) -> None:
        try:
            while data := source.recv(_READ_LEN):
                # Recorded before it is forwarded: an answer can never be recorded before its cause.
                with self._lock:
                    self.passed.append(Passed(connection, direction, data))
                self._passing.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one end is gone; what passed is recorded


def follow(passed: list[Passed]) -> Iterator[tuple[Passed, bytes, Seen]]:
    """Cut what passed into batches and decode them, in order."""
    talks: dict[int, Conversation] = {}
    streams: dict[tuple[int, Direction], StreamDecoder] = {}
    for one in passed:
        talk = talks.setdefault(one.connection, Conversation())
        stream = streams.setdefault((one.connection, one.direction), StreamDecoder())
        stream.feed(one.data)
        while True:
            stream.low_latency = talk.low_latency(one.direction)
            if stream.low_latency and stream.pending == 4 and one.data.endswith(b"\x02\0\x03\0"):
                break  # the second CLOSE that Eclipse sends with a u16 prefix (wire.md 3.4)
            batch = stream.next_batch()
            if batch is None:
                break
            yield one, batch, talk.batch(batch, one.direction)


def _messages(batch: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in batch["messages"]:
        inner = message.get("payload")
        found += inner if isinstance(inner, list) else [message]
    return found

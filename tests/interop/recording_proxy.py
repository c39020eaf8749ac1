"""A TCP proxy on loopback that keeps the octets of both directions in the order they passed."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from elea.wire.conversation import Direction

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
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)
    _count: int = 0

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
            far = socket.create_connection(("127.0.0.1", self.target_port))
            with self._lock:
                self._sockets += [near, far]
                connection = self._count
                self._count += 1
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
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one end is gone; what passed is recorded

"""Links over a stream socket: what tcp, unixsock-stream and memory share."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from elea.errors import LinkError
from elea.link.address import SocketAddress
from elea.link.base import READ, WRITE, Buffer, Callback, Link, LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings
from elea.locator import Locator

# The most buffers one call of sendmsg takes; POSIX promises 16, Linux has 1024.
_BUFFERS_COUNT_MAX: Final = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16

_DRAIN_LEN: Final = 65_536
_DRAIN_COUNT: Final = 64  # reads of a socket that is closed: more than its buffer holds by default


class StreamLink:
    """A connected stream socket.

    The bound methods of the socket are kept because `read` and `write` are called per batch.
    """

    __slots__ = ("_recv", "_send", "_sendmsg", "_socket", "info")

    def __init__(self, sock: socket.socket, info: LinkInfo) -> None:
        sock.setblocking(False)
        self.info = info
        self._socket = sock
        self._recv = sock.recv
        self._send = sock.send
        self._sendmsg = sock.sendmsg if hasattr(sock, "sendmsg") else _joined(sock)

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self, writing: bool) -> int:
        return READ | WRITE if writing else READ

    def read(self, limit: int) -> bytes | None:
        try:
            return self._recv(limit)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise link_error(f"read from {self.info.remote}", error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        try:
            if len(buffers) == 1:
                return self._send(buffers[0])
            return self._sendmsg(buffers[:_BUFFERS_COUNT_MAX]) if buffers else 0
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise link_error(f"write to {self.info.remote}", error) from error

    def part(self) -> bool:
        return shut(self._socket)

    def is_over(self) -> bool:
        return drop_arrived(self._socket)

    def close(self) -> None:
        leave(self._socket)

    def abort(self) -> None:
        self._socket.close()


class PlainListener:
    """What a listener does that is only ever watched for newcomers and has no certificates."""

    def wants(self) -> int:
        return READ

    def notify(self, changed: Callback) -> None:
        """`wants` never changes."""

    def writable(self) -> None:
        """Nothing is ever written to it."""

    def reload(self, settings: LinkSettings) -> None:
        """There is nothing to read again."""


class Outbox:
    """Octets that a layer above a descriptor has made and the descriptor has not taken."""

    __slots__ = ("_send", "unsent")

    def __init__(self, send: Callable[[bytes], int]) -> None:
        self._send = send
        self.unsent = b""

    def send(self, data: bytes = b"") -> None:
        """Give the descriptor what waits, and this after it, as far as it takes it.

        Raises:
            OSError: if it broke.
        """
        if self.unsent:
            data = self.unsent + data
        if not data:
            return
        try:
            sent = self._send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self.unsent = data[sent:]


class Ready:
    """A PendingLink that needs no more than one step."""

    __slots__ = ("_link", "source")

    def __init__(self, link: Link, source: str) -> None:
        self._link = link
        self.source = source

    def fileno(self) -> int:
        return -1

    def wants(self) -> int:
        return 0

    def step(self) -> Link:
        return self._link

    def close(self) -> None:
        self._link.close()


class Connecting:
    """A PendingLink whose stream socket is on its way.

    Args:
        sock: a socket that does not block, before `connect`.
        sockaddr: where to.
        remote: the same, for messages.
        source: the same, as an address.
        finish: called once when it is connected; what it gives takes over from there.
        of_scheme: what to do about an error, where the scheme knows better.

    Raises:
        LinkError: if the connection is refused at once.
    """

    __slots__ = ("_connected", "_finish", "_next", "_of_scheme", "_remote", "_socket", "source")

    def __init__(
        self,
        sock: socket.socket,
        sockaddr: SocketAddress | tuple[int, int],
        remote: Locator,
        source: str,
        finish: Callable[[socket.socket], PendingLink],
        *,
        of_scheme: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._of_scheme = of_scheme
        self._socket = sock
        self._remote = remote
        self._finish = finish
        self._next: PendingLink | None = None
        self.source = source
        try:
            sock.connect(sockaddr)
            self._connected = True
        except OSError as error:
            # In progress is the usual case. EAGAIN is not: a local listener's queue is full.
            if error.errno not in (errno.EINPROGRESS, errno.EINTR):
                sock.close()
                raise self._failed(error) from error
            self._connected = False

    def fileno(self) -> int:
        if self._next is not None:
            return self._next.fileno()
        return -1 if self._connected else self._socket.fileno()

    def wants(self) -> int:
        return WRITE if self._next is None else self._next.wants()

    def step(self) -> Link | None:
        if self._next is None:
            try:
                if not self._connected and not self._arrived():
                    return None
                self._next = self._finish(self._socket)
            except OSError as error:
                raise self._failed(error) from error
        return self._next.step()

    def close(self) -> None:
        if self._next is not None:
            self._next.close()
        self._socket.close()

    def _arrived(self) -> bool:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        try:
            self._socket.getpeername()
        except OSError:
            return False  # woken, but still on its way
        return True

    def _failed(self, error: OSError) -> LinkError:
        if isinstance(error, LinkError):
            return error
        return link_error(f"connect to {self._remote}", error, self._of_scheme)


def shut(sock: socket.socket) -> bool:
    """Write no more; whether the peer may still be there to read what was written."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:  # gone already
        return False
    return True


def drop_arrived(sock: socket.socket) -> bool:
    """Read what has arrived, and drop it; whether that was the end, or an error."""
    try:
        for _ in range(_DRAIN_COUNT):
            if not sock.recv(_DRAIN_LEN):
                return True
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
    return False


def leave(sock: socket.socket) -> None:
    """Close without waiting for the peer; unread bytes would reset what it has not read yet."""
    if shut(sock):
        drop_arrived(sock)
    sock.close()


def _joined(sock: socket.socket) -> Callable[[Sequence[Buffer]], int]:
    """sendmsg where the platform has none."""
    return lambda buffers: sock.send(b"".join(buffers))

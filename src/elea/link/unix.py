"""unixsock-stream: stream sockets with a path in the file system. behaviour.md 1.1."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import stat
import struct
from typing import Final

from elea.limits import BATCH_LEN_MAX
from elea.link.address import Address
from elea.link.base import LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings, SocketOptions, flag_option, priorities_option
from elea.link.stream import Connecting, PlainListener, Ready, StreamLink
from elea.locator import Endpoint, Locator

_NAME: Final = "unixsock-stream"
_BACKLOG_COUNT: Final = 1_024
_NUMBERS: Final = itertools.count(1)
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


class UnixStream:
    """The scheme `unixsock-stream`; the address is a path."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return [Address(socket.AF_UNIX, endpoint.address)]

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        remote = address.locator(_NAME)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        _tune(sock, endpoint, settings)
        return Connecting(
            sock,
            address.sockaddr,
            remote,
            "unix",
            lambda made: Ready(StreamLink(made, _info(endpoint, _unnamed(), remote)), "unix"),
        )

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> UnixListener:
        return UnixListener(endpoint, address, settings)


class UnixListener(PlainListener):
    """A socket at a path, which is removed when it is closed."""

    def __init__(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> None:
        self.locator = address.locator(_NAME)
        self._endpoint = endpoint
        self._settings = settings
        self._path = address.host
        try:
            self._socket = _bound(self._path)
            self._identity = _identity(self._path)
        except OSError as error:
            raise link_error(f"listen on {self.locator}", error) from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> PendingLink | None:
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            raise link_error(f"accept on {self.locator}", error) from error
        _tune(sock, self._endpoint, self._settings)
        info = _info(self._endpoint, self.locator, _unnamed())
        return Ready(StreamLink(sock, info), _user_of(sock))

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        # Somebody else may have put his own socket there meanwhile.
        if _identity(self._path) == self._identity:
            os.unlink(self._path)
        self._socket.close()

    def abort(self) -> None:
        self._socket.close()


def _bound(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        try:
            sock.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _abandoned(path):
                raise
            os.unlink(path)
            sock.bind(path)
        sock.listen(_BACKLOG_COUNT)
    except OSError:
        sock.close()
        raise
    return sock


def _abandoned(path: str) -> bool:
    """Whether a socket file is left of a process that is gone."""
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _tune(sock: socket.socket, endpoint: Endpoint, settings: LinkSettings) -> None:
    options = SocketOptions.of(endpoint, settings)
    if options.so_sndbuf is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.so_sndbuf)
    if options.so_rcvbuf is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.so_rcvbuf)


def _unnamed() -> Locator:
    """The connecting end has no path; a number tells one from another."""
    return Locator(f"{_NAME}/unnamed-{os.getpid()}-{next(_NUMBERS)}")


def _user_of(sock: socket.socket) -> str:
    """Who connects, for admission: the user where the system tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return "unix"
    found = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return f"unix user {_CREDENTIALS.unpack(found)[1]}"


def _info(endpoint: Endpoint, local: Locator, remote: Locator) -> LinkInfo:
    reliable = flag_option(endpoint, "rel")
    return LinkInfo(
        scheme=_NAME,
        local=local,
        remote=remote,
        stream=True,
        reliable=True if reliable is None else reliable,
        batch_len_max=BATCH_LEN_MAX,
        priorities=priorities_option(endpoint),
    )

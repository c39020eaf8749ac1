"""memory: two ends inside one process, for tests and for sessions that share a process.

The ends are a socket pair, so that they are watched, fill up and end like any other link. A
listener is found by its name, in this process only.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections import deque
from typing import Final

from elea.errors import LinkError
from elea.limits import BATCH_LEN_MAX
from elea.link.address import Address
from elea.link.base import LinkInfo, PendingLink
from elea.link.settings import LinkSettings
from elea.link.stream import PlainListener, Ready, StreamLink
from elea.locator import Endpoint, Locator

_WAITING_COUNT_MAX: Final = 128  # connections that a listener has not taken yet


class Memory:
    """The scheme `memory`; the address is a name, or `0` for a free one."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return [Address(0, endpoint.address)]

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        with _LOCK:
            listener = _LISTENERS.get(address.host)
        if listener is None:
            raise LinkError(
                f"connect to {endpoint.locator()}: no listener of that name in this process"
            )
        near = Locator(f"memory/{address.host}.{next(_NUMBERS)}")
        one, other = memory_pair(near, listener.locator)
        try:
            listener.knock(other)
        except LinkError:
            one.abort()
            raise
        return Ready(one, "memory")

    def listen(
        self, endpoint: Endpoint, address: Address, settings: LinkSettings
    ) -> MemoryListener:
        return MemoryListener(address.host)


class MemoryListener(PlainListener):
    """A name in this process."""

    def __init__(self, name: str) -> None:
        # A waiting connection makes this pair readable, as it makes a listening socket readable.
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._waiting: deque[StreamLink] = deque()
        with _LOCK:
            if name == "0":
                name = f"listener-{next(_NUMBERS)}"
            if name in _LISTENERS:
                self._bell.close()
                self._ear.close()
                raise LinkError(f"listen on memory/{name}: the name is taken; choose another")
            _LISTENERS[name] = self
        self._name = name
        self.locator = Locator(f"memory/{name}")

    def knock(self, link: StreamLink) -> None:
        """A connection arrives.

        Raises:
            LinkError: if too many wait already, or the listener is closed.
        """
        with _LOCK:
            if _LISTENERS.get(self._name) is not self or len(self._waiting) >= _WAITING_COUNT_MAX:
                link.abort()
                raise LinkError(f"connect to {self.locator}: it takes no more; try again")
            self._waiting.append(link)
            self._bell.send(b"\0")

    def fileno(self) -> int:
        return self._ear.fileno()

    def accept(self) -> PendingLink | None:
        with _LOCK:
            if not self._waiting:
                return None
            self._ear.recv(1)
            return Ready(self._waiting.popleft(), "memory")

    def close(self) -> None:
        with _LOCK:
            if _LISTENERS.get(self._name) is self:
                del _LISTENERS[self._name]
            waiting, self._waiting = self._waiting, deque()
            self._bell.close()
            self._ear.close()
        for link in waiting:
            link.close()

    def abort(self) -> None:
        _LISTENERS.pop(self._name, None)  # in the child; without the lock, which may be held
        self._bell.close()
        self._ear.close()


def memory_pair(one: Locator, other: Locator) -> tuple[StreamLink, StreamLink]:
    """Two links that are each other's other end.

    Example:
        >>> left, right = memory_pair(Locator("memory/a"), Locator("memory/b"))
        >>> left.write([b"hello, ", b"world"]), right.read(100)
        (12, b'hello, world')
        >>> left.close(), right.read(100)
        (None, b'')
        >>> right.close()
    """
    left, right = socket.socketpair()
    return StreamLink(left, _info(one, other)), StreamLink(right, _info(other, one))


def _info(local: Locator, remote: Locator) -> LinkInfo:
    return LinkInfo(
        scheme="memory",
        local=local,
        remote=remote,
        stream=True,
        reliable=True,
        batch_len_max=BATCH_LEN_MAX,
    )


_LOCK: Final = threading.Lock()
_LISTENERS: Final[dict[str, MemoryListener]] = {}
_NUMBERS: Final = itertools.count(1)

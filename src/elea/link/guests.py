"""Guests: connections at a TCP listener that speak XRCE, told apart by their first two octets.

A Zenoh connection begins with the length of its first batch in two octets, the low one first. That
batch is an INIT, shorter than 256 octets, so the second octet is 0 and the first is not. A stream
of XRCE begins with the length of a frame, seven bits per octet, and the header of a message, which
is never 0; or with 0, for messages without lengths (docs/spec/xrce.md 18.4).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from elea.errors import LinkError
from elea.link.base import READ, Link
from elea.link.failure import link_error

_LOOK_LEN: Final = 2

Take = Callable[[socket.socket, str], None]


class GuestError(LinkError):
    """It is no connection for this node: `take` gives its socket to who wants it."""

    def __init__(self, take: Callable[[], None], source: str) -> None:
        super().__init__(f"{source} does not speak Zenoh")
        self.take = take


class Guests:
    """Who takes connections that do not speak Zenoh: nobody, until `take` is set.

    It is called on the poller, with the socket, which is its own from there on, and the source.
    """

    __slots__ = ("take",)

    def __init__(self) -> None:
        self.take: Take | None = None


def is_guest(first: bytes) -> bool:
    """Whether a stream that begins with these two octets is no Zenoh connection.

    Example:
        >>> is_guest(b"\\x1a\\x00"), is_guest(b"\\x08\\x03"), is_guest(b"\\x00\\x03")
        (False, True, True)
    """
    return first[0] == 0 or first[1] != 0


class Sorting:
    """A PendingLink that looks at the first octets, and leaves them where they are.

    Args:
        sock: Of the newcomer; it does not block.
        source: Its address.
        take: Who takes guests.
        finish: The link of somebody who is none.
    """

    __slots__ = ("_finish", "_socket", "_take", "source")

    def __init__(
        self, sock: socket.socket, source: str, take: Take, finish: Callable[[], Link]
    ) -> None:
        self.source = source
        self._socket = sock
        self._take = take
        self._finish = finish
        self._wait_for(_LOOK_LEN)

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self) -> int:
        return READ

    def step(self) -> Link | None:
        try:
            first = self._socket.recv(_LOOK_LEN, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise link_error(f"read from {self.source}", error) from error
        if not first:
            raise LinkError(f"{self.source} went before it said anything")
        if len(first) < _LOOK_LEN:
            return None
        self._wait_for(1)
        if is_guest(first):
            raise GuestError(lambda: self._take(self._socket, self.source), self.source)
        return self._finish()

    def close(self) -> None:
        self._socket.close()

    def _wait_for(self, octets_count: int) -> None:
        """Be woken by so many octets, so that one alone does not keep the loop busy."""
        with suppress(OSError):  # a system without it looks again and again, until the deadline
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, octets_count)

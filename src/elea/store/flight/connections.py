"""Connections of a listener of this process, cut from outside of the library that has them.

A gRPC server in Python can neither be told to end a call that nobody reads, nor to end without
waiting for it. So a reader that stands still could keep its place for ever, and a process from
ending. The sockets are those of this process, though.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import unquote

_OPEN_FILES: Final = "/dev/fd"

Address: TypeAlias = tuple[str, int]


def cut(port: int, peer: Address | None = None) -> int:
    """End connections that were accepted at a port: of one peer, or all; returns how many."""
    count = 0
    for one in _sockets():
        with one, suppress(OSError):  # not connected, or gone
            # By its names, so that nothing else is met if a number has a new owner by now.
            if one.getsockname()[1] != port:
                continue
            host, other_port = one.getpeername()[:2]
            if peer is None or (_plain(host), other_port) == peer:
                one.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def peer_of(text: str) -> Address | None:
    """The address in gRPC's word for it: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`.

    Example:
        >>> peer_of("ipv6:%5B::1%5D:5000"), peer_of("unix:")
        (('::1', 5000), None)
    """
    family, _, rest = unquote(text).partition(":")
    host, _, port = rest.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """An IPv4 address as such, also if it was reached through IPv6."""
    address = ipaddress.ip_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _sockets() -> Iterator[socket.socket]:
    """The TCP sockets of this process, each under a number of its own."""
    with suppress(OSError):  # a system without such a directory
        for name in os.listdir(_OPEN_FILES):
            with suppress(OSError):  # closed meanwhile
                if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    continue
                found = socket.socket(fileno=os.dup(int(name)))
                if found.family in (socket.AF_INET, socket.AF_INET6):
                    yield found
                else:
                    found.close()

"""Datagrams that the host dropped before DDS read them, where Linux tells (dds.md 22).

A burst that comes faster than the library's threads get to run does not fit the buffers of its
sockets. What is reliable is sent again; what is not is lost, and DDS does not notice.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_TABLES: Final = ("/proc/net/udp", "/proc/net/udp6")
_OWN: Final = "/proc/self/fd"
_INODE: Final = 9  # columns of a table
_DROPS: Final = 12


def own_sockets() -> frozenset[str]:
    """Return the inodes of the sockets of this process; none where that cannot be told."""
    found = set()
    with suppress(OSError):
        for name in os.listdir(_OWN):
            with suppress(OSError):  # it may be closed meanwhile
                target = os.readlink(f"{_OWN}/{name}")
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return frozenset(found)


def dropped_datagrams(inodes: frozenset[str]) -> int:
    """Return how many datagrams these sockets had no room for since they were opened."""
    total = 0
    for table in _TABLES:
        with suppress(OSError), open(table, encoding="ascii") as file:
            for line in file:
                columns = line.split()
                if len(columns) > _DROPS and columns[_INODE] in inodes:
                    total += int(columns[_DROPS])
    return total

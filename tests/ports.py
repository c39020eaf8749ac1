"""Ports of loopback for tests, which run several at a time."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below those that systems give to whoever connects: a port that is free stays so until it is used.
_FIRST: Final = 12_000
_COUNT: Final = 20_000


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that nobody uses, for somebody who will."""
    chosen = random.SystemRandom()  # each of the processes that test draws others
    while True:
        port = _FIRST + chosen.randrange(_COUNT)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

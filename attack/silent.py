"""T09: connections that say nothing, or one octet now and then, while others want in."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Final

from attack.harness import MIB, Check, Target

import elea

THREAT: Final = "T09"
RSS_GROWTH: Final = 64 * MIB
SIZES: Final = {"small": 150, "full": 2_000}
_DRIBBLE: Final = b"\x10"
_OPENS_COUNT: Final = 5


def attack(target: Target, size: int) -> list[Check]:
    """Keep connections open that go nowhere, and let others connect meanwhile."""
    opened_ms = []
    failed = 0
    with contextlib.ExitStack() as closing:
        silent = []
        for number in range(size):
            with contextlib.suppress(OSError):
                sock = closing.enter_context(socket.create_connection(("127.0.0.1", target.port)))
                silent.append(sock)
                if number % 3 == 0:
                    sock.send(_DRIBBLE)
        for _ in range(_OPENS_COUNT):
            for sock in silent[::7]:
                with contextlib.suppress(OSError):
                    sock.send(_DRIBBLE)
            begun_s = time.monotonic()
            try:
                target.session().close()
            except elea.ZError:
                failed += 1
            opened_ms.append((time.monotonic() - begun_s) * 1e3)
    refused = target.counter("elea_links_refused_total", reason="handshake")
    counted = refused >= size - 64 if target.peer == "elea" else True
    return [
        Check("opens_failed", failed, 0),
        Check("not_counted", float(not counted), 0),
        # From the same address; it may push the oldest of its own out.
        Check("open_ms", max(opened_ms), 1_000, timed=True),
    ]

"""The schemes the conformance suite runs for."""

from __future__ import annotations

import socket

from tests.link.rig import Case

from elea.link.memory import Memory
from elea.link.tcp import Tcp


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


TCP = Case("tcp v4", Tcp(), lambda _: "tcp/127.0.0.1:0")
TCP6 = Case("tcp v6", Tcp(), lambda _: "tcp/[::1]:0")
MEMORY = Case("memory", Memory(), lambda _: "memory/0")

STREAMS = [TCP, *([TCP6] if _has_ipv6() else []), MEMORY]
EVERY = [*STREAMS]
RESETTABLE = [TCP]

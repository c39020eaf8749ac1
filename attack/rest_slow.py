"""T54: HTTP connections that dribble, and readers of events that leave, while others are served."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import services

THREAT: Final = "T54"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 300, "full": 2_000}  # connections
SERVICES: Final = services
_SLOW: Final = (
    b"",
    b"GET /a HTTP/1.1\r\nX-Slow: ",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nx",
)
_EVENTS: Final = b"GET /** HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
_NOW: Final = struct.pack("ii", 1, 0)  # closing is a reset
_READERS: Final = 40
_STREAMS: Final = 80  # more than one address may have, and than there are
_OTHER: Final = "127.0.0.2"
_SAMPLES: Final = 2_000


def attack(target: Target, size: int) -> list[Check]:
    """Fill up all places, and ask now and then."""
    unserved = 0
    with contextlib.ExitStack() as closing:
        for number in range(size):
            with contextlib.suppress(OSError):
                sock = closing.enter_context(_connect(target))
                sock.sendall(_SLOW[number % len(_SLOW)])
            if number % 50 == 49:
                unserved += not _is_served(target)
    with target.session() as publisher:
        for _ in range(2):
            for _ in range(_READERS):
                with contextlib.suppress(OSError), _connect(target) as sock:
                    sock.sendall(_EVENTS)
                    sock.recv(1_000)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
            for _ in range(_SAMPLES):
                publisher.put("fleet/events", bytes(500))
    with contextlib.ExitStack() as closing:
        for _ in range(_STREAMS):
            sock = closing.enter_context(_connect(target))
            sock.sendall(_EVENTS)
            sock.recv(1_000)
        with _connect(target, _OTHER) as sock:
            sock.sendall(_EVENTS)
            locked_out = not sock.recv(1_000).startswith(b"HTTP/1.1 200")
    return [
        Check("locked_out_of_streams", float(locked_out), 0),
        Check("unserved", unserved, 0),
        Check("unserved_at_the_end", float(not until(lambda: _is_served(target))), 0),
        Check("log_lines", target.log_count("socket.send() raised exception"), 10),
    ]


def _connect(target: Target, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.http_port), 60, (source, 0))


def _is_served(target: Target) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", target.http_port, timeout=60)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

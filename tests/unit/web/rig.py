"""A service on loopback, beside a session of this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
from tests.unit.cli.ends import WAIT_S

import elea
from elea.limits import DEFAULT_LIMITS
from elea.web.service import Rest
from elea.web.settings import RestSettings

ALONE: Mapping[str, object] = {"mode": "peer", "listen": {"endpoints": []}}
EVENTS = {"accept": "text/event-stream"}


@dataclass
class Served:
    """What runs."""

    session: elea.Session
    rest: Rest
    http: httpx.Client

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.rest.url.rpartition("/")[2].rpartition(":")
        return host.strip("[]"), int(port)

    def says(self, key: str, payload: Any, **options: Any) -> elea.Queryable[None]:
        """Answer queries on a key."""

        def reply(query: elea.Query) -> None:
            query.reply(query.key_expr, payload, **options)

        return self.session.declare_queryable(key, reply)

    def count(self, name: str, **labels: str) -> float:
        """The value of one of the metrics."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        for line in self.http.get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(one in series for one in wanted):
                return float(value)
        return 0

    def connect(self, source: str = "") -> socket.socket:
        """A connection that the test speaks by itself, perhaps from another address of loopback."""
        return socket.create_connection(self.address, WAIT_S, (source, 0) if source else None)

    def subscribe(self, key: str) -> socket.socket:
        """A connection on which a subscription runs, and nothing of it was read but the start."""
        connection = self.connect()
        head = f"GET /{key} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        connection.sendall(head.encode())
        got = b""
        while b"\r\n\r\n" not in got:
            part = connection.recv(1)
            assert part, got
            got += part
        assert got.startswith(b"HTTP/1.1 200"), got
        return connection


@contextmanager
def served(**settings: Any) -> Iterator[Served]:
    """A service."""
    bounds = {
        name: settings.pop(name) for name in list(settings) if name.startswith(("ui_", "web_"))
    }
    chosen = RestSettings(**settings, limits=replace(DEFAULT_LIMITS, **bounds))
    with elea.open(dict(ALONE)) as session:
        rest = Rest(session, chosen)
        try:
            with httpx.Client(base_url=rest.url, timeout=WAIT_S, trust_env=False) as http:
                yield Served(session, rest, http)
        finally:
            rest.stop()


def closed(connection: socket.socket) -> bool:
    """Whether the other side ends it, in time."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    return True

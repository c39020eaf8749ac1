"""A page of a router in this process, and a browser's side of its live protocol."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.unit.cli.ends import WAIT_S
from tests.unit.daemon.rig import options, running
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from elea.daemon.daemon import Daemon
from elea.web.service import Rest, start

UI = "/@elea/ui"
PROTOCOL = "elea.live.v1"


@contextmanager
def paged(*cfg: str, **more: Any) -> Iterator[tuple[Daemon, str]]:
    """A router with a page, and where it is."""
    with running(options(*cfg, rest_http_port="0", **more), rest=start) as daemon:
        yield daemon, rest_of(daemon).url


def rest_of(daemon: Daemon) -> Rest:
    [rest] = [one.service for one in daemon.services if isinstance(one.service, Rest)]
    return rest


def ticket_of(url: str) -> str:
    answer = httpx.post(f"{url}{UI}/ticket", trust_env=False)
    assert answer.status_code == 200
    text: str = answer.json()["ticket"]
    return text


def opened(url: str, **more: Any) -> ClientConnection:
    """A WebSocket of a page of this router, which has said nothing yet."""
    given: dict[str, Any] = {"origin": url, "subprotocols": [PROTOCOL], **more}
    made: ClientConnection = connect(
        url.replace("http", "ws", 1) + f"{UI}/live", proxy=None, **given
    )
    return made


class Browser:
    """What a page asks and gets."""

    def __init__(self, url: str) -> None:
        self._socket = opened(url).__enter__()  # it is its own context
        self.say(hello=1, ticket=ticket_of(url))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_args: object) -> None:
        self._socket.close()

    def say(self, **message: Any) -> None:
        self._socket.send(json.dumps(message))

    def frame(self) -> dict[str, Any]:
        """The next frame, asked for."""
        self.say(next=1, seen=0)
        data = self._socket.recv(WAIT_S)
        assert isinstance(data, bytes)
        [length] = struct.unpack_from("<I", data)
        found: dict[str, Any] = json.loads(data[4 : 4 + length])
        return found

    def until(self, wanted: Any) -> dict[str, Any]:
        """The first part for which `wanted` is true."""
        for _ in range(500):
            for part in self.frame()["p"]:
                if wanted(part):
                    found: dict[str, Any] = part
                    return found
        raise AssertionError("no such part")

    def closed(self) -> int:
        """The code that the other side closes with."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self._socket.recv(WAIT_S)
        code = self._socket.close_code
        assert code is not None
        return code

    def is_silent(self, span_s: float) -> bool:
        """Whether nothing comes that was not asked for."""
        try:
            self._socket.recv(span_s)
        except TimeoutError:
            return True
        return False

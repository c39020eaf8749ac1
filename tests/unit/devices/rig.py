"""A router with a gateway in this process, and devices that are octets."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self, TypeVar

from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import options, running

import elea
from elea.daemon.daemon import Daemon
from elea.devices.service import XrceService
from elea.sample import Sample
from elea.session.handlers import Handler
from elea.session.session import Session
from elea.session.subscriber import Subscriber
from elea.xrce.encode import encode
from elea.xrce.framing import FrameStream, frame_prefix, read_frame
from elea.xrce.gateway.device import Device
from elea.xrce.message_records import Accept, Close, Message

M = TypeVar("M")
LEASE = 100  # tenths of a second
LISTEN = 'plugins/xrce/listen:["udp/127.0.0.1:0","tcp/127.0.0.1:0"]'
QUIET = "scouting/multicast/enabled:false"


@dataclass
class Served:
    """A router, and where devices may go."""

    daemon: Daemon
    service: XrceService
    udp: str
    tcp: str

    @property
    def shared(self) -> str:
        """Where Zenoh is spoken, too."""
        return self.daemon.locators()[0]

    @property
    def session(self) -> Session:
        return self.daemon.session

    @property
    def devices(self) -> dict[bytes, Device]:
        """Those that have a session."""
        return self.service._hub.gateway.devices

    def counts(self) -> dict[str, int]:
        return self.service._counts()

    def endpoint(self, name: str) -> str:
        return {"udp": self.udp, "tcp": self.tcp, "shared": self.shared}[name]


@contextmanager
def served(*cfg: str, **more: object) -> Iterator[Served]:
    """A router that serves devices."""
    with running(options(LISTEN, QUIET, *cfg, **more), xrce=XrceService) as daemon:
        [one] = daemon.services
        assert isinstance(one.service, XrceService)
        udp, tcp = one.service.locators
        yield Served(daemon, one.service, udp, tcp)


@contextmanager
def client_of(served: Served) -> Iterator[Session]:
    """A Zenoh client of the router."""
    config = {
        "mode": "client",
        "connect": {"endpoints": [served.shared]},
        "scouting": {"multicast": {"enabled": False}},
    }
    with elea.open(config) as session:
        yield session


def subscriber(served: Served, client: Session, key: str) -> Subscriber[Handler[Sample]]:
    """A subscriber of a client, once the router knows of it."""
    declared = client.declare_subscriber(key)
    with served.session.declare_publisher(key) as probe:
        assert eventually(lambda: probe.matching_status.matching)
    return declared


@dataclass
class Raw:
    """A device that says exactly what it is told to say."""

    endpoint: str
    lease: int = LEASE
    messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        scheme, _, address = self.endpoint.partition("/")
        host, _, port = address.rpartition(":")
        self._framed = scheme == "tcp"
        self._stream = FrameStream()
        kind = socket.SOCK_STREAM if self._framed else socket.SOCK_DGRAM
        self.sock = socket.socket(socket.AF_INET, kind)
        self.sock.connect((host, int(port)))
        self.ended = False
        self.pid = secrets.token_bytes(4)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.sock.close()

    @property
    def hello(self) -> bytes:
        """Its Open: version 1, its pid and lease, no locators, no properties (7.3)."""
        return b"\x03\x01\x04" + self.pid + bytes((self.lease, 0))

    def open(self) -> Accept:
        """Have a session."""
        self.say(self.hello)
        return self.expect(Accept)

    def close(self) -> None:
        """End it, without waiting for the answer."""
        self.say(Close(pid=self.pid, reason=0))

    def say(self, *said: Message | bytes) -> None:
        """All of it in one frame."""
        frame = b"".join(one if isinstance(one, bytes) else encode(one) for one in said)
        self.octets(frame_prefix(frame) + frame if self._framed else frame)

    def octets(self, data: bytes) -> None:
        self.sock.sendall(data)

    def hear(self, wait_s: float) -> None:
        """What has come, waiting for it."""
        self.sock.settimeout(wait_s)
        try:
            data = self.sock.recv(65_536)
        except TimeoutError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.ended = True
            return
        self._stream.receive(data)
        frames = iter(self._stream.next_frame, None) if self._framed else iter((data,))
        for frame in frames:
            assert frame is not None
            self.messages += [one.message for one in read_frame(frame)]

    def until(self, condition: Callable[[], object]) -> bool:
        """Hear what comes until a condition holds."""
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline_s or self.ended:
                return bool(condition())
            self.hear(0.1)
        return True

    def expect(self, kind: type[M], which: Callable[[M], object] = lambda _one: True) -> M:
        """The first message of a kind that has come, or comes; it is taken away."""

        def found() -> list[M]:
            return [one for one in self.messages if isinstance(one, kind) and which(one)]

        assert self.until(found), self.messages
        one = found()[0]
        self.messages.remove(one)  # type: ignore[arg-type]  # it is one of them
        return one

"""Datagrams: nothing is kept of a stranger before it returns a valid cookie (T10)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

import elea
from elea.link.driver import Driver
from elea.link.udp import UdpListener
from elea.transport.handshake import Opener
from elea.transport.negotiation import Offer
from elea.wire.codec import BatchDecoder, encode_one
from elea.wire.transport.close import Close
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

PATIENCE_S = 20.0


class Listening:
    """A session that listens for datagrams, and what it keeps."""

    def __init__(self, session: elea.Session) -> None:
        driver = session._context.driver
        assert isinstance(driver, Driver)
        self.driver = driver
        [(_, loop)] = driver._accepting.listeners._loops
        assert isinstance(loop.listener, UdpListener)
        self.listener = loop.listener
        self.address = ("127.0.0.1", self.listener.locator.host_port()[1])

    def kept(self) -> tuple[int, int, int, int]:
        """Sources, links of the node, handshakes, links of the driver."""
        node = self.driver.node
        with self.driver.lock:
            return (
                len(self.listener._links),
                len(node._links),
                len(self.driver._accepting.listeners._admission),
                len(self.driver.pumps),
            )

    def until_kept(self, expected: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.kept() != (expected, expected, 0, expected) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert self.kept() == (expected, expected, 0, expected)


@pytest.fixture
def listening() -> Iterator[Listening]:
    with elea.open(
        {
            "mode": "router",
            "listen": {"endpoints": ["udp/127.0.0.1:0"]},
            "scouting": {"multicast": {"enabled": False}},
        }
    ) as session:
        yield Listening(session)


def stranger(host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, 0))
    sock.settimeout(PATIENCE_S)
    return sock


def ask(sock: socket.socket, to: Listening, data: bytes) -> object:
    sock.sendto(data, to.address)
    return BatchDecoder(sock.recv(65_535)).next()


def opener(number: int = 1) -> Opener:
    return Opener(Offer(zid=number.to_bytes(4, "big"), whatami=2), 0)


def init_syn(number: int = 1) -> bytes:
    [syn] = opener(number).outgoing()
    return syn


def test_a_flood_of_forged_first_messages_keeps_nothing(listening: Listening) -> None:
    for number in range(600):  # more than handshakes may go on at once, and than one address may
        host = f"127.0.{1 + number % 250}.{1 + number // 250}"
        with stranger(host) as sock:
            answer = ask(sock, listening, init_syn(1 + number))
            assert isinstance(answer, Init)
            assert answer.cookie
            assert listening.kept() == (0, 0, 0, 0)


def test_a_cookie_returned_makes_a_link(listening: Listening) -> None:
    shaking = opener()
    with stranger() as sock:
        [syn] = shaking.outgoing()
        sock.sendto(syn, listening.address)
        shaking.receive_batch(sock.recv(65_535), 0)
        assert shaking.terms is not None
        assert listening.kept() == (0, 0, 0, 0)
        shaking.proceed(0)
        [open_syn] = shaking.outgoing()
        sock.sendto(open_syn, listening.address)
        shaking.receive_batch(sock.recv(65_535), 0)
        assert shaking.agreed is not None
        listening.until_kept(1)


def test_a_cookie_of_another_address_or_none_of_ours_keeps_nothing(listening: Listening) -> None:
    with stranger() as sock, stranger("127.0.0.9") as thief:
        answer = ask(sock, listening, init_syn())
        assert isinstance(answer, Init)
        assert answer.cookie is not None
        stolen = encode_one(Open(10_000_000, 0, cookie=answer.cookie))
        forged = encode_one(Open(10_000_000, 0, cookie=bytes(len(answer.cookie))))
        for data in (stolen, forged):
            assert isinstance(ask(thief, listening, data), Close)
            assert listening.kept() == (0, 0, 0, 0)
    assert listening.driver.node.stats.refused() == {"cookie": 2}


def test_what_is_no_first_message_is_not_answered(listening: Listening) -> None:
    with stranger() as sock:
        for data in (b"GET / HTTP/1.1", b"\x00", b"\x01", b"\x02\xff\xff", bytes(1_000)):
            sock.sendto(data, listening.address)
        assert isinstance(ask(sock, listening, init_syn()), Init)  # the first answer there is
        assert listening.kept() == (0, 0, 0, 0)


def test_sessions_meet_over_datagrams(listening: Listening) -> None:
    endpoint = f"udp/127.0.0.1:{listening.address[1]}"
    alone = {"multicast": {"enabled": False}}
    config = {"mode": "client", "connect": {"endpoints": [endpoint]}, "scouting": alone}
    with elea.open(config) as one, elea.open(config) as other:
        subscriber = one.declare_subscriber("a")
        deadline_s = time.monotonic() + PATIENCE_S
        received = None
        while received is None and time.monotonic() < deadline_s:
            other.put("a", "1")
            received = subscriber.try_recv()
        assert received is not None
        listening.until_kept(2)

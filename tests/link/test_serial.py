"""Sessions over a serial line: noise, loss, a restart, and what an operator sees of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.link.line import Line
from tests.link.loops import Loop
from tests.link.rig import turns

import elea
from elea.link.accept import AcceptLoop
from elea.link.admission import Admission, Ticket
from elea.link.base import Link
from elea.link.driver import Driver
from elea.link.serial import Serial
from elea.link.serial_framing import INIT, encode_frame
from elea.link.settings import LinkSettings
from elea.link.timers import Timers
from elea.locator import Endpoint

ALONE: dict[str, Any] = {
    "scouting": {"multicast": {"enabled": False}},
    "connect": {"retry": {"period_init_ms": 20, "period_max_ms": 20}},
    "transport": {"unicast": {"open_timeout": 2_000}},
}


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@contextmanager
def sessions(line: Line) -> Iterator[tuple[elea.Session, elea.Session]]:
    """A client at the near end of a line, and a router at the far one."""
    far = ALONE | {
        "mode": "router",
        "listen": {"endpoints": [f"serial/{line.far}#baudrate=115200"]},
    }
    near = ALONE | {
        "mode": "client",
        "connect": {
            "endpoints": [f"serial/{line.near}#baudrate=115200;tout=20000"],
            **ALONE["connect"],
        },
    }
    with elea.open(far) as router, elea.open(near) as client:
        yield router, client


def refused(session: elea.Session) -> int:
    """Frames that were dropped, as the metrics tell them."""
    driver = session._context.driver
    assert isinstance(driver, Driver)
    return driver.node.stats.refused().get("line", 0)


def exchange(
    publisher: elea.Session, channel: Any, payload: bytes, *, others: frozenset[bytes] = frozenset()
) -> None:
    """Put until it arrives; what arrives meanwhile is one of the others."""
    for _ in turns():
        publisher.put("line/key", payload)
        while True:
            try:
                got = channel.recv(0.3)
            except TimeoutError:
                break
            assert got is not None
            if got.payload.to_bytes() == payload:
                return
            assert got.payload.to_bytes() in others
    raise AssertionError("it never arrived")


def test_samples_queries_and_long_payloads_go_both_ways(line: Line) -> None:
    with sessions(line) as (router, client):
        payload = random.Random(1).randbytes(20_000)  # fourteen fragments
        at_router = router.declare_subscriber("line/key", elea.handlers.FifoChannel(8))
        at_client = client.declare_subscriber("line/key", elea.handlers.FifoChannel(8))
        exchange(client, at_router, payload)
        exchange(router, at_client, payload, others=frozenset([payload]))
        router.declare_queryable("ask", lambda query: query.reply("ask", b"yes"))
        [reply] = client.get("ask", timeout=10)
        assert reply.ok is not None
        assert reply.ok.payload.to_bytes() == b"yes"
        assert refused(router) == refused(client) == 0


def test_a_noisy_line_gives_counted_refusals_and_no_wrong_sample(line: Line) -> None:
    chance = random.Random(2)

    def noise(data: bytes) -> bytes:
        spoilt = bytearray(data)
        for at in range(len(spoilt)):
            if chance.random() < 0.002:
                spoilt[at] = chance.randrange(256)
        if chance.random() < 0.05:
            del spoilt[: chance.randrange(len(spoilt) + 1)]
        return bytes(spoilt)

    payloads = frozenset(b"%04d" % n + bytes(n) for n in range(0, 1_200, 8))
    with sessions(line) as (router, client):
        channel = router.declare_subscriber("line/key", elea.handlers.FifoChannel(1_000))
        exchange(client, channel, b"begin")
        line.to_far = line.to_near = noise
        for payload in sorted(payloads):
            client.put("line/key", payload)
        for _ in turns():
            if refused(router):
                break
            client.put("line/key", b"begin")
        line.to_far = line.to_near = bytes
        exchange(client, channel, b"clean again", others=payloads | {b"begin"})
        assert refused(router) > 0


def test_a_restarted_end_is_met_again(line: Line) -> None:
    with sessions(line) as (router, client):
        channel = router.declare_subscriber("line/key", elea.handlers.FifoChannel(100))
        exchange(client, channel, b"before")
        # What a device sends that was switched off and on.
        line.send_to_far(b"\0" + encode_frame(INIT))
        exchange(client, channel, b"after", others=frozenset([b"before"]))


def test_the_listener_may_be_gone_for_a_while(line: Line) -> None:
    """The client notices when its lease ends, or by the handshake that begins anew."""
    with sessions(line) as (router, client):
        channel = router.declare_subscriber("line/key", elea.handlers.FifoChannel(100))
        exchange(client, channel, b"first")
    with sessions(line) as (router, client):
        channel = router.declare_subscriber("line/key", elea.handlers.FifoChannel(100))
        exchange(client, channel, b"second")


def test_a_listener_on_a_loop_finds_its_device_again(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elea.link.serial._REOPEN_NS", 10_000_000)
    path = tmp_path / "tty"
    first, second = Line(), Line()
    path.symlink_to(first.far)
    endpoint = Endpoint.parse(f"serial/{path}#baudrate=115200")
    [address] = Serial().resolve(endpoint, listening=True)
    listener = Serial().listen(endpoint, address, LinkSettings())
    links: list[Link] = []
    admission = Admission()

    def on_link(link: Link, ticket: Ticket) -> None:
        ticket.settle()
        links.append(link)

    accepting = AcceptLoop(
        listener,
        loop.poller,
        Timers(loop.poller),
        admission,
        on_link=on_link,
        on_failure=lambda who, error: loop.errors.append(error),
    )
    loop.run(accepting.start)
    first.close()
    loop.until(lambda: listener.fileno() == -1)
    path.unlink()
    path.symlink_to(second.far)
    loop.until(lambda: listener.fileno() >= 0)
    for number in range(1, 4):
        second.send_to_far(b"noise\0" + encode_frame(INIT))
        loop.until(lambda number=number: len(links) == number)  # type: ignore[misc]
        assert listener.fileno() == -1
        loop.run(links[-1].close)
        assert listener.fileno() >= 0
    assert admission.stats.refused() == {"line": 3}
    loop.run(accepting.close)
    second.close()
    assert loop.errors == []

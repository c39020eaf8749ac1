"""Listeners that cannot be bound at once: `listen/timeout_ms`, `exit_on_failure` and `retry`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.link.test_driver import until

import elea
from elea.errors import LinkError
from elea.link.binding import Binding
from elea.link.listeners import Listeners
from elea.link.timers import Timer, Timers
from elea.locator import Endpoint
from elea.node.settings import MS_NS, NodeSettings, RetrySettings
from elea.transport.negotiation import Offer


@pytest.fixture
def taken() -> Any:
    """A port that another program has."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


def config(sock: socket.socket, **listen: object) -> dict[str, object]:
    port = sock.getsockname()[1]
    return {
        "mode": "router",
        "listen": {"endpoints": ["tcp/127.0.0.1:0", f"tcp/127.0.0.1:{port}"], **listen},
        "scouting": {"multicast": {"enabled": False}, "delay": 0},
    }


def locators(session: elea.Session) -> tuple[str, ...]:
    driver = session._context.driver
    with driver.lock:
        return driver.locators()


def test_by_default_opening_fails_with_a_listener(taken: socket.socket) -> None:
    with pytest.raises(LinkError, match="in use"):
        elea.open(config(taken))


def test_a_listener_may_fail_if_configured(taken: socket.socket) -> None:
    with elea.open(config(taken, exit_on_failure=False)) as session:
        assert len(locators(session)) == 1


def test_binding_is_retried_in_the_background(taken: socket.socket) -> None:
    listen = {"exit_on_failure": False, "timeout_ms": -1, "retry": {"period_init_ms": 10}}
    with elea.open(config(taken, **listen)) as session:
        assert len(locators(session)) == 1
        where = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        until(lambda: where in locators(session))
        with elea.open({"mode": "client", "connect": {"endpoints": [where]}}):
            pass


@pytest.mark.parametrize("timeout_ms", [-1, 60_000])
def test_opening_waits_until_a_listener_is_bound(taken: socket.socket, timeout_ms: int) -> None:
    listen = {"timeout_ms": timeout_ms, "retry": {"period_init_ms": 10, "period_max_ms": 10}}
    freed = threading.Timer(0.1, taken.close)
    freed.start()
    with elea.open(config(taken, **listen)) as session:
        assert len(locators(session)) == 2
    freed.join()


def test_opening_gives_up_after_the_time(taken: socket.socket) -> None:
    listen = {"timeout_ms": 50, "retry": {"period_init_ms": 10}}
    with pytest.raises(LinkError, match=r"gave up after 0.05 s: .*in use"):
        elea.open(config(taken, **listen))


@dataclass
class Clock:
    """Timers that are run by hand."""

    now_ns: int = 0
    due: list[Timer] = field(default_factory=list)

    def call_at(self, at_ns: int, call: Callable[[], None]) -> Timer:
        self.due.append(Timer(at_ns, 0, call))
        return self.due[-1]

    def run_next(self) -> int:
        timer = self.due.pop()
        self.now_ns = timer.at_ns
        call = timer.take()
        assert call is not None
        call()
        return self.now_ns


class Busy:
    """Listeners that cannot be bound."""

    def open(self, endpoint: Endpoint) -> None:
        raise LinkError(f"{endpoint} is taken")


def test_pauses_grow_as_configured() -> None:
    clock = Clock()
    retry = RetrySettings(init_ns=100 * MS_NS, max_ns=500 * MS_NS, factor=3.0)
    settings = NodeSettings(
        offered=Offer(zid=b"a", whatami=elea.WhatAmI.ROUTER.index),
        listen_timeout_ns=2_000 * MS_NS,
        listen_retry=retry,
    )
    binding = Binding(
        cast(Listeners, Busy()), settings, cast(Timers, clock), lambda: clock.now_ns, lambda: None
    )
    binding.start([Endpoint.parse("tcp/127.0.0.1:1")])
    times: list[int] = []
    while not times or clock.due:
        assert not binding.is_over()
        times.append(clock.run_next() // MS_NS)
    assert times == [100, 400, 900, 1_400, 1_900, 2_000]
    with pytest.raises(LinkError, match="gave up after 2 s"):
        binding.is_over()

"""A link ends with the first certificate that does, by the time of day that the driver is told."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.link.certificates import ENDS_SOON_S, Made, certificates
from tests.link.test_driver import until

from elea.config.config import Config
from elea.link.driver import Driver
from elea.link.poller import SelectorPoller
from elea.link.settings import LinkSettings
from elea.node.node import Node
from elea.node.settings import NodeSettings
from elea.node.stats import Refusal

MADE = certificates()
BEGUN_NS = time.monotonic_ns()


def almost_over() -> int:
    """The time of day: the certificate that ends soon has a moment left, and then none."""
    return ENDS_SOON_S * 10**9 - 300_000_000 + time.monotonic_ns() - BEGUN_NS


@contextmanager
def driving(made: Made, *, listen: str = "", connect: str = "", closes: bool) -> Iterator[Driver]:
    def text(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    tls = {
        "enable_mtls": True,
        "close_link_on_expiration": closes,
        "root_ca_certificate_base64": text(MADE.root_text),
        "listen_certificate_base64": text(MADE.server.certificate_text),
        "listen_private_key_base64": text(MADE.server.key_text),
        "connect_certificate_base64": text(made.certificate_text),
        "connect_private_key_base64": text(made.key_text),
    }
    config = Config.from_mapping(
        {
            "mode": "peer",
            "listen": {"endpoints": [listen] if listen else []},
            "connect": {"endpoints": [connect] if connect else []},
            "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
            "transport": {"link": {"tls": tls}},
        }
    )
    node = Node(NodeSettings.from_config(config, os.urandom), rng=os.urandom)
    settings = LinkSettings.from_config(config)
    driver = Driver(node, SelectorPoller(), settings, wall_clock=almost_over)
    driver.start()
    try:
        yield driver
    finally:
        driver.close(1_000_000_000)


def expired(driver: Driver) -> int:
    with driver.lock:
        return driver.node.stats.refusals[Refusal.EXPIRED]


@pytest.mark.parametrize("listener_closes", [True, False], ids=["its certificate", "our own"])
def test_the_side_that_is_told_to_closes_the_link(listener_closes: bool) -> None:
    with driving(MADE.client, listen="tls/127.0.0.1:0", closes=listener_closes) as hub:
        there = str(hub.bound()[0])
        with driving(MADE.client_ends_soon, connect=there, closes=not listener_closes) as robot:
            closing, other = (hub, robot) if listener_closes else (robot, hub)
            until(lambda: expired(closing) > 0)
            assert expired(other) == 0


def test_a_certificate_that_lasts_keeps_the_link() -> None:
    with (
        driving(MADE.client, listen="tls/127.0.0.1:0", closes=True) as hub,
        driving(MADE.client, connect=str(hub.bound()[0]), closes=True) as robot,
    ):
        until(lambda: bool(robot.node.neighbours()))
        assert len(robot.node._expiries) == 1
        assert expired(hub) == expired(robot) == 0

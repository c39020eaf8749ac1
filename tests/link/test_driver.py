"""Driver: what is not the node's business, and no link's either."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from tests.link.rig import PATIENCE_S

import elea
from elea.config.config import Config
from elea.link.admission import Admission
from elea.link.driver import Driver
from elea.link.memory import memory_pair
from elea.link.poller import SelectorPoller
from elea.link.settings import LinkSettings
from elea.locator import Locator
from elea.node.node import Node
from elea.node.settings import NodeSettings
from elea.session.handlers import FifoChannel

PATIENCE_NS = int(PATIENCE_S * 1e9)


def test_a_link_that_comes_while_it_closes_is_not_taken() -> None:
    """A neighbour that lost us dials at once; `close` waited for that link to end, for ever."""
    config = Config.from_mapping(
        {
            "mode": "peer",
            "listen": {"endpoints": []},
            "scouting": {"multicast": {"enabled": False}},
        }
    )
    node = Node(NodeSettings.from_config(config, os.urandom), rng=os.urandom)
    driver = Driver(node, SelectorPoller(), LinkSettings.from_config(config))
    driver.start()
    driver.close(0)
    link, other = memory_pair(Locator("memory/a"), Locator("memory/b"))
    ticket = Admission().admit("a", lambda reason: None)
    driver._accepting.accepted(link, ticket)
    assert not ticket.pending
    assert other.read(10) == b""  # the end
    other.close()


def test_the_last_turn_of_a_burst_while_it_closes_sets_no_timer() -> None:
    """The loop may be in the middle of a call when it is stopped: a traceback was logged."""
    node = Node(NodeSettings.from_config(Config(), os.urandom), rng=os.urandom)
    driver = Driver(node, SelectorPoller(), LinkSettings.from_config(Config()))
    driver.timers.call_at(driver.now_ns() + PATIENCE_NS, lambda: None)  # the loop runs
    driver.end_close()
    driver._flow.burst_writes = 1
    driver._burst_turn()
    driver.arm_at(driver.now_ns())


def test_a_peer_does_not_read_from_who_sends_what_nobody_reads() -> None:
    """Threat T28: what a client does not read is held back in its source, and nothing is lost."""
    count = 400
    peer = elea.open({"mode": "peer", "listen": {"endpoints": ["tcp/127.0.0.1:0"]}})
    driver = peer._context.driver
    assert isinstance(driver, Driver)
    client = {
        "mode": "client",
        "connect": {"endpoints": [str(driver.bound()[0])]},
    }
    with peer, elea.open(client) as source, elea.open(client) as reader:
        samples = reader.declare_subscriber("a", FifoChannel(4))
        publisher = source.declare_publisher("a", congestion_control=elea.CongestionControl.BLOCK)
        until(lambda: publisher.matching_status.matching)

        def publish() -> None:
            for number in range(count):
                publisher.put(number.to_bytes(4, "big") + bytes(100_000))

        thread = threading.Thread(target=publish)
        thread.start()
        until(lambda: driver.pumps.is_holding)
        got = [
            int.from_bytes(samples.recv(PATIENCE_S).payload.to_bytes()[:4], "big")
            for _ in range(count)
        ]
        thread.join(PATIENCE_S)
        assert got == list(range(count))
        until(lambda: not driver.pumps.is_holding)
        assert len(peer.info.transports()) == 2


def until(condition: Callable[[], object]) -> None:
    """Wait for what comes soon; only a hang takes long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)

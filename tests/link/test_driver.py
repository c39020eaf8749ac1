"""Driver: what is not the node's business, and no link's either."""

from __future__ import annotations

import os

from elea.config.config import Config
from elea.link.admission import Admission
from elea.link.driver import Driver
from elea.link.memory import memory_pair
from elea.link.poller import SelectorPoller
from elea.link.settings import LinkSettings
from elea.locator import Locator
from elea.node.node import Node
from elea.node.settings import NodeSettings


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
    driver._accepted(link, ticket)
    assert not ticket.pending
    assert other.read(10) == b""  # the end
    other.close()

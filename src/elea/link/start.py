"""A node on real links, as a configuration asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable

from elea.config.config import Config
from elea.link.accounts import read_accounts
from elea.link.authorizers import read_authorizer
from elea.link.driver import Driver
from elea.link.endpoint_options import check_options
from elea.link.poller import SelectorPoller
from elea.link.settings import LinkSettings
from elea.node.node import Node
from elea.node.settings import NodeSettings, limits_of
from elea.policy.events import PolicyEvent


def open_driver(config: Config, report: Callable[[PolicyEvent], None] | None = None) -> Driver:
    """A node for this configuration on real links: listening, and connected as far as it must be.

    `report` is told of refusals and logins, under the lock: it must neither block nor raise.

    Raises:
        LinkError: if it cannot listen, or cannot connect although it must.
        ConfigError: if the configuration asks for something that cannot be.
    """
    for side in ("listen", "connect"):
        for group in config.endpoints(side):
            for endpoint in group:
                check_options(endpoint)
    settings = NodeSettings.from_config(
        config, os.urandom, read_accounts(config), read_authorizer(config)
    )
    limits = limits_of(config)
    node = Node(settings, rng=os.urandom, limits=limits)
    node.guards.report = report
    links = LinkSettings.from_config(config, limits)
    driver = Driver(node, SelectorPoller(), links, limits=limits)
    try:
        driver.start()
        driver.wait_connected()
    except BaseException:
        driver.close(0)
        raise
    return driver

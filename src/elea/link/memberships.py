"""Memberships: the multicast groups that a node takes part in, joined again when they are lost."""

from __future__ import annotations

import logging
from typing import Final

from elea.errors import ConfigError, LinkError
from elea.ids import WhatAmI
from elea.limits import Limits
from elea.link.multicast import GroupLink, GroupPump
from elea.link.settings import LinkSettings
from elea.link.shell import Shell
from elea.locator import Endpoint, Locator

_LOG: Final = logging.getLogger("elea.link")
_REJOIN_NS: Final = 1_000_000_000  # after a group was lost, as when an interface went down


class Memberships:
    """The groups of one node.

    Args:
        shell: The driver.
        settings: Of the links.
        limits: The node's bounds.
    """

    def __init__(self, shell: Shell, settings: LinkSettings, limits: Limits) -> None:
        self._shell = shell
        self._settings = settings
        self._limits = limits

    def join(self, endpoint: Endpoint) -> None:
        """Take part in a group.

        Raises:
            LinkError: if it cannot be joined.
            ConfigError: if the endpoint asks for something that cannot be.
        """
        shell = self._shell
        if shell.node.whatami is WhatAmI.CLIENT:
            raise ConfigError(f"{endpoint}", "a client takes no part in groups; use mode peer")
        group = GroupLink(endpoint, self._settings)

        def pump_of(link_id: int) -> GroupPump:
            return GroupPump(
                group,
                shell.poller,
                on_datagram=lambda *datagram: self._received(link_id, *datagram),
                on_closed=lambda reason: self._left(link_id, endpoint, reason),
                limits=self._limits,
                clock=shell.now_ns,
            )

        with shell.lock:
            if shell.is_closing:
                group.close()
                return
            link_id, pump = shell.pumps.add(pump_of)
            shell.node.groups.open(link_id, group.info, shell.now_ns())
        pump.start()

    def _received(self, link_id: int, data: bytes, source: Locator, now_ns: int) -> None:
        shell, node = self._shell, self._shell.node
        with shell.lock:
            node.groups.receive(link_id, source, data, now_ns)
            if node.has_work():
                shell.settle()
            else:
                shell.arm_at(node.groups.next_timer_ns())
                shell.arm_at(node.routing.next_timer_ns())
        shell.run_due()

    def _left(self, link_id: int, endpoint: Endpoint, reason: str) -> None:
        """A group is gone: we left it, or its interface did."""
        self._shell.closed(link_id, reason)
        if not self._shell.is_closing:
            _LOG.warning("the group %s is lost: %s", endpoint.locator(), reason)
            self._rejoin_later(endpoint)

    def _rejoin_later(self, endpoint: Endpoint) -> None:
        due_ns = self._shell.now_ns() + _REJOIN_NS
        self._shell.timers.call_at(due_ns, lambda: self._rejoin(endpoint))

    def _rejoin(self, endpoint: Endpoint) -> None:
        try:
            self.join(endpoint)
        except (LinkError, ConfigError):  # the interface is not there yet
            self._rejoin_later(endpoint)
            return
        with self._shell.lock:
            self._shell.settle()

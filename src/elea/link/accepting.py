"""Accepting: where a node listens, and newcomers until they are neighbours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from elea.errors import LinkError
from elea.limits import Limits
from elea.link.admission import Ticket
from elea.link.base import Link
from elea.link.binding import Binding
from elea.link.listeners import Listeners
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.shell import Shell
from elea.locator import Endpoint, Locator

_LOG: Final = logging.getLogger("elea.link")


class Accepting:
    """The listeners of a node, and the tickets of links whose handshake goes on.

    Args:
        shell: The driver.
        registry: The schemes.
        settings: Of the links.
        limits: The node's bounds.
    """

    def __init__(
        self, shell: Shell, registry: Registry, settings: LinkSettings, limits: Limits
    ) -> None:
        node = shell.node
        self._shell = shell
        self._tickets: dict[int, Ticket] = {}
        self.listeners = Listeners(
            shell.poller,
            shell.timers,
            registry,
            settings,
            on_link=self.accepted,
            on_failure=self._not_accepted,
            limits=limits,
            clock=shell.now_ns,
            stats=node.stats,
            greet=self._greet,
        )
        self._binding = Binding(
            self.listeners, node.settings, shell.timers, shell.now_ns, self._rebound
        )
        self.is_bound: Callable[[], bool] = self._binding.is_over

    def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Listen there; raises if a listener that must be bound cannot be."""
        self._binding.start(endpoints)

    def change(self, endpoints: list[Endpoint], settings: LinkSettings) -> None:
        """Listen there from now on; raises, and nothing has changed, if that cannot be."""
        self._binding.change(endpoints, settings)

    def stop(self) -> None:
        """Listen no more, at the loop's next turn."""
        self._binding.stop()
        self.listeners.close_soon()

    def locators(self) -> tuple[str, ...]:
        """Where others can reach this node."""
        return self.listeners.locators(asker_loopback=False)

    def tell_locators(self) -> None:
        """Let others know of them. With the lock."""
        self._shell.node.routing.set_locators(self.locators())

    def settle_opened(self) -> None:
        """End the handshakes of links that are part of a transport now. With the lock."""
        for link_id in list(self._tickets):
            if self._shell.node.intake(link_id) is not None:
                self.settle(link_id)

    def settle(self, link_id: int) -> None:
        """End the handshake of a link, if it goes on. With the lock."""
        ticket = self._tickets.pop(link_id, None)
        if ticket is not None:
            ticket.settle()

    def accepted(self, link: Link, ticket: Ticket) -> None:
        """A newcomer is a link, and its handshake with the node begins."""

        def opened(link_id: int, now_ns: int, close: Callable[[str], None]) -> None:
            self._tickets[link_id] = ticket
            ticket.on_evicted = close
            self._shell.node.link_opened(link_id, link.info, now_ns)

        if not self._shell.adopt(link, opened):
            ticket.settle()

    def _not_accepted(self, source: str, error: LinkError) -> None:
        _LOG.info("rejected connection from %s: %s", source, error)

    def _greet(self, remote: Locator, batch_len_max: int, data: bytes) -> tuple[bool, list[bytes]]:
        """A datagram of a stranger."""
        with self._shell.lock:
            if self._shell.is_closing:
                return False, []
            now_ns = self._shell.now_ns()
            return self._shell.node.admission.greet(remote, batch_len_max, data, now_ns)

    def _rebound(self) -> None:
        """A listener was bound by a retry."""
        with self._shell.lock:
            self.tell_locators()
            self._shell.settle()

"""Listeners: where a node listens. They can change while it runs; its links stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from elea.errors import ClosedError, LinkError
from elea.limits import Limits
from elea.link.accept import AcceptLoop, OnFailure, OnLink
from elea.link.admission import Admission
from elea.link.base import Lender
from elea.link.guests import Guests
from elea.link.interfaces import advertised
from elea.link.poller import Poller
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.tcp import TcpListener
from elea.link.timers import Timers
from elea.link.udp import Greet, UdpListener
from elea.locator import Endpoint, Locator
from elea.node.stats import NodeStats

_CLOSE_S: Final = 5.0  # for the loop's turn; it holds nobody up longer unless it has ended


class Listeners:
    """The accept loops of a node, by endpoint.

    Args:
        poller: The loop they are watched by.
        timers: Of that loop.
        registry: The schemes there are.
        settings: Of the links.
        on_link: Given every link that comes in, on the poller.
        on_failure: Told of newcomers that came to nothing.
        limits: Of newcomers.
        clock: The monotonic time.
        stats: Counts newcomers that came to nothing.
        greet: Answers strangers of datagram listeners, who are no newcomers yet.
    """

    def __init__(
        self,
        poller: Poller,
        timers: Timers,
        registry: Registry,
        settings: LinkSettings,
        *,
        on_link: OnLink,
        on_failure: OnFailure,
        limits: Limits,
        clock: Callable[[], int],
        stats: NodeStats,
        greet: Greet | None = None,
    ) -> None:
        self._poller = poller
        self._timers = timers
        self._registry = registry
        self._settings = settings
        self._on_link = on_link
        self._on_failure = on_failure
        self._limits = limits
        self._clock = clock
        self._greet = greet
        self._admission = Admission(limits, stats)
        self.guests = Guests()  # of listeners that are plain TCP
        # Replaced, never changed: the poller's thread reads it while another one changes it.
        self._loops: tuple[tuple[Endpoint, AcceptLoop], ...] = ()

    def open(self, endpoint: Endpoint) -> None:
        """Listen at one more endpoint.

        Raises:
            LinkError: if it cannot be bound.
            ConfigError: if it asks for something that cannot be.
        """
        before = self._loops
        try:
            self._open(endpoint)
        except Exception:
            for pair in [pair for pair in self._loops if pair not in before]:
                self._poller.call_soon_threadsafe(pair[1].close)  # all of its addresses, or none
            self._loops = before
            raise

    def _open(self, endpoint: Endpoint) -> None:
        scheme = self._registry.scheme(endpoint.protocol, self._settings.protocols)
        for address in scheme.resolve(endpoint, listening=True):
            listener = scheme.listen(endpoint, address, self._settings)
            if isinstance(listener, TcpListener):
                listener.guests = self.guests
            elif isinstance(listener, UdpListener):
                listener.greet = self._greet
            loop = AcceptLoop(
                listener,
                self._poller,
                self._timers,
                self._admission,
                on_link=self._on_link,
                on_failure=self._on_failure,
                limits=self._limits,
                clock=self._clock,
            )
            self._loops += ((endpoint, loop),)
            loop.start()

    def change(self, endpoints: Sequence[Endpoint], settings: LinkSettings) -> None:
        """Listen at these from now on; listeners that stay read their certificates again.

        Links that came in elsewhere stay, except those of a datagram listener, whose socket they
        share, and those that have the device of one. Not on the poller's thread.

        Raises:
            LinkError, ConfigError: as `open`; then it listens where it did before.
        """
        before = self._loops
        gone = [pair for pair in before if pair[0] not in endpoints]
        known = [endpoint for endpoint, _ in before]
        for endpoint, loop in before:
            if endpoint in endpoints:
                loop.listener.reload(settings)
        old_settings, self._settings = self._settings, settings
        # Before the new ones, as a new endpoint may have the port of an old one.
        self._close(gone)
        try:
            for endpoint in endpoints:
                if endpoint not in known:
                    self.open(endpoint)
        except Exception:
            self._settings = old_settings
            self._close([pair for pair in self._loops if pair not in before])
            for endpoint in dict.fromkeys(endpoint for endpoint, _ in gone):
                self.open(endpoint)
            raise

    def locators(self, asker_loopback: bool) -> tuple[str, ...]:
        """Where others can reach this node."""
        bound = [loop.listener.locator for _, loop in self._loops]
        return tuple(str(one) for one in advertised(bound, asker_loopback))

    def bound(self) -> tuple[Locator, ...]:
        """Where it listens, with the ports that were given."""
        return tuple(loop.listener.locator for _, loop in self._loops)

    def close_soon(self) -> None:
        """Listen no more, at the loop's next turn."""
        for _, loop in self._loops:
            self._poller.call_soon_threadsafe(loop.close)

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        for _, loop in self._loops:
            loop.abort()
        self._loops = ()

    def _close(self, pairs: list[tuple[Endpoint, AcceptLoop]]) -> None:
        """Listen no more at these, and wait until that is so."""
        if not pairs:
            return
        done = threading.Event()

        def close() -> None:
            for _, loop in pairs:
                if isinstance(loop.listener, Lender):
                    loop.listener.recall("its listener was closed")
                loop.close()
            try:  # after the ends of links that had the descriptors of these
                self._poller.call_soon_threadsafe(done.set)
            except ClosedError:
                done.set()

        self._loops = tuple(pair for pair in self._loops if pair not in pairs)
        self._poller.call_soon_threadsafe(close)
        if not done.wait(_CLOSE_S):
            raise LinkError("the I/O loop does not answer: listeners were not closed")

"""Driver: a node on real links, from `start` to `close`. It has all that brings links.

Listeners, dialling, multicast groups and scouting each own what they need; the driver starts and
ends them and hands them what the node asks for. What happens on links is the shell's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from elea.errors import LinkError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.accepting import Accepting
from elea.link.connect import Connected, Connector
from elea.link.dialing import Dialing
from elea.link.discovery import Discovery, discover
from elea.link.memberships import Memberships
from elea.link.neighbour_log import log_neighbour
from elea.link.opening import Opening
from elea.link.poller import Poller
from elea.link.refusal_log import RefusalLog
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.shell import Shell
from elea.node.node import Node
from elea.node.ports import (
    CallbackThread,
    CloseLink,
    Connect,
    ConnectFailed,
    Effect,
    HoldReading,
    NeighbourDown,
    NeighbourUp,
)
from elea.node.settings import EndpointGroups
from elea.policy.policy import Policy
from elea.routing.refusals import Refused


class Driver(Shell):
    """Runs one node on real links: `elea.session.ports.DriverPort`.

    Args:
        node: The node.
        poller: The loop that watches its links.
        settings: Of the links.
        limits: The node's bounds.
    """

    callback_thread = CallbackThread.IO
    idle = None  # None: callers block in their own thread

    def __init__(
        self,
        node: Node,
        poller: Poller,
        settings: LinkSettings,
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(node, poller, limits=limits, clock=clock)
        self.wall_ns = wall_clock
        node.tell_time(wall_clock)
        node.routing.refusals.on_refused = RefusalLog()
        self._settings = settings
        # Who brings links.
        self._connector = Connector(poller, self.timers, settings, Registry(), clock)
        self._accepting = Accepting(self, self._connector.registry, settings, limits)
        self.bound = self._accepting.listeners.bound  # with the ports that were given
        self.guests = self._accepting.listeners.guests  # take connections that are no Zenoh
        self.locators = self._accepting.locators
        self._dialing = Dialing(self._connector, self.lock, limits, node.stats, self._connected)
        self._memberships = Memberships(self, settings, limits)
        self._discovery: Discovery | None = None
        search_ns = settings.scouting.timeout_ns
        self._opening = Opening(node, self.lock, clock, search_ns, self._accepting.is_bound)

    # Life.

    def start(self) -> None:
        """Listen where the settings say, then begin to connect and to look for others.

        Raises:
            LinkError: if a listener cannot be bound, or a multicast group not joined.
            ConfigError: if the settings ask for something that cannot be.
        """
        node = self.node
        self._accepting.start(one for group in node.settings.listen for one in group)
        for endpoint in node.settings.groups:
            self._memberships.join(endpoint)
        scouting = self._settings.scouting.of(node.whatami, must_find=self._opening.must_find)
        if scouting is not None:
            self._discovery = discover(
                self, scouting, self._accepting.listeners.locators, self._limits
            )
        with self.lock:
            self._accepting.tell_locators()
            node.start(self.now_ns())
            self.settle()
        if self._discovery is not None:
            self._discovery.start()

    def close(self, timeout_ns: int) -> None:
        """Say goodbye to every neighbour, and end when that is written or the time is over."""
        self.begin_close()
        with self.lock:
            deadline_ns = self.now_ns() + timeout_ns
            while self.pumps and not self.poller.in_loop():
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self.wait(left_ns):
                    break
        self.end_close()

    def begin_close(self) -> None:
        """Say goodbye to every neighbour; links go when that is written."""
        self._accepting.stop()
        if self._discovery is not None:
            self._discovery.close()
        with self.lock:
            self.is_closing = True
            self._dialing.cancel()
            self.node.close(self.now_ns())
            self.settle()

    def has_links(self) -> bool:
        """Whether a link is open still."""
        return bool(self.pumps)

    def end_close(self) -> None:
        """Close what is open still, and end."""
        with self.lock:
            pumps = list(self.pumps.by_id.values())
            self.timers.stop()
        for pump in pumps:
            pump.close()
        self.poller.stop()

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        self._accepting.listeners.abort()
        if self._discovery is not None:
            self._discovery.abort()
        for pump in self.pumps.by_id.values():
            pump.abort()
        self.pumps.by_id.clear()

    def refusals(self) -> tuple[Refused, ...]:
        """Return what neighbours told that their access rules refused."""
        return self.node.routing.refusals.known()

    def change_endpoints(
        self,
        listen: EndpointGroups,
        connect: EndpointGroups,
        settings: LinkSettings | None = None,
    ) -> None:
        """Listen and connect there from now on. Neighbours stay; certificates are read again.

        Not on the poller's thread.

        Raises:
            LinkError: if a listener cannot be bound; nothing has changed then.
            ConfigError: if an endpoint asks for something that cannot be.
        """
        settings = settings or self._settings
        self._accepting.change([endpoint for group in listen for endpoint in group], settings)
        self._settings = self._connector.settings = settings
        with self.lock:
            self._accepting.tell_locators()
            self.node.connect_to(connect, self.now_ns())
            self.settle()

    def change_policy(self, policy: Policy) -> None:
        """Let these rules and filters apply from now on. Neighbours stay."""
        with self.lock:
            self.node.admission.change_policy(policy)
            self.node.guards.change(policy)
            self.settle()

    def wait_connected(self) -> None:
        """Wait until `open` may return. behaviour.md 1.11, 1.12.

        Raises:
            LinkError: if connecting is what was asked for and it failed.
        """
        self._opening.wait(self._discovery)

    def is_connected(self, deadline_ns: int) -> bool:
        """Whether `open` may return now; raises as `wait_connected`."""
        return self._opening.is_over(deadline_ns, self._discovery)

    # Links.

    def _connected(self, connector_id: int, outcome: Connected | LinkError) -> None:
        node = self.node
        if isinstance(outcome, LinkError):
            reason = str(outcome)
            self.call(lambda now_ns: node.connect_failed(connector_id, reason, now_ns))
            return
        info = outcome.link.info
        self.adopt(
            outcome.link,
            lambda link_id, now_ns, _close: node.link_opened(
                link_id, info, now_ns, connector_id=connector_id, opened=True
            ),
        )

    def gone(self, link_id: int) -> None:
        """A link is gone: its handshake is over, too."""
        self._accepting.settle(link_id)

    def apply(self, effect: Effect) -> None:
        """Do one thing that the node asks for."""
        match effect:
            case Connect():
                self._dialing.dial(effect)
            case NeighbourUp():
                self._accepting.settle_opened()
                self._opening.noticed(effect)
            case NeighbourDown():
                log_neighbour(effect)
                if self._discovery is not None and not self.is_closing:
                    self._discovery.ask_again()
            case ConnectFailed():
                self._opening.noticed(effect)
            case HoldReading():
                self.pumps.hold(effect.link_id, effect.held)
            case CloseLink():
                self.close_link(effect)

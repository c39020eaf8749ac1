"""Driver: one node, many links, one timer. The boring shell around `elea.node.Node`.

The node is called under one lock by whichever thread has something for it: the poller's thread
with octets and timers, an application's threads with what they publish. Nobody holds the lock while
an application's code runs: sessions collect what is due, and the thread that released the lock
delivers it.

Batching adapts by itself. A thread that publishes into an idle link writes at once, so a lone
message waits for nobody; one that publishes again within moments leaves its messages in the open
batch, which goes out when it is full or when the poller's turn comes. As long as the burst goes on
the poller looks every millisecond only: who publishes writes full batches itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from elea.errors import ConfigError, LinkError
from elea.ids import WhatAmI
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.admission import Ticket
from elea.link.base import Link
from elea.link.binding import Binding
from elea.link.connect import Connected, Connector
from elea.link.dialing import Dialing
from elea.link.discovery import Discovery
from elea.link.flow_hot import BUFFERS_COUNT, WRITE_AHEAD_LEN, Flow
from elea.link.listeners import Listeners
from elea.link.multicast import GroupLink, GroupPump
from elea.link.neighbour_log import log_neighbour
from elea.link.opening import Opening
from elea.link.poller_hot import Poller
from elea.link.pump_hot import LinkPump
from elea.link.refusal_log import RefusalLog
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.timers import Timer, Timers
from elea.locator import Endpoint, Locator
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
    Told,
)
from elea.node.settings import EndpointGroups
from elea.policy.policy import Policy
from elea.routing.refusals import Refused

_LOG: Final = logging.getLogger("elea.link")
_REJOIN_NS: Final = 1_000_000_000  # after a group was lost, as when an interface went down


class Driver:
    """Runs one node on real links: `elea.session.ports.DriverPort`.

    Args:
        node: The node.
        poller: The loop that watches its links.
        settings: Of the links.
        limits: The node's bounds.
    """

    callback_thread = CallbackThread.IO
    idle = None  # who waits is a thread, and holds nobody up

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
        self.node = node
        self.lock = threading.Lock()
        self.now_ns = clock
        self.wall_ns = wall_clock
        node.tell_time(wall_clock)
        node.routing.refusals.on_refused = RefusalLog()
        self._poller = poller
        self._settings = settings
        self._timers = Timers(poller, clock)
        self._connector = Connector(poller, self._timers, settings, Registry(), clock)
        self._listeners = Listeners(
            poller,
            self._timers,
            self._connector.registry,
            settings,
            on_link=self._accepted,
            on_failure=self._not_accepted,
            limits=limits,
            clock=clock,
            stats=node.stats,
            greet=self._greet,
        )
        self.bound = self._listeners.bound  # where it listens, with the ports that were given
        self.guests = self._listeners.guests  # who takes connections that do not speak Zenoh
        self._dialing = Dialing(self._connector, self.lock, limits, node.stats, self._connected)
        self._limits = limits
        self._pumps: dict[int, LinkPump | GroupPump] = {}
        self._discovery: Discovery | None = None
        self._holding = False  # sessions are behind: no link is read
        self._held: set[int] = set()  # links whose messages have nowhere to go: not read either
        self._tickets: dict[int, Ticket] = {}  # of links whose handshake goes on
        self._last_link_id = 0
        self._closing = False
        self._timer: Timer | None = None
        self._flow = Flow(node.egress, self.lock, self._pumps, clock, self)
        self._flow.is_eager = not node.settings.transport.batching
        # Bound once: an interpreted method in between would cost as much.
        self.flush = self._flow.flush
        self.flush_locked = self._flow.flush_locked
        self._room = threading.Condition(self.lock)
        self._waiters = 0
        self._binding = Binding(self._listeners, node.settings, self._timers, clock, self._rebound)
        search_ns = settings.scouting.timeout_ns
        self._opening = Opening(node, self.lock, clock, search_ns, self._binding.is_over)

    # Life.

    def start(self) -> None:
        """Listen where the settings say, then begin to connect and to look for others.

        Raises:
            LinkError: if a listener cannot be bound, or a multicast group not joined.
            ConfigError: if the settings ask for something that cannot be.
        """
        self._binding.start(one for group in self.node.settings.listen for one in group)
        for endpoint in self.node.settings.groups:
            self._join(endpoint)
        self._discovery = self._scouting()
        with self.lock:
            self.node.routing.set_locators(self.locators())
            self.node.start(self.now_ns())
            self._settle()
        if self._discovery is not None:
            self._discovery.start()

    def close(self, timeout_ns: int) -> None:
        """Say goodbye to every neighbour, and end when that is written or the time is over."""
        self.begin_close()
        with self.lock:
            deadline_ns = self.now_ns() + timeout_ns
            while self._pumps and not self._poller.in_loop():
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self._wait(left_ns):
                    break
        self.end_close()

    def begin_close(self) -> None:
        """Say goodbye to every neighbour; links go when that is written."""
        self._binding.stop()
        self._listeners.close_soon()
        if self._discovery is not None:
            self._discovery.close()
        with self.lock:
            self._closing = True
            self._dialing.cancel()
            self.node.close(self.now_ns())
            self._settle()

    def has_links(self) -> bool:
        """Whether a link is open still."""
        return bool(self._pumps)

    def end_close(self) -> None:
        """Close what is open still, and end."""
        with self.lock:
            pumps = list(self._pumps.values())
            self._timers.stop()
        for pump in pumps:
            pump.close()
        self._poller.stop()

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        self._listeners.abort()
        if self._discovery is not None:
            self._discovery.abort()
        for pump in self._pumps.values():
            pump.abort()
        self._pumps.clear()

    def locators(self) -> tuple[str, ...]:
        """Where others can reach this node."""
        return self._listeners.locators(asker_loopback=False)

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
        self._binding.change([endpoint for group in listen for endpoint in group], settings)
        self._settings = self._connector.settings = settings
        with self.lock:
            self.node.routing.set_locators(self.locators())
            self.node.connect_to(connect, self.now_ns())
            self._settle()

    def _rebound(self) -> None:
        """A listener was bound by a retry."""
        with self.lock:
            self.node.routing.set_locators(self.locators())
            self._settle()

    def change_policy(self, policy: Policy) -> None:
        """Let these rules and filters apply from now on. Neighbours stay."""
        with self.lock:
            self.node.admission.change_policy(policy)
            self.node.guards.change(policy)
            self._settle()

    def wait_connected(self) -> None:
        """Wait until `open` may return. behaviour.md 1.11, 1.12.

        Raises:
            LinkError: if connecting is what was asked for and it failed.
        """
        self._opening.wait(self._discovery)

    def is_connected(self, deadline_ns: int) -> bool:
        """Whether `open` may return now; raises as `wait_connected`."""
        return self._opening.is_over(deadline_ns, self._discovery)

    # Sessions.

    def relieve(self) -> bool:
        """User code holds the poller's thread up: let another go on with the loop."""
        return self._poller.relieve()

    def hold_reading(self, held: bool) -> None:
        """Stop, or go on, reading from all links."""
        with self.lock:
            self._holding = held
            for link_id in self._pumps:
                self._hold(link_id)

    def write_at_once(self) -> None:
        """Let no message wait for company from now on."""
        self._flow.is_eager = True

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        """Wait, without the lock, until there is room; False at the deadline."""
        with self.lock:
            while not has_room():
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self._wait(left_ns):
                    return has_room()
        return True

    # On the poller.

    def _burst_turn(self) -> None:
        """Write what a burst has left, and look again while whoever publishes fills batches."""
        with self.lock:
            self._settle()
            flow = self._flow
            flow.last_write_ns = self.now_ns()
            if flow.burst_writes:
                flow.burst_writes = 0
                self._timers.call_at(
                    flow.last_write_ns + self.node.settings.burst_ns, self._burst_turn
                )
            else:
                self.node.egress.flush_asked = False

    def _scouting(self) -> Discovery | None:
        """How this node finds and is found, if it is to."""
        node = self.node
        settings = self._settings.scouting.of(node.whatami, must_find=self._opening.must_find)
        if settings is None:
            return None
        return Discovery(
            settings,
            node.zid,
            node.whatami,
            self._poller,
            self._timers,
            self.now_ns,
            locators=self._listeners.locators,
            found=self._found,
            searching=self._is_searching,
            limits=self._limits,
        )

    def _is_searching(self) -> bool:
        """Peers always look for more; a client is content with one."""
        with self.lock:
            return self.node.whatami is not WhatAmI.CLIENT or not self.node.neighbours()

    def _found(self, told: Told) -> None:
        with self.lock:
            self.node.heard_of(told, self.now_ns())
            self._settle()

    def _join(self, endpoint: Endpoint) -> None:
        if self.node.whatami is WhatAmI.CLIENT:
            raise ConfigError(f"{endpoint}", "a client takes no part in groups; use mode peer")
        group = GroupLink(endpoint, self._settings)
        with self.lock:
            if self._closing:
                group.close()
                return
            self._last_link_id += 1
            link_id = self._last_link_id
            pump = GroupPump(
                group,
                self._poller,
                on_datagram=lambda *datagram: self._on_datagram(link_id, *datagram),
                on_closed=lambda reason: self._left(link_id, endpoint, reason),
                limits=self._limits,
                clock=self.now_ns,
            )
            self._pumps[link_id] = pump
            self.node.groups.open(link_id, group.info, self.now_ns())
        pump.start()

    def _on_datagram(self, link_id: int, data: bytes, source: Locator, now_ns: int) -> None:
        node = self.node
        with self.lock:
            node.groups.receive(link_id, source, data, now_ns)
            if node.has_work():
                self._settle()
            else:
                self._arm(node.groups.next_timer_ns())
                self._arm(node.routing.next_timer_ns())
        self.run_due()

    def _left(self, link_id: int, endpoint: Endpoint, reason: str) -> None:
        """A group is gone: we left it, or its interface did."""
        self._on_closed(link_id, reason)
        if not self._closing:
            _LOG.warning("the group %s is lost: %s", endpoint.locator(), reason)
            self._timers.call_at(self.now_ns() + _REJOIN_NS, lambda: self._rejoin(endpoint))

    def _rejoin(self, endpoint: Endpoint) -> None:
        try:
            self._join(endpoint)
        except (LinkError, ConfigError):  # the interface is not there yet
            self._timers.call_at(self.now_ns() + _REJOIN_NS, lambda: self._rejoin(endpoint))
            return
        with self.lock:
            self._settle()

    def _accepted(self, link: Link, ticket: Ticket) -> None:
        self._adopt(
            link,
            lambda link_id, now_ns: self.node.link_opened(link_id, link.info, now_ns),
            ticket,
        )

    def _greet(self, remote: Locator, batch_len_max: int, data: bytes) -> tuple[bool, list[bytes]]:
        """A datagram of a stranger."""
        with self.lock:
            if self._closing:
                return False, []
            return self.node.admission.greet(remote, batch_len_max, data, self.now_ns())

    def _not_accepted(self, source: str, error: LinkError) -> None:
        _LOG.info("rejected connection from %s: %s", source, error)

    def _connected(self, connector_id: int, outcome: Connected | LinkError) -> None:
        if isinstance(outcome, LinkError):
            with self.lock:
                self.node.connect_failed(connector_id, str(outcome), self.now_ns())
                self._settle()
            self.run_due()
            return
        link = outcome.link
        self._adopt(
            link,
            lambda link_id, now_ns: self.node.link_opened(
                link_id, link.info, now_ns, connector_id=connector_id, opened=True
            ),
        )

    def _adopt(
        self, link: Link, opened: Callable[[int, int], None], ticket: Ticket | None = None
    ) -> None:
        with self.lock:
            if self._closing:  # whoever lost us dials again before our listeners are gone
                link.close()
                if ticket is not None:
                    ticket.settle()
                return
            self._last_link_id += 1
            link_id = self._last_link_id
            pump = LinkPump(
                link,
                self._poller,
                on_data=partial(self._on_data, link_id),
                on_closed=lambda reason: self._on_closed(link_id, reason),
                on_drained=lambda: self._on_drained(link_id),
                limits=self._limits,
                clock=self.now_ns,
            )
            self._pumps[link_id] = pump
            if ticket is not None:
                self._tickets[link_id] = ticket
                ticket.on_evicted = pump.close
            opened(link_id, self.now_ns())
        pump.start()
        with self.lock:
            self._settle()
        self.run_due()

    def _on_data(self, link_id: int, data: bytes, now_ns: int) -> int:
        """Octets of a link that is not part of a transport yet."""
        with self.lock:
            wanted_len = self.node.link_data(link_id, data, now_ns)
            intake = self.node.intake(link_id)
            pump = self._pumps.get(link_id)
            if intake is not None and isinstance(pump, LinkPump):
                pump.on_data = partial(self._flow.received, intake)
            self._settle()
        self.run_due()
        return wanted_len

    def _on_closed(self, link_id: int, reason: str) -> None:
        with self.lock:
            self._pumps.pop(link_id, None)
            self._held.discard(link_id)
            self._settle_ticket(link_id)
            self.node.link_closed(link_id, reason, self.now_ns())
            self._settle()
        self.run_due()

    def _on_drained(self, link_id: int) -> None:
        with self.lock:
            self._write(link_id)
            self._settle()

    def _tick(self) -> None:
        with self.lock:
            self._timer = None
            for link_id in self._moved_links():
                self.node.holding.moved(link_id, self.now_ns())
            self.node.handle_timer(self.now_ns())
            self._settle()
        self.run_due()

    # With the lock.

    def arm(self) -> None:
        """A session, or a message, may have set a nearer timer."""
        self._arm(self.node.next_timer_ns())

    def write_dirty(self) -> None:
        """Write what the node has for its links."""
        for link_id in self.node.dirty_links():
            self._write(link_id)

    def follow_up(self) -> None:
        """Do what the node asks for besides."""
        if self.node.has_work():
            self._settle()

    def after_messages(self) -> None:
        """Messages came that may have led to anything."""
        egress = self.node.egress
        if egress.timers_moved or self.node.has_work():
            egress.timers_moved = False
            self._settle()
        else:
            # Hearing something only puts timers of links off; routing may have a nearer one.
            self._arm(self.node.routing.next_timer_ns())

    def begin_burst(self) -> None:
        """See that what waits is written soon."""
        self._poller.call_soon_threadsafe(self._burst_turn)

    def _settle(self) -> None:
        """Do what the node asks for, until it asks for nothing; then set the timer."""
        node = self.node
        while True:
            dirty = node.dirty_links()
            for link_id in dirty:
                self._write(link_id)
            effects = node.effects()
            for effect in effects:
                self._apply(effect)
            if not dirty and not effects:
                break
        self._arm(node.next_timer_ns())
        if self._waiters:
            self._room.notify_all()

    def _arm(self, due_ns: int | None) -> None:
        """Set the timer, if it is not set to something nearer: a tick too early does no harm."""
        if due_ns is None or (self._timer is not None and self._timer.at_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.call_at(due_ns, self._tick)

    def _moved_links(self) -> list[int]:
        """Links with octets that wait, and whose other end took some since this was last asked."""
        return [
            link_id
            for link_id, pump in self._pumps.items()
            if isinstance(pump, LinkPump) and pump.queued_len and pump.has_moved()
        ]

    def _hold(self, link_id: int) -> None:
        """Read a link, or not: as sessions and the node want it."""
        pump = self._pumps.get(link_id)
        if pump is None:
            return
        held = self._holding or link_id in self._held
        self.node.link_held(link_id, held, self.now_ns())
        if held:
            pump.pause_reading()
        else:
            pump.resume_reading()

    def _settle_ticket(self, link_id: int) -> None:
        ticket = self._tickets.pop(link_id, None)
        if ticket is not None:
            ticket.settle()

    def _write(self, link_id: int) -> None:
        pump = self._pumps.get(link_id)
        if pump is None:
            return
        now_ns = self.now_ns()
        while pump.queued_len < WRITE_AHEAD_LEN:
            buffers: list[bytes | memoryview] = []
            while len(buffers) < BUFFERS_COUNT and self.node.pull_into(link_id, now_ns, buffers):
                pass
            if not buffers:
                return
            pump.send(buffers)

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Connect():
                self._dialing.dial(effect)
            case NeighbourUp():
                for link_id in list(self._tickets):
                    if self.node.intake(link_id) is not None:
                        self._settle_ticket(link_id)
                self._opening.noticed(effect)
            case NeighbourDown():
                log_neighbour(effect)
                if self._discovery is not None and not self._closing:
                    self._discovery.ask_again()
            case ConnectFailed():
                self._opening.noticed(effect)
            case HoldReading():
                self._moved_links()  # from now on it counts
                (self._held.add if effect.held else self._held.discard)(effect.link_id)
                self._hold(effect.link_id)
            case CloseLink():
                self._write(effect.link_id)
                pump = self._pumps.get(effect.link_id)
                if pump is not None:
                    pump.close(effect.reason, drain=True)
                    # Who does not read its last words does without them.
                    overdue_ns = self.now_ns() + self._limits.close_flush_ns
                    self._timers.call_at(overdue_ns, lambda: pump.close(effect.reason))

    def _wait(self, timeout_ns: int) -> bool:
        self._waiters += 1
        try:
            return self._room.wait(timeout_ns / 1e9)
        finally:
            self._waiters -= 1

    # Without the lock.

    def run_due(self) -> None:
        for session in self.node.sessions():
            session.deliver()

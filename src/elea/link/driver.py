"""Driver: one node, many links, one timer. The boring shell around `elea.node.Node`.

The node is called under one lock by whichever thread has something for it: the poller's thread
with octets and timers, an application's threads with what they publish. Nobody holds the lock while
an application's code runs: sessions collect what is due, and the thread that released the lock
delivers it.

Batching adapts by itself. A thread that publishes into an idle link writes at once, so a lone
message waits for nobody; one that publishes again within moments leaves its messages in the open
batch, which goes out when it is full or when the poller's turn comes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from elea.config.config import Config
from elea.errors import LinkError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.accept import AcceptLoop
from elea.link.admission import Admission, Ticket
from elea.link.base import Link
from elea.link.connect import Attempt, Connected, Connector
from elea.link.interfaces import advertised
from elea.link.poller import Poller, SelectorPoller
from elea.link.pump import LinkPump
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.timers import Timer, Timers
from elea.locator import Endpoint
from elea.node.egress_hot import BURST_COUNT
from elea.node.neighbour import ConnectionState
from elea.node.node import Node
from elea.node.ports import (
    CallbackThread,
    CloseLink,
    Connect,
    ConnectFailed,
    Effect,
    HoldReading,
    NeighbourUp,
)
from elea.node.settings import NodeSettings

_LOG: Final = logging.getLogger("elea.link")
_WRITE_AHEAD_LEN: Final = 256 * 1024  # pulled into a link's own queue before it must drain
_BUFFERS_COUNT: Final = 32  # batches handed to one write
_BURST_NS: Final = 100_000  # a message this soon after the last write is part of a burst


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
        self._poller = poller
        self._settings = settings
        self._timers = Timers(poller, clock)
        self._connector = Connector(poller, self._timers, settings, Registry(), clock)
        self._admission = Admission(limits)
        self._accepting: list[AcceptLoop] = []
        self._attempts: dict[int, Attempt] = {}
        self._limits = limits
        self._pumps: dict[int, LinkPump] = {}
        self._holding = False  # sessions are behind: no link is read
        self._held: set[int] = set()  # links whose messages have nowhere to go: not read either
        self._tickets: dict[int, Ticket] = {}  # of links whose handshake goes on
        self._last_link_id = 0
        self._closing = False
        self._timer: Timer | None = None
        self._last_write_ns = 0
        self._room = threading.Condition(self.lock)
        self._waiters = 0
        self._ready = threading.Event()  # something came of an attempt to connect
        self.failures: dict[int, str] = {}  # by connector: why its last attempt failed

    # Life.

    def start(self) -> None:
        """Listen where the settings say, then begin to connect.

        Raises:
            LinkError: if a listener cannot be bound.
        """
        for group in self.node.settings.listen:
            for endpoint in group:
                self._listen(endpoint)
        with self.lock:
            bound = [one.listener.locator for one in self._accepting]
            told = tuple(str(one) for one in advertised(bound, asker_loopback=False))
            self.node.routing.set_locators(told)
            self.node.start(self.now_ns())
            self._settle()

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
        for loop in self._accepting:
            self._poller.call_soon_threadsafe(loop.close)
        with self.lock:
            self._closing = True
            for attempt in self._attempts.values():
                attempt.cancel()
            self.node.close(self.now_ns())
            self._settle()

    def has_links(self) -> bool:
        """Whether a link is open still."""
        return bool(self._pumps)

    def end_close(self) -> None:
        """Close what is open still, and end."""
        with self.lock:
            pumps = list(self._pumps.values())
        for pump in pumps:
            pump.close()
        self._poller.stop()

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        for loop in self._accepting:
            loop.abort()
        for pump in self._pumps.values():
            pump.abort()
        self._accepting.clear()
        self._pumps.clear()

    def wait_connected(self) -> None:
        """Wait until `open` may return. behaviour.md 1.11, 1.12.

        Raises:
            LinkError: if connecting is what was asked for and it failed.
        """
        deadline_ns = self.now_ns() + self.node.settings.scouting_delay_ns
        # A tick now and then: declarations of a peer are no event of their own.
        while not self.is_connected(deadline_ns):
            self._ready.wait(0.02)

    def is_connected(self, deadline_ns: int) -> bool:
        """Whether `open` may return now; raises as `wait_connected`."""
        settings = self.node.settings
        with self.lock:
            state = self.node.connection_state()
            self._ready.clear()
        if state is ConnectionState.CONNECTED:
            return True
        if state is ConnectionState.FAILED and settings.exit_on_failure:
            why = "; ".join(self.failures.values()) or "give connect/endpoints"
            raise LinkError(f"cannot connect: {why}")
        waits_for_ever = settings.exit_on_failure and settings.connect
        return not waits_for_ever and self.now_ns() >= deadline_ns

    # Sessions.

    def flush(self) -> None:
        """After local calls, without the lock: write now, or with the rest of a burst."""
        node = self.node
        egress = node.egress
        # Read without the lock: at worst it is taken for nothing.
        if egress.flush_asked and not egress.wants_flush() and not node.timers_moved:
            return
        with self.lock:
            self.flush_locked()

    def relieve(self) -> bool:
        """User code holds the poller's thread up: let another go on with the loop."""
        return self._poller.relieve()

    def hold_reading(self, held: bool) -> None:
        """Stop, or go on, reading from all links."""
        with self.lock:
            self._holding = held
            for link_id in self._pumps:
                self._hold(link_id)

    def flush_locked(self) -> None:
        """The same, with the lock."""
        egress = self.node.egress
        if self.node.timers_moved:
            self.node.timers_moved = False
            self._arm(self.node.next_timer_ns())
        if not egress.express and egress.backlog < BURST_COUNT:
            if egress.flush_asked:
                return
            if egress.backlog and self.now_ns() - self._last_write_ns < _BURST_NS:
                egress.flush_asked = True
                self._poller.call_soon_threadsafe(self._flush_now)
                return
        # No timer moves nearer by writing: what was said only puts the next keep-alive off.
        for link_id in self.node.dirty_links():
            self._write(link_id)
        self._last_write_ns = self.now_ns()  # after the write, which may have taken its time
        if self.node.has_work():
            self._settle()

    def wait_room(self, face_id: int, deadline_ns: int) -> bool:
        """Wait, without the lock, until blocking messages need not wait; False at the deadline."""
        with self.lock:
            while not self.node.has_room(face_id):
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self._wait(left_ns):
                    return self.node.has_room(face_id)
        return True

    # On the poller.

    def _flush_now(self) -> None:
        with self.lock:
            self.node.egress.flush_asked = False
            self._settle()
            self._last_write_ns = self.now_ns()

    def _listen(self, endpoint: Endpoint) -> None:
        scheme = self._connector.registry.scheme(endpoint.protocol, self._settings.protocols)
        for address in scheme.resolve(endpoint, listening=True):
            listener = scheme.listen(endpoint, address, self._settings)
            loop = AcceptLoop(
                listener,
                self._poller,
                self._timers,
                self._admission,
                on_link=self._accepted,
                on_failure=self._not_accepted,
                limits=self._limits,
                clock=self.now_ns,
            )
            self._accepting.append(loop)
            loop.start()

    def _accepted(self, link: Link, ticket: Ticket) -> None:
        self._adopt(
            link,
            lambda link_id, now_ns: self.node.link_opened(link_id, link.info, now_ns),
            ticket,
        )

    def _not_accepted(self, source: str, error: LinkError) -> None:
        _LOG.info("a link from %s came to nothing: %s", source, error)

    def _connected(self, connector_id: int, outcome: Connected | LinkError) -> None:
        self._attempts.pop(connector_id, None)
        if isinstance(outcome, LinkError):
            with self.lock:
                self.node.connect_failed(connector_id, str(outcome), self.now_ns())
                self._settle()
            self._run_due()
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
                on_data=lambda data, now_ns: self._on_data(link_id, data, now_ns),
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
        self._run_due()

    def _on_data(self, link_id: int, data: bytes, now_ns: int) -> None:
        node = self.node
        with self.lock:
            node.link_data(link_id, data, now_ns)
            if node.has_work():
                self._settle()
            else:
                # Hearing something only puts timers of links off; routing may have a nearer one.
                self._arm(node.routing.next_timer_ns())
        self._run_due()

    def _on_closed(self, link_id: int, reason: str) -> None:
        with self.lock:
            self._pumps.pop(link_id, None)
            self._held.discard(link_id)
            self._settle_ticket(link_id)
            self.node.link_closed(link_id, reason, self.now_ns())
            self._settle()
        self._run_due()

    def _on_drained(self, link_id: int) -> None:
        with self.lock:
            self._write(link_id)
            self._settle()

    def _tick(self) -> None:
        with self.lock:
            self._timer = None
            self.node.handle_timer(self.now_ns())
            self._settle()
        self._run_due()

    # With the lock.

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
        while pump.queued_len < _WRITE_AHEAD_LEN:
            buffers: list[bytes] = []
            while len(buffers) < _BUFFERS_COUNT:
                data = self.node.pull(link_id, now_ns)
                if data is None:
                    break
                buffers.append(data)
            if not buffers:
                return
            pump.send(buffers)

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Connect():
                connector_id = effect.connector_id
                self._attempts[connector_id] = self._connector.connect(
                    effect.endpoints,
                    timeout_ns=effect.timeout_ns,
                    on_done=lambda outcome: self._connected(connector_id, outcome),
                )
            case NeighbourUp():
                for link_id in list(self._tickets):
                    if self.node.is_established(link_id):
                        self._settle_ticket(link_id)
                self._ready.set()
            case ConnectFailed():
                self.failures[effect.connector_id] = effect.reason
                self._ready.set()
            case HoldReading():
                (self._held.add if effect.held else self._held.discard)(effect.link_id)
                self._hold(effect.link_id)
            case CloseLink():
                self._write(effect.link_id)
                pump = self._pumps.get(effect.link_id)
                if pump is not None:
                    pump.close(effect.reason, drain=True)
            case _:
                _LOG.debug("%s", effect)

    def _wait(self, timeout_ns: int) -> bool:
        self._waiters += 1
        try:
            return self._room.wait(timeout_ns / 1e9)
        finally:
            self._waiters -= 1

    # Without the lock.

    def _run_due(self) -> None:
        for session in self.node.sessions():
            session.deliver()


def open_driver(config: Config) -> Driver:
    """A node for this configuration on real links: listening, and connected as far as it must be.

    Raises:
        LinkError: if it cannot listen, or cannot connect although it must.
        ConfigError: if the configuration asks for something that cannot be.
    """
    node = Node(NodeSettings.from_config(config, os.urandom), rng=os.urandom)
    driver = Driver(node, SelectorPoller(), LinkSettings.from_config(config))
    try:
        driver.start()
        driver.wait_connected()
    except BaseException:
        driver.close(0)
        raise
    return driver

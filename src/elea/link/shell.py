"""Shell: one node, many links, one timer; read, feed, write, arm. All that is boring of a driver.

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

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.base import Leased, Link, Lossy
from elea.link.flow import Flow
from elea.link.poller import Poller
from elea.link.pump import LinkPump
from elea.link.pumps import Pumps
from elea.link.timers import Timer, Timers
from elea.node.node import Node
from elea.node.ports import CloseLink, Effect
from elea.node.stats import Refusal

# Tells the node of a link: its number, the time, and what closes it for a reason.
Opened: TypeAlias = Callable[[int, int, Callable[[str], None]], None]


class Shell(ABC):
    """A node between its links and its sessions.

    Args:
        node: The node.
        poller: The loop that watches its links.
        limits: The node's bounds.
        clock: The monotonic time.
    """

    def __init__(
        self,
        node: Node,
        poller: Poller,
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.node = node
        self.lock = threading.Lock()
        self.now_ns = clock
        self.poller = poller
        self.timers = Timers(poller, clock)
        self.pumps = Pumps(node, clock)
        self.is_closing = False  # no link is taken any more
        self._limits = limits
        self._timer: Timer | None = None
        self._room = threading.Condition(self.lock)
        self._waiters = 0
        # What is done for each message, compiled.
        self._flow = Flow(node.egress, self.lock, self.pumps.by_id, clock, self)
        self._flow.is_eager = not node.settings.transport.batching
        # Bound once: an interpreted method in between would cost as much.
        self.flush = self._flow.flush
        self.flush_locked = self._flow.flush_locked

    # Links.

    def call(self, action: Callable[[int], None]) -> None:
        """Let the node be called, at the time given, and do what it asks for then."""
        with self.lock:
            action(self.now_ns())
            self.settle()
        self.run_due()

    def adopt(self, link: Link, opened: Opened) -> bool:
        """Take a link; False if the node is closing: it is closed then."""
        if isinstance(link, Lossy):
            link.on_dropped = partial(self.node.stats.refuse, Refusal.LINE)

        def pump_of(link_id: int) -> LinkPump:
            return LinkPump(
                link,
                self.poller,
                on_data=partial(self._on_data, link_id),
                on_closed=lambda reason: self.closed(link_id, reason),
                on_drained=lambda: self._on_drained(link_id),
                limits=self._limits,
                clock=self.now_ns,
            )

        with self.lock:
            if self.is_closing:  # whoever lost us dials again before our listeners are gone
                link.close()
                return False
            link_id, pump = self.pumps.add(pump_of)
            if isinstance(link, Leased):
                link.on_recall = partial(pump.close, drain=True)
            opened(link_id, self.now_ns(), pump.close)
        pump.start()
        with self.lock:
            self.settle()
        self.run_due()
        return True

    def closed(self, link_id: int, reason: str) -> None:
        """A link is gone."""
        with self.lock:
            self.pumps.remove(link_id)
            self.gone(link_id)
            self.node.link_closed(link_id, reason, self.now_ns())
            self.settle()
        self.run_due()

    # Sessions.

    def relieve(self) -> bool:
        """User code holds the poller's thread up: let another go on with the loop."""
        return self.poller.relieve()

    def hold_reading(self, held: bool) -> None:
        """Stop, or go on, reading from all links."""
        with self.lock:
            self.pumps.hold_all(held)

    def write_at_once(self) -> None:
        """Let no message wait for company from now on."""
        self._flow.is_eager = True

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        """Wait, without the lock, until there is room; False at the deadline."""
        with self.lock:
            while not has_room():
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self.wait(left_ns):
                    return has_room()
        return True

    # On the poller.

    def _on_data(self, link_id: int, data: bytes, now_ns: int) -> int:
        """Octets of a link that is not part of a transport yet."""
        with self.lock:
            wanted_len = self.node.link_data(link_id, data, now_ns)
            intake = self.node.intake(link_id)
            pump = self.pumps.by_id.get(link_id)
            if intake is not None and isinstance(pump, LinkPump):
                pump.on_data = partial(self._flow.received, intake)
            self.settle()
        self.run_due()
        return wanted_len

    def _on_drained(self, link_id: int) -> None:
        with self.lock:
            self.pumps.write(link_id)
            self.settle()

    def _tick(self) -> None:
        with self.lock:
            self._timer = None
            for link_id in self.pumps.moved():
                self.node.holding.moved(link_id, self.now_ns())
            self.node.handle_timer(self.now_ns())
            self.settle()
        self.run_due()

    def _burst_turn(self) -> None:
        """Write what a burst has left, and look again while whoever publishes fills batches."""
        with self.lock:
            self.settle()
            flow = self._flow
            flow.last_write_ns = self.now_ns()
            if flow.burst_writes:
                flow.burst_writes = 0
                self.timers.call_at(
                    flow.last_write_ns + self.node.settings.burst_ns, self._burst_turn
                )
            else:
                self.node.egress.flush_asked = False

    # With the lock.

    @abstractmethod
    def apply(self, effect: Effect) -> None:
        """Do one thing that the node asks for."""

    @abstractmethod
    def gone(self, link_id: int) -> None:
        """A link is gone: forget what is kept of it."""

    def arm(self) -> None:
        """A session, or a message, may have set a nearer timer."""
        self.arm_at(self.node.next_timer_ns())

    def write_dirty(self) -> None:
        """Write what the node has for its links."""
        self.pumps.write_dirty()

    def follow_up(self) -> None:
        """Do what the node asks for besides."""
        if self.node.has_work():
            self.settle()

    def after_messages(self) -> None:
        """Messages came that may have led to anything."""
        egress = self.node.egress
        if egress.timers_moved or self.node.has_work():
            egress.timers_moved = False
            self.settle()
        else:
            # Hearing something only puts timers of links off; routing may have a nearer one.
            self.arm_at(self.node.routing.next_timer_ns())

    def begin_burst(self) -> None:
        """See that what waits is written soon."""
        self.poller.call_soon_threadsafe(self._burst_turn)

    def settle(self) -> None:
        """Do what the node asks for, until it asks for nothing; then set the timer."""
        node = self.node
        while True:
            has_written = self.pumps.write_dirty()
            effects = node.effects()
            for effect in effects:
                self.apply(effect)
            if not has_written and not effects:
                break
        self.arm_at(node.next_timer_ns())
        if self._waiters:
            self._room.notify_all()

    def arm_at(self, due_ns: int | None) -> None:
        """Set the timer, if it is not set to something nearer: a tick too early does no harm."""
        if due_ns is None or (self._timer is not None and self._timer.at_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.timers.call_at(due_ns, self._tick)

    def close_link(self, effect: CloseLink) -> None:
        """Close a link once what waits is written, or the peer has not taken it in time."""
        self.pumps.write(effect.link_id)
        pump = self.pumps.by_id.get(effect.link_id)
        if pump is not None:
            pump.close(effect.reason, drain=True)
            # A peer that does not read is cut off without receiving CLOSE.
            overdue_ns = self.now_ns() + self._limits.close_flush_ns
            self.timers.call_at(overdue_ns, lambda: pump.close(effect.reason))

    def wait(self, timeout_ns: int) -> bool:
        """Wait until something has changed; False if nothing has in this time."""
        self._waiters += 1
        try:
            return self._room.wait(timeout_ns / 1e9)
        finally:
            self._waiters -= 1

    # Without the lock.

    def run_due(self) -> None:
        """Run what is due in all sessions."""
        for session in self.node.sessions():
            session.deliver()

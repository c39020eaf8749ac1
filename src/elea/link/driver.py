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
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.base import Link, Listener
from elea.link.poller import Poller
from elea.link.pump import LinkPump
from elea.locator import Endpoint
from elea.node.node import Node
from elea.node.ports import CloseLink, Connect, Effect

_LOG: Final = logging.getLogger("elea.link")
_WRITE_AHEAD_LEN: Final = 256 * 1024  # pulled into a link's own queue before it must drain
_BUFFERS_COUNT: Final = 32  # batches handed to one write
_BURST_NS: Final = 100_000  # a message this soon after the last write is part of a burst
_BURST_COUNT: Final = 1_024  # messages of a burst that wait for the poller; then they are written


class Dialler(Protocol):
    """Makes links; calls back on the poller."""

    def dial(
        self,
        endpoints: tuple[Endpoint, ...],
        timeout_ns: int,
        on_link: Callable[[Link], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Try all endpoints at once; exactly one of the callbacks is called."""

    def listen(self, endpoint: Endpoint, on_link: Callable[[Link], None]) -> Listener:
        """Accept links from now on.

        Raises:
            LinkError: if the endpoint cannot be bound.
        """

    def close(self) -> None:
        """Give up what is being dialled and listened on."""


class Driver:
    """Runs one node on real links.

    Args:
        node: The node.
        poller: The loop that watches its links.
        dialler: Makes links.
        limits: The node's bounds.
    """

    def __init__(
        self,
        node: Node,
        poller: Poller,
        dialler: Dialler,
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.node = node
        self.lock = threading.Lock()
        self.now_ns = clock
        self.wall_ns = wall_clock
        self.listeners: list[Listener] = []
        self._poller = poller
        self._dialler = dialler
        self._limits = limits
        self._pumps: dict[int, LinkPump] = {}
        self._last_link_id = 0
        self._timer_ns: int | None = None
        self._last_write_ns = 0
        self._flush_asked = False
        self._room = threading.Condition(self.lock)
        self._waiters = 0
        self._due: tuple[Callable[[], None], ...] = ()
        self._closed = threading.Event()

    # Life.

    def start(self) -> None:
        """Listen where the settings say, then begin to connect.

        Raises:
            LinkError: if a listener cannot be bound.
        """
        for group in self.node.settings.listen:
            for endpoint in group:
                self.listeners.append(self._dialler.listen(endpoint, self._accepted))
        with self.lock:
            locators = tuple(str(one.locator) for one in self.listeners)
            self.node.routing.set_locators(locators)
            self.node.start(self.now_ns())
            self._settle()

    def close(self, timeout_ns: int) -> None:
        """Say goodbye to every neighbour, and end when that is written or the time is over."""
        with self.lock:
            self._dialler.close()
            self.node.close(self.now_ns())
            self._settle()
            deadline_ns = self.now_ns() + timeout_ns
            while self._pumps and not self._poller.in_loop():
                left_ns = deadline_ns - self.now_ns()
                if left_ns <= 0 or not self._wait(left_ns):
                    break
            pumps = list(self._pumps.values())
        for pump in pumps:
            pump.close()
        self._poller.stop()
        self._closed.set()

    def on_due(self, call: Callable[[], None]) -> None:
        """Have `call` run, without the lock, after each turn that may have made something due."""
        self._due = (*self._due, call)

    def off_due(self, call: Callable[[], None]) -> None:
        """The opposite of `on_due`."""
        self._due = tuple(one for one in self._due if one != call)

    # Sessions.

    def flush_locked(self, *, express: bool = False) -> None:
        """After local calls, with the lock: write now, or with the rest of a burst."""
        egress = self.node.egress
        if not express and egress.backlog < _BURST_COUNT:
            if self._flush_asked or not egress.backlog:
                return
            if self.now_ns() - self._last_write_ns < _BURST_NS:
                self._flush_asked = True
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
            self._flush_asked = False
            self._settle()
            self._last_write_ns = self.now_ns()

    def _accepted(self, link: Link) -> None:
        self._adopt(link, lambda link_id, now_ns: self.node.link_opened(link_id, link.info, now_ns))

    def _dialled(self, link: Link, connector_id: int) -> None:
        self._adopt(
            link,
            lambda link_id, now_ns: self.node.link_opened(
                link_id, link.info, now_ns, connector_id=connector_id, opened=True
            ),
        )

    def _adopt(self, link: Link, opened: Callable[[int, int], None]) -> None:
        with self.lock:
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
            opened(link_id, self.now_ns())
        pump.start()
        with self.lock:
            self._settle()
        self._run_due()

    def _not_dialled(self, connector_id: int, reason: str) -> None:
        with self.lock:
            self.node.connect_failed(connector_id, reason, self.now_ns())
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
            self.node.link_closed(link_id, reason, self.now_ns())
            self._settle()
        self._run_due()

    def _on_drained(self, link_id: int) -> None:
        with self.lock:
            self._write(link_id)
            self._settle()

    def _tick(self) -> None:
        with self.lock:
            self._timer_ns = None
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
        if due_ns is not None and (self._timer_ns is None or due_ns < self._timer_ns):
            self._timer_ns = due_ns
            self._poller.set_deadline(due_ns, self._tick)

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
                self._dialler.dial(
                    effect.endpoints,
                    effect.timeout_ns,
                    lambda link: self._dialled(link, connector_id),
                    lambda reason: self._not_dialled(connector_id, reason),
                )
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
        for call in self._due:
            call()

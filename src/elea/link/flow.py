"""Flow: what a driver does for each message, compiled. Everything else is the driver's.

Samples of sessions are written, and samples for sessions are handed over, without an interpreted
step between the application and the socket. Whatever else happens is told to the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from elea.fast.egress import BURST_COUNT, Egress, Outlet
from elea.fast.intake import Intake
from elea.link.multicast import GroupPump
from elea.link.pump import LinkPump

WRITE_AHEAD_LEN: Final = 256 * 1024  # pulled into a link's own queue before it must drain
BUFFERS_COUNT: Final = 32  # handed to one write
TURN_COUNT: Final = 128  # messages of one link before the others have their turn (T21, T23)
_BURST_NS: Final = 100_000  # a message this soon after the last write is part of a burst


class Lock(Protocol):
    """The node's lock."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class Rest(Protocol):
    """The driver, for what is not done here. All with the lock, but `run_due`."""

    def arm(self) -> None:
        """A session may have set a nearer timer."""

    def write_dirty(self) -> None:
        """Write what the node has for its links."""

    def follow_up(self) -> None:
        """Do what else the node asks for."""

    def after_messages(self) -> None:
        """Messages came that may have led to anything."""

    def begin_burst(self) -> None:
        """See that what waits is written soon."""

    def run_due(self) -> None:
        """Run what is due in all sessions."""


class Flow:
    """The octets of one node.

    Args:
        egress: Where the messages of the node leave.
        lock: The node's lock.
        pumps: Its links, by number.
        now_ns: The monotonic clock.
        rest: Does the rest.
    """

    __slots__ = (
        "_acquire",
        "_egress",
        "_now_ns",
        "_pumps",
        "_release",
        "_rest",
        "burst_writes",
        "is_eager",
        "last_write_ns",
    )

    def __init__(
        self,
        egress: Egress,
        lock: Lock,
        pumps: dict[int, LinkPump | GroupPump],
        now_ns: Callable[[], int],
        rest: Rest,
    ) -> None:
        self._egress = egress
        self._acquire: Callable[[], bool] = lock.acquire
        self._release: Callable[[], None] = lock.release
        self._pumps = pumps
        self._now_ns = now_ns
        self._rest = rest
        self.last_write_ns = 0
        self.is_eager = False  # nothing waits for company
        self.burst_writes = 0  # by threads of the application, since the poller's last turn

    def flush(self) -> None:
        """After local calls, without the lock: write now, or with the rest of a burst."""
        egress = self._egress
        # Read without the lock: at worst it is taken for nothing.
        if egress.flush_asked and not egress.wants_flush() and not egress.timers_moved:
            return
        self._acquire()
        try:
            self.flush_locked()
        finally:
            self._release()

    def flush_locked(self) -> None:
        """The same, with the lock."""
        egress = self._egress
        if egress.timers_moved:
            egress.timers_moved = False
            self._rest.arm()
        if not self.is_eager and not egress.express and egress.backlog < BURST_COUNT:
            if egress.flush_asked:
                return
            if egress.backlog > 0 and self._now_ns() - self.last_write_ns < _BURST_NS:
                egress.flush_asked = True
                self.burst_writes = 0
                self._rest.begin_burst()
                return
        self.burst_writes += 1
        # No timer moves nearer by writing: what was said only puts the next keep-alive off.
        if not self._write_sole_links():
            self._rest.write_dirty()
        self.last_write_ns = self._now_ns()  # after the write, which may have taken its time
        self._rest.follow_up()

    def received(self, intake: Intake, data: bytes, now_ns: int) -> int:
        """Octets of a neighbour's link arrived; how many it would be best to read next."""
        sink = intake.sink
        sink.begin()
        egress = self._egress
        self._acquire()
        try:
            wanted_len = intake.receive(data, now_ns, TURN_COUNT)
            general = sink.general
            served = sink.served
            if general:
                self._rest.after_messages()
            else:
                if egress.timers_moved:
                    egress.timers_moved = False
                    self._rest.arm()
                if egress.dirty:
                    self._pass_on()
        finally:
            self._release()
        # Functions of the user run here: another thread may take over the loop meanwhile.
        if general:
            self._rest.run_due()
        else:
            for session in served:
                session.deliver()
        return wanted_len

    def _pass_on(self) -> None:
        """Write what one read brought for other nodes: all of its samples at once."""
        if not self._write_sole_links():
            self._rest.write_dirty()
            self._rest.arm()  # who takes nothing is not waited for for ever
        self._rest.follow_up()

    def _write_sole_links(self) -> bool:
        """Write to neighbours with one link and nothing special; whether that was all."""
        egress = self._egress
        for outlet in egress.dirty:
            if outlet.link_id < 0 or outlet.stuck:
                return False
        dirty = egress.take_dirty()
        now_ns = self._now_ns()
        for outlet in dirty:
            self._write_sole_link(outlet, now_ns)
        return True

    def _write_sole_link(self, outlet: Outlet, now_ns: int) -> None:
        pump = self._pumps.get(outlet.link_id)
        transport = outlet.transport
        if transport is None or not isinstance(pump, LinkPump):
            return
        while pump.queued_len < WRITE_AHEAD_LEN:
            parts: list[bytes | memoryview] = []
            while len(parts) < BUFFERS_COUNT and transport.pull_into(outlet.link_id, now_ns, parts):
                pass
            if not parts:
                return
            pump.send(parts)

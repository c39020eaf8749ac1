"""The best-effort channel: numbered, sent and forgotten; what comes late is dropped (10.4)."""

from __future__ import annotations

from elea.xrce.channel.serial import Serial


class BestEffortReceiver:
    """One direction of one conduit: order is kept, loss and repetitions are dropped."""

    __slots__ = ("_expected", "_idle_ns", "_last_ns", "_serial", "dropped_count")

    def __init__(self, serial: Serial, idle_ns: int) -> None:
        self.dropped_count = 0
        self._serial = serial
        self._expected: int | None = None  # the first number may be any
        self._idle_ns = idle_ns
        self._last_ns = 0

    def receive(self, sn: int, now_ns: int) -> bool:
        """Whether a message with this number is to be delivered."""
        self._serial.check(sn)
        # After a long silence an old expectation would swallow half of all numbers.
        idle = self._idle_ns > 0 and now_ns - self._last_ns > self._idle_ns
        if self._expected is not None and not idle and self._is_old(sn):
            self.dropped_count += 1
            return False
        self._expected = self._serial.after(sn)
        self._last_ns = now_ns
        return True

    def synch(self, sn: int) -> None:
        """The peer says which number comes next."""
        self._expected = self._serial.check(sn)

    def _is_old(self, sn: int) -> bool:
        return self._expected is not None and self._serial.distance(sn, self._expected) < 0

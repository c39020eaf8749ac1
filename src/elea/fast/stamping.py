"""Stamper: what a router does to the timestamps of samples (behaviour.md 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elea.fast.plain import PlainPush
from elea.timestamp import HybridClock
from elea.wire.buffer import OCTETS, Writer
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, write_stamp
from elea.wire.network.push import Push

if TYPE_CHECKING:
    from mypy_extensions import i64

KEEP: Final = b""  # the timestamp that a sample has may stay

_SIGN: Final = -0x7FFF_FFFF_FFFF_FFFF - 1  # turns unsigned order into signed order
_TIME_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


class Stamper:
    """Stamps values that have no timestamp, and those from the future anew.

    Samples that are read in place come in runs: the first reads the clock, `stamp_plain` counts on
    from there, `end` tells the clock how far it came. Until then the clock is not used.

    Args:
        clock: The node's; timestamps of its own and of others stay in order.
        wall_ns: Tells the time of day.
        drops_future: Whether values from the future are dropped instead.
    """

    __slots__ = (
        "_clock",
        "_drops_future",
        "_high",
        "_high_octets",
        "_id",
        "_last",
        "_latest",
        "_running",
        "_wall_ns",
    )

    def __init__(
        self, clock: HybridClock, wall_ns: Callable[[], int], *, drops_future: bool = False
    ) -> None:
        self._clock = clock
        self._wall_ns = wall_ns
        self._drops_future = drops_future
        self._id = clock.id.to_bytes()
        # Of a run. Times are 64 bits, as signed numbers in the order of the unsigned ones.
        self._latest: i64 = 0  # that is believed
        self._last: i64 = 0  # that was issued or believed
        self._running = False
        self._high: i64 = 0  # of the last time issued: all but its first octet,
        self._high_octets = b""  # and that as it is written, with the clock's id

    def stamp(self, push: Push) -> Push | None:
        """The sample as it goes on; None if it does not."""
        body = push.body
        if not isinstance(body, Put):
            return push  # deletions are never stamped
        wall_ns = self._wall_ns()
        known = body.timestamp
        if known is not None:
            if self._clock.accept(wall_ns, known.time):
                return push
            if self._drops_future:
                return None
        stamped = Put(
            body.payload,
            Stamp(self._clock.tick(wall_ns), self._id),
            body.encoding,
            body.attachment,
            body.source,
            body.slices,
            body.extras,
        )
        return Push(
            push.key, stamped, push.qos, push.timestamp, push.node_id, push.ts_stack, push.extras
        )

    def stamp_plain(self, plain: PlainPush) -> bytes | None:
        """The octets of the timestamp that a sample gets: KEEP if it keeps its own.

        None: it is not to go on, which the general way has to find out and count.
        """
        if not self._running:
            self._begin()
        if plain.stamped:
            time: i64 = plain.time ^ _SIGN
            if time <= self._latest:
                if time > self._last:
                    self._last = time
                return KEEP
            if self._drops_future:
                return None
            self._clock.refused_count += 1
        self._last += 1
        issued: i64 = self._last ^ _SIGN
        plain.restamp(issued, self._id)
        high: i64 = issued >> 7
        if high == 0:
            return self._octets(issued)
        if high != self._high:
            self._high = high
            self._high_octets = self._octets(issued)[1:]
        return OCTETS[issued & 0x7F | 0x80] + self._high_octets

    def end(self) -> None:
        """That was the last of them, if there were any."""
        if self._running:
            last: int = self._last  # widened first: it has 64 bits
            self._clock.advance(last - _SIGN)
            self._running = False

    def _begin(self) -> None:
        wall_ns = self._wall_ns()
        self._latest = min(self._clock.latest(wall_ns), _TIME_MASK) + _SIGN
        self._last = self._clock.floor(wall_ns) + _SIGN
        self._running = True

    def _octets(self, time: i64) -> bytes:
        wide: int = time
        writer = Writer()
        write_stamp(writer, Stamp(wide & _TIME_MASK, self._id))
        return writer.to_bytes()

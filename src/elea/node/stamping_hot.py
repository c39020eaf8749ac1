"""Stamper: what a router does to the timestamps of samples (behaviour.md 5.3)."""

from __future__ import annotations

from collections.abc import Callable

from elea.timestamp import HybridClock
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import Stamp
from elea.wire.network.push_hot import Push


class Stamper:
    """Stamps values that have no timestamp, and those from the future anew.

    Args:
        clock: The node's; timestamps of its own and of others stay in order.
        wall_ns: Tells the time of day.
        drops_future: Whether values from the future are dropped instead.
    """

    __slots__ = ("_clock", "_drops_future", "_id", "_wall_ns")

    def __init__(
        self, clock: HybridClock, wall_ns: Callable[[], int], *, drops_future: bool = False
    ) -> None:
        self._clock = clock
        self._wall_ns = wall_ns
        self._drops_future = drops_future
        self._id = clock.id.to_bytes()

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

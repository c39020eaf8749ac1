"""Publication: one key of one session, from a payload into the open batch in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.node.egress_hot import Egress
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import WireEncoding, WireExpr
from elea.wire.network.push_hot import Push

BURST_COUNT: Final = 1_024  # messages of a burst that wait for the driver's loop

RoutePush = Callable[[int, str, Push, bool, int], int]


class Publication:
    """Puts of one publisher that carry nothing but a payload.

    Called under the node's lock. `wants_flush` tells, after a put, whether the driver should write
    now: most puts of a burst need not even ask it.
    """

    __slots__ = (
        "_egress",
        "_encoding",
        "_face_id",
        "_key",
        "_qos",
        "_reliable",
        "_route",
        "_wire_key",
    )

    def __init__(
        self,
        route: RoutePush,
        egress: Egress,
        face_id: int,
        wire_key: WireExpr,
        encoding: WireEncoding | None,
        qos: int,
        reliable: bool,
    ) -> None:
        self._route = route
        self._egress = egress
        self._face_id = face_id
        self._wire_key = wire_key
        self._key = wire_key.suffix
        self._encoding = encoding
        self._qos = qos
        self._reliable = reliable

    def put(self, payload: bytes) -> int:
        """Send a value to the network: SENT, DROPPED or FULL."""
        push = Push(self._wire_key, Put(payload, None, self._encoding), self._qos)
        return self._route(self._face_id, self._key, push, self._reliable, 0)

    def wants_flush(self) -> bool:
        """Whether there is something to write that nobody is going to write soon."""
        egress = self._egress
        if egress.flush_asked:
            return egress.backlog >= BURST_COUNT
        return egress.backlog > 0

"""Messages that the transport tests send."""

from __future__ import annotations

from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push

DATA = 0x05
BLOCK = 0x08
EXPRESS = 0x10
BLOCK_FIRST = 0x20


def put(payload: bytes = b"12345678", qos: int = DATA, key: str = "a/b") -> Push:
    """A PUT with this payload and QoS octet."""
    return Push(WireExpr(0, key), Put(payload), qos)


def declare() -> Declare:
    """A declaration; whatever its QoS octet says, it is control traffic."""
    return Declare(DeclareFinal(), interest_id=1)

"""Transport: two of them back to back."""

from __future__ import annotations

from tests.pairs import Pair

from elea.transport.batching_hot import SENT
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import WireExpr
from elea.wire.network.push_hot import Push


def put(key: str, payload: bytes, qos: int = 5) -> Push:
    return Push(WireExpr(0, key), Put(payload), qos)


def test_messages_of_any_length_arrive_in_order() -> None:
    pair = Pair()
    messages = [put("k", bytes([n]) * 10**n, qos=13) for n in range(7)]
    for message in messages:
        assert pair.a.transport.send(message, True, 0) == SENT
        pair.carry()
    assert pair.b.sink.messages == messages

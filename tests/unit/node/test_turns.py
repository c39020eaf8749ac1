"""What one link brings is done in turns, so that others are not kept waiting. Threats T21, T23."""

from __future__ import annotations

import pytest
from tests.pairs import LINK, Pair

from elea.fast.egress import Egress, Outlet
from elea.fast.intake import MORE, Intake
from elea.fast.sink import ALL, FaceSink
from elea.limits import DEFAULT_LIMITS
from elea.routing.core import Routing
from elea.routing.face import FaceSpec
from elea.routing.regions import CLIENT
from elea.routing.roles.router import ROUTER_ROLE
from elea.routing.tables import Kind
from elea.transport.events import Events
from elea.wire.batches import encode_batch
from elea.wire.codec import Message
from elea.wire.fields import WireExpr
from elea.wire.framing import StreamDecoder, frame
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.frame import Frame

FACE = 1


class Hub:
    """A router's end of a link."""

    def __init__(self, *, stream: bool = True) -> None:
        self.pair = Pair()
        self.events: list[Events] = []
        self.errors: list[Exception] = []
        egress = Egress(lambda face_id, message, reliable: 0)
        self.routing = Routing(b"\x07", ROUTER_ROLE, egress, DEFAULT_LIMITS)
        egress.outlets[FACE] = Outlet(FACE, None, self.pair.b.transport.queues)
        placement = ROUTER_ROLE.place(CLIENT)
        assert placement is not None
        spec = FaceSpec(zid=b"\x01", whatami=CLIENT, region=placement.region)
        self.routing.open_face(FACE, spec, 0)
        self.intake = Intake(
            LINK,
            self.pair.b.transport,
            FaceSink(self.routing, FACE, egress),
            StreamDecoder() if stream else None,
            egress,
            lambda events, now_ns: self.events.append(events),
            lambda error, now_ns: self.errors.append(error),
        )
        self._sn = self.pair.views[0].own_initial_sn

    def batch(self, first: int, count: int, *, last: bool = False) -> bytes:
        declared = [
            Declare(DeclareSubscriber(number, WireExpr(0, f"k/{number}")))
            for number in range(first, first + count)
        ]
        messages: list[Message] = [
            Frame(self._sn),
            *declared,
            *([Close(CloseReason.GENERIC)] if last else []),
        ]
        self._sn += 1
        return encode_batch(messages)

    def known(self) -> int:
        return self.routing.tables.count(Kind.SUBSCRIBER)


def test_a_flood_is_read_in_turns_and_in_order() -> None:
    hub = Hub()
    octets = frame(hub.batch(1, 330)) + frame(hub.batch(331, 20, last=True))
    answer = hub.intake.receive(octets, 0, 100)
    seen = []
    while answer == MORE:
        seen.append(hub.known())
        assert not hub.events
        answer = hub.intake.receive(b"", 0, 100)
    assert seen == [100, 200, 300]
    assert hub.known() == 350
    assert len(hub.events) == 1  # CLOSE, after all that stood before it


def test_octets_that_come_meanwhile_wait() -> None:
    hub = Hub()
    assert hub.intake.receive(frame(hub.batch(1, 10)), 0, 4) == MORE
    assert hub.intake.receive(frame(hub.batch(11, 2)), 0, 4) == MORE
    assert hub.known() == 8
    assert hub.intake.receive(b"", 0, ALL) != MORE
    assert hub.known() == 12


def test_datagrams_too() -> None:
    hub = Hub(stream=False)
    assert hub.intake.receive(hub.batch(1, 10), 0, 6) == MORE
    assert hub.intake.receive(b"", 0, 6) == 0
    assert hub.known() == 10


@pytest.mark.parametrize("turn_count", [3, ALL])
def test_what_is_wrong_is_found_in_whichever_turn(turn_count: int) -> None:
    hub = Hub()
    spoiled = hub.batch(1, 10)[:-3] + b"\xff\xff\xff"
    answer = hub.intake.receive(frame(spoiled), 0, turn_count)
    while answer == MORE:
        assert not hub.errors
        answer = hub.intake.receive(b"", 0, turn_count)
    assert len(hub.errors) == 1
    assert hub.known() == 9

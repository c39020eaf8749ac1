"""Small worlds for tests: nodes with one recording session each."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from elea.ids import WhatAmI
from elea.locator import Endpoint
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.node.settings import NodeSettings
from elea.sim.world import SimDriver, World
from elea.transport.negotiation import Offer
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push


@dataclass
class Session:
    """A session that records what it is given."""

    driver: SimDriver
    samples: list[tuple[str, bytes]] = field(default_factory=list)
    messages: list[NetworkMessage] = field(default_factory=list)
    neighbours: list[NeighbourUp | NeighbourDown] = field(default_factory=list)
    entities: int = 0

    def __post_init__(self) -> None:
        self.face_id = self.driver.node.attach(self)

    def push(self, key: str, push: Push, reliable: bool) -> None:
        assert isinstance(push.body, Put)
        self.samples.append((key, push.body.payload))

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        self.messages.append(message)

    def neighbour(self, event: NeighbourUp | NeighbourDown) -> None:
        self.neighbours.append(event)

    def next_timer_ns(self) -> int | None:
        return None

    def handle_timer(self, now_ns: int) -> None:
        pass

    def deliver(self) -> None:
        pass

    def subscribe(self, key: str) -> None:
        """Declare a subscriber."""
        self.entities += 1
        declare = Declare(DeclareSubscriber(self.entities, WireExpr(0, key)), qos=QOS_DECLARE)
        self.driver.node.local_send(self.face_id, declare, True, self.driver.now_ns())
        self.driver.flush()

    def put(self, key: str, payload: bytes, *, qos: int = 0x0D) -> int:
        """Publish; blocking by default, so that nothing is lost while links live."""
        push = Push(WireExpr(0, key), Put(payload), qos)
        now_ns = self.driver.now_ns()
        answer = self.driver.node.local_push(self.face_id, key, push, True, now_ns)
        self.driver.flush()
        return answer


def settings(
    zid: int,
    whatami: WhatAmI = WhatAmI.PEER,
    *,
    listen: str = "",
    connect: tuple[str, ...] = (),
    **more: object,
) -> NodeSettings:
    """Settings of a node that never gives up connecting."""
    offered = {one.name: more.pop(one.name) for one in fields(Offer) if one.name in more}
    values: dict[str, object] = {"connect_timeout_ns": -1, **more}
    return NodeSettings(
        offered=Offer(zid=bytes((zid,)), whatami=whatami.index, **offered),  # type: ignore[arg-type]
        listen=((Endpoint.parse(listen),),) if listen else (),
        connect=tuple((Endpoint.parse(one),) for one in connect),
        **values,  # type: ignore[arg-type]  # the caller's names are NodeSettings' own
    )


def pair(seed: int = 1, whatami: WhatAmI = WhatAmI.PEER) -> tuple[World, Session, Session]:
    """A listening peer, and a node that connects to it, each with a session."""
    world = World(seed)
    far = world.add("far", settings(0xAA, listen="tcp/far:7447"))
    near = world.add("near", settings(0xBB, whatami, connect=("tcp/far:7447",)))
    return world, Session(near), Session(far)

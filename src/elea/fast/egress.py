"""Egress: where the messages of routing go: into a neighbour's batches, or into a session.

One look-up and one call per message. What does not go straight through (a full queue, a neighbour
that leaves) is handed to the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from elea.answers import DROPPED, REFUSED, SENT
from elea.fast.plain import PlainPush
from elea.routing.now import Now
from elea.routing.push import Destination
from elea.transport.batching import UNFIT, TxQueues
from elea.transport.unicast import Transport
from elea.wire.buffer import OCTETS, Writer
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import FLAG_T, Put
from elea.wire.data.put import encode as encode_put
from elea.wire.fields import FLAG_Z, Stamp, write_stamp
from elea.wire.network.push import Push
from elea.wire.network.push import encode as encode_push
from elea.wire.shared_extensions import SOURCE_INFO, SourceRef, write_entity

BURST_COUNT: Final = 2_048  # messages of a burst that wait for company, or as many half kB
_QOS_EXPRESS: Final = 0x10


class LocalSink(Protocol):
    """A session, seen from its node. Called under the node's lock; runs no user code there."""

    def push(self, key: str, push: Push, reliable: bool) -> None:
        """A sample for this session."""

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        """Anything else for this session; keys are full text."""


class RawSink:
    """A session that takes samples as they stand in a frame, without a PUSH being made of them."""

    __slots__ = ()

    def begin_frame(self) -> None:
        """Samples of one frame follow."""

    def end_frame(self) -> None:
        """That was the last one."""

    def deliver(self) -> None:
        """Run what became due. WITHOUT the lock; cheap if there is nothing."""

    def raw(self, key: str, plain: PlainPush) -> None:
        """A sample. `plain` is the next one when this returns."""


class Guard(Protocol):
    """What may pass through a neighbour's face, one way.

    A face without one lets everything pass, at no cost. Whatever takes a shorter way than a
    decoded message asks first whether there is a guard, and then leaves the message to the general
    way.
    """

    def check(self, message: NetworkMessage, reliable: bool) -> NetworkMessage | None:
        """The message, perhaps with another QoS; None if it was refused, counted and answered."""


class Outlet:
    """One face, as messages leave through it: a session's sink, or a neighbour's queues."""

    __slots__ = (
        "dirty",
        "face_id",
        "guard",
        "link_id",
        "queues",
        "raw",
        "sink",
        "stuck",
        "transport",
    )

    def __init__(
        self,
        face_id: int,
        sink: LocalSink | None,
        queues: TxQueues | None,
        transport: Transport | None = None,
    ) -> None:
        self.face_id = face_id
        self.transport = transport
        self.link_id = -1  # of a neighbour with one link
        self.sink = sink
        self.raw: RawSink | None = None
        taker: object = sink
        if isinstance(taker, RawSink):
            self.raw = taker
        self.queues = queues
        self.guard: Guard | None = None  # of what leaves; a session has none
        self.dirty = False  # listed in Egress.dirty
        self.stuck = False  # messages wait for room, and others of their priority behind them


class Origin:
    """A source that numbers its samples: the next one has the number `sn`."""

    __slots__ = ("_entity", "_header", "eid", "sn", "zid")

    def __init__(self, zid: bytes, eid: int, sn: int = 0) -> None:
        self.zid = zid
        self.eid = eid
        self.sn = sn
        writer = Writer()
        write_entity(writer, zid, eid)
        self._entity = writer.to_bytes()
        self._header = SOURCE_INFO.header

    def ref(self) -> SourceRef:
        """Who produced the next sample."""
        return SourceRef(self.zid, self.eid, self.sn)

    def write(self, writer: Writer) -> None:
        """The same as the only extension of a PUT."""
        number = Writer()
        number.z64(self.sn)
        writer.u8(self._header)
        writer.block(self._entity + number.to_bytes())


class Way:
    """How the values of one publisher leave through one face: `head`, their length, their octets.

    If they have timestamps: `stamped_head`, that, `rest`, their length, their octets; with a source
    as well `sourced_head`, the stamp, `rest`, the source, the rest. `message` is an empty one of
    them, and `body` the same.
    """

    __slots__ = ("body", "head", "message", "outlet", "rest", "sourced_head", "stamped_head")

    def __init__(self, outlet: Outlet, message: Push, body: Put) -> None:
        self.outlet = outlet
        self.message = message
        self.body = body
        writer = Writer()
        encode_push(writer, message)
        self.head = writer.to_bytes()[:-1]  # without the length, which is 0
        put = Writer()
        encode_put(put, body)
        self.rest = put.to_bytes()[1:-1]
        before = len(self.head) - len(self.rest) - 1
        self.stamped_head = self.head[:before] + OCTETS[self.head[before] | FLAG_T]
        self.sourced_head = self.head[:before] + OCTETS[self.head[before] | FLAG_T | FLAG_Z]


class Egress:
    """The output of routing.

    `dirty` lists the outlets with something to pull; `backlog` weighs the messages that entered
    batches since it was last set to 0. `on_full` takes what finds no
    room.
    """

    __slots__ = (
        "_on_full",
        "backlog",
        "dirty",
        "express",
        "flush_asked",
        "outlets",
        "source_link_id",
        "timers_moved",
    )

    def __init__(self, on_full: Callable[[int, NetworkMessage, bool], int]) -> None:
        self.outlets: dict[int, Outlet] = {}
        self.dirty: list[Outlet] = []
        self.backlog = 0
        self.express = False  # something that must not wait for company is pending
        self.flush_asked = False  # the driver's loop will write what is pending
        self.source_link_id = -1  # the link that is being read
        self.timers_moved = False  # a session may have set a nearer timer
        self._on_full = on_full

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        """Let a message leave through a face."""
        outlet = self.outlets.get(face_id)
        if outlet is None:
            return DROPPED
        queues = outlet.queues
        if queues is None:
            sink = outlet.sink
            assert sink is not None
            if isinstance(message, Push):
                sink.push(message.key.suffix, message, reliable)
            else:
                sink.receive(message, reliable)
            return SENT
        guard = outlet.guard
        if guard is not None:
            passed = guard.check(message, reliable)
            if passed is None:
                return SENT  # for all that the sender may know
            message = passed
        result = REFUSED if outlet.stuck else queues.send(message, reliable)
        if result == REFUSED:
            result = self._on_full(face_id, message, reliable)
        if not outlet.dirty:
            outlet.dirty = True
            self.dirty.append(outlet)
        # A large payload counts as many small messages: it is worth a write of its own.
        self.backlog += 1
        if message.qos & _QOS_EXPRESS:
            self.express = True
        if isinstance(message, Push):
            body = message.body
            if isinstance(body, Put):
                self.backlog += len(body.payload) >> 5
        return result

    def ways(self, route: list[Destination], face_id: int, body: Put, qos: int) -> list[Way] | None:
        """How values like `body`, which is empty, get to where they are wanted.

        None if one of those is a session, or has a guard: it wants the message.
        """
        ways: list[Way] = []
        for destination in route:
            if destination.face_id == face_id:
                continue
            outlet = self.outlets.get(destination.face_id)
            if outlet is None or outlet.queues is None or outlet.guard is not None:
                return None
            message = Push(destination.key, body, qos, None, destination.node_id)
            ways.append(Way(outlet, message, body))
        return ways

    def send_value(
        self,
        way: Way,
        payload: bytes,
        stamp: Stamp | None,
        reliable: bool,
        origin: Origin | None = None,
    ) -> int:
        """Let a value leave; one of an origin has a stamp as well."""
        outlet = way.outlet
        queues = outlet.queues
        qos = way.message.qos
        if outlet.stuck or queues is None or outlet.guard is not None:
            result = UNFIT
        elif stamp is None and origin is None:
            result = queues.send_value(way.head, payload, qos, reliable)
        elif stamp is None:
            result = UNFIT
        else:
            writer = Writer()
            write_stamp(writer, stamp)
            writer.raw(way.rest)
            head = way.stamped_head
            if origin is not None:
                head = way.sourced_head
                origin.write(writer)
            writer.block(payload)
            result = queues.forward(head, b"", writer.to_bytes(), qos, reliable)
        if result == UNFIT:
            empty = way.message
            source = None if origin is None else origin.ref()
            body = Put(payload, stamp, way.body.encoding, None, source)
            message = Push(empty.key, body, qos, None, empty.node_id)
            return self.send(outlet.face_id, message, reliable)
        if not outlet.dirty:
            outlet.dirty = True
            self.dirty.append(outlet)
        self.backlog += 1 + (len(payload) >> 5)
        if qos & _QOS_EXPRESS:
            self.express = True
        return result

    def forward(
        self, outlet: Outlet, head: bytes, stamp: bytes, rest: bytes, qos: int, reliable: bool
    ) -> bool:
        """Let the octets of a sample leave; whether they were taken."""
        queues = outlet.queues
        if outlet.stuck or queues is None or outlet.guard is not None:
            return False
        if queues.forward(head, stamp, rest, qos, reliable) == UNFIT:
            return False
        if not outlet.dirty:
            outlet.dirty = True
            self.dirty.append(outlet)
        self.backlog += 1 + (len(rest) >> 5)
        if qos & _QOS_EXPRESS:
            self.express = True
        return True

    def take_dirty(self) -> list[Outlet]:
        """The outlets with something to pull; taken once."""
        self.backlog = 0
        self.express = False
        dirty = self.dirty[:]
        self.dirty.clear()  # the list itself stays: see `elea.daemon.memory`
        for outlet in dirty:
            outlet.dirty = False
        return dirty

    def wants_flush(self) -> bool:
        """Whether there is something to write that nobody is going to write soon."""
        if self.flush_asked and not self.express:
            return self.backlog >= BURST_COUNT
        return self.backlog > 0


class Door:
    """Where samples of sessions enter routing; it remembers when."""

    __slots__ = ("_now", "_route")

    def __init__(self, now: Now, route: Callable[[int, str, Push, bool], int]) -> None:
        self._now = now
        self._route = route

    def push(self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int) -> int:
        """A sample of a session goes out: SENT, DROPPED or QUEUED."""
        self._now.ns = now_ns
        return self._route(face_id, key, push, reliable)

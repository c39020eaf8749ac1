"""Egress: where the messages of routing go: into a neighbour's batches, or into a session.

One look-up and one call per message. What does not go straight through (a full queue, a neighbour
that leaves) is handed to the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from elea.transport.batching_hot import TxQueues
from elea.wire.codec_hot import NetworkMessage
from elea.wire.data.put_hot import Put
from elea.wire.network.push_hot import Push

SENT: Final = 0
DROPPED: Final = 1
FULL: Final = 2
BURST_COUNT: Final = 1_024  # messages of a burst that wait for the driver's loop
_QOS_EXPRESS: Final = 0x10


class LocalSink(Protocol):
    """A session, seen from its node. Called under the node's lock; runs no user code there."""

    def push(self, key: str, push: Push, reliable: bool) -> None:
        """A sample for this session."""

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        """Anything else for this session; keys are full text."""


class Outlet:
    """One face, as messages leave through it: a session's sink, or a neighbour's queues."""

    __slots__ = ("dirty", "face_id", "queues", "sink", "stuck")

    def __init__(self, face_id: int, sink: LocalSink | None, queues: TxQueues | None) -> None:
        self.face_id = face_id
        self.sink = sink
        self.queues = queues
        self.dirty = False  # listed in Egress.dirty
        self.stuck = False  # messages wait for room, and others of their priority behind them


class Egress:
    """The output of routing.

    `dirty` lists the outlets with something to pull; `backlog` weighs the messages that entered
    batches since it was last set to 0. `on_full` takes what finds no
    room.
    """

    __slots__ = ("_on_full", "backlog", "dirty", "express", "flush_asked", "now_ns", "outlets")

    def __init__(self, on_full: Callable[[int, NetworkMessage, bool], int]) -> None:
        self.outlets: dict[int, Outlet] = {}
        self.dirty: list[Outlet] = []
        self.backlog = 0
        self.express = False  # something that must not wait for company is pending
        self.flush_asked = False  # the driver's loop will write what is pending
        self.now_ns = 0  # when a session last put something
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
        result = FULL if outlet.stuck else queues.send(message, reliable)
        if result == FULL:
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

    def wants_flush(self) -> bool:
        """Whether there is something to write that nobody is going to write soon."""
        if self.flush_asked and not self.express:
            return self.backlog >= BURST_COUNT
        return self.backlog > 0


class Door:
    """Where samples of sessions enter routing; it remembers when."""

    __slots__ = ("_egress", "_route")

    def __init__(self, egress: Egress, route: Callable[[int, str, Push, bool, int], int]) -> None:
        self._egress = egress
        self._route = route

    def push(self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int) -> int:
        """A sample of a session goes out: SENT, DROPPED or FULL."""
        self._egress.now_ns = now_ns
        return self._route(face_id, key, push, reliable, now_ns)

"""What a node remembers of a neighbour, and whether it is connected as it wants to be."""

from __future__ import annotations

from enum import Enum
from typing import Self

from elea.fast.egress import Outlet
from elea.fast.sink import FaceSink
from elea.ids import WhatAmI
from elea.limits import Limits
from elea.node.backlog import Backlog
from elea.node.connector import Phase
from elea.node.links import NodeLink
from elea.node.ports import LinkInfo, NeighbourUp
from elea.node.settings import NodeSettings
from elea.records import dataclass, field
from elea.transport.negotiation import Agreed
from elea.transport.stats import TransportStats
from elea.transport.unicast import Transport, adapt_stream


class ConnectionState(Enum):
    """How far a node is with what it was told to connect to."""

    WAITING = "waiting"
    CONNECTED = "connected"  # and the neighbours have told what they have
    FAILED = "failed"  # nothing was reached and nothing is tried any more


@dataclass(slots=True)
class Neighbour:
    """One node at the other end of one or more links."""

    zid: bytes
    whatami: int
    face_id: int
    transport: Transport
    backlog: Backlog
    sink: FaceSink
    info: LinkInfo
    agreed: Agreed
    outlet: Outlet
    since_ns: int
    links: dict[int, None] = field(default_factory=dict)

    @property
    def stats(self) -> TransportStats:
        """What its transport counted; the messages of a frame are counted by the sink."""
        stats = self.transport.stats
        stats.received_messages = self.sink.received
        return stats

    def join(self, link: NodeLink, agreed: Agreed, now_ns: int, limits: Limits) -> None:
        """A link becomes part of the transport."""
        link.neighbour = self
        self.links[link.id] = None
        self.transport.add_link(link.id, agreed, now_ns, stream=link.info.stream)
        if link.stream is not None:
            adapt_stream(link.stream, agreed, limits)
        self.note_sole_link()

    def note_sole_link(self) -> None:
        """Links came or went: with one alone there is nothing to choose when writing."""
        self.outlet.link_id = next(iter(self.links)) if len(self.links) == 1 else -1

    def up(self) -> NeighbourUp:
        """Return the event that tells sessions of it."""
        return NeighbourUp(self.zid, self.whatami, self.info, self.transport.qos)

    def waiting_len(self) -> int:
        """What waits for it, in octets."""
        return self.transport.pending_len + self.backlog.pending_len

    @classmethod
    def new(cls, transport: Transport, sink: FaceSink, info: LinkInfo, now_ns: int) -> Self:
        """The neighbour at the other end of a transport whose first link is this."""
        agreed = transport.agreed
        return cls(
            agreed.peer_zid,
            agreed.peer_whatami,
            sink.face_id,
            transport,
            Backlog(transport),
            sink,
            info,
            agreed,
            Outlet(sink.face_id, None, transport.queues, transport),
            now_ns,
        )


def state_of(
    phases: list[Phase], settings: NodeSettings, *, connected: bool, ready: bool
) -> ConnectionState:
    """How far a node is, from its connectors and neighbours (behaviour.md 1.11, 1.12)."""
    if settings.whatami is WhatAmI.CLIENT:
        if connected:
            return ConnectionState.CONNECTED
        if not phases:
            return ConnectionState.FAILED  # a client is nothing without somebody to connect to
    elif settings.awaits_scouted and not connected:  # the driver ends it when the time is over
        return ConnectionState.WAITING
    elif ready and all(phase is Phase.CONNECTED for phase in phases):
        return ConnectionState.CONNECTED
    if phases and all(phase is Phase.GIVEN_UP for phase in phases):
        return ConnectionState.FAILED
    return ConnectionState.WAITING

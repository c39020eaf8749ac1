"""What a transport tells its owner: events as values, and network messages through a sink."""

from __future__ import annotations

from typing import Final, Protocol

from elea.records import dataclass
from elea.wire.buffer import Piece, Reader


class FrameSink(Protocol):
    """Who takes the network messages of a neighbour, straight from the batch."""

    def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
        """Read messages until the end or the first octet that is no network message.

        False: it read some, and wants to be called again for the others, later.
        """

    def message(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read exactly one message, put together from fragments; ignore what follows it."""

    def pieces(self, pieces: list[Piece], reliable: bool) -> bool:
        """The same, before it is put together; False: `message` is to be called."""


@dataclass(slots=True)
class LinkLost:
    """A link left its transport; close it. Others may remain."""

    link_id: int
    reason: str
    by_peer: bool


@dataclass(slots=True)
class TransportClosed:
    """The last link is gone, or one CLOSE ended them all. `close_reason` as it was received."""

    reason: str
    by_peer: bool
    close_reason: int | None = None


@dataclass(slots=True)
class KeepAliveDue:
    """A link was silent for too long; pull from it."""

    link_id: int


TransportEvent = LinkLost | TransportClosed | KeepAliveDue
Events = tuple[TransportEvent, ...]
NO_EVENTS: Final[Events] = ()


@dataclass(slots=True)
class MemberJoined:
    """A node was heard in a multicast group for the first time; `source` is its address."""

    source: str
    zid: bytes
    whatami: int


@dataclass(slots=True)
class MemberLost:
    """A node left a multicast group, or was silent for its lease."""

    source: str
    zid: bytes
    reason: str
    by_peer: bool


@dataclass(slots=True)
class JoinDue:
    """The group has to hear of us again; pull."""


GroupEvent = MemberJoined | MemberLost | JoinDue
GroupEvents = tuple[GroupEvent, ...]
NO_GROUP_EVENTS: Final[GroupEvents] = ()

"""What routing asks of the node: messages to send, and events to fetch."""

from __future__ import annotations

from typing import Protocol

from elea.records import dataclass
from elea.wire.codec import NetworkMessage


class Output(Protocol):
    """Where messages go: to a transport, or into a local session.

    A DECLARE, an INTEREST or an OAM must not be lost while the face lives, because both sides'
    tables would differ ever after: an output that has no room for one closes the face. Routing may
    be called again from inside `send`, except `close_face` and `open_face`, which must wait until
    the outer call has returned. A client that left may be sent to until all that it declared is
    taken back: that is answered with DROPPED.
    """

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that gossip told of. Whether to connect is the node's decision."""

    zid: bytes
    whatami: int
    locators: tuple[str, ...]
    face_id: int  # of the neighbour that told of it

"""Sessions: faces of this process, which hear of neighbours and have timers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from elea.fast.egress import Egress, LocalSink, Outlet
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.routing.core import Routing
from elea.routing.face import local_face


class Session(LocalSink, Protocol):
    """A session, as a node knows it. Called under the lock; runs no user code there."""

    def neighbour(self, event: NeighbourUp | NeighbourDown) -> None:
        """A transport came or went."""

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""

    def handle_timer(self, now_ns: int) -> None:
        """Time passed."""

    def deliver(self) -> None:
        """Run what became due. WITHOUT the lock; cheap if there is nothing."""


class Sessions:
    """The sessions of a node, by face.

    Args:
        zid: Of the node.
        whatami: Of the node, as the wire has it.
        routing: Where faces open and close.
        egress: Where messages for sessions leave.
    """

    __slots__ = ("_by_face", "_egress", "_routing", "_whatami", "_zid")

    def __init__(self, zid: bytes, whatami: int, routing: Routing, egress: Egress) -> None:
        self._zid = zid
        self._whatami = whatami
        self._routing = routing
        self._egress = egress
        self._by_face: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._by_face)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_face.values()))

    def attach(self, session: Session, face_id: int, now_ns: int) -> None:
        """Open a face for a session."""
        self._by_face[face_id] = session
        self._egress.outlets[face_id] = Outlet(face_id, session, None)
        self._routing.open_face(face_id, local_face(self._zid, self._whatami), now_ns)

    def detach(self, face_id: int, now_ns: int) -> None:
        """Close a session's face: all that it declared goes."""
        self._routing.close_face(face_id, now_ns)
        self._by_face.pop(face_id, None)
        self._egress.outlets.pop(face_id, None)

    def announce(self, event: NeighbourUp | NeighbourDown) -> None:
        """Tell all of a neighbour that came or went."""
        for session in self:
            session.neighbour(event)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        times = [session.next_timer_ns() for session in self]
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Let sessions do what is due."""
        for session in self:
            session.handle_timer(now_ns)

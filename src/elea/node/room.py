"""Room: whether what a session sends would be taken now, by those who get it and by no others."""

from __future__ import annotations

from collections.abc import Callable

from elea.node.groups import Group
from elea.node.neighbour import Neighbour
from elea.routing.core import Routing


class Room:
    """Asks the queues of neighbours and groups.

    Args:
        routing: Knows who gets what.
        place: The neighbour or the group of a face; None for a session.
    """

    __slots__ = ("_place", "_routing")

    def __init__(self, routing: Routing, place: Callable[[int], Neighbour | Group | None]) -> None:
        self._routing = routing
        self._place = place

    def for_sample(self, face_id: int, key: str, qos: int) -> bool:
        """Whether all who get a sample of a session would take it now."""
        return all(self._has_room(one, qos) for one in self._routing.audience(face_id, key))

    def for_reply(self, face_id: int, request_id: int, qos: int) -> bool:
        """Whether whoever asked would take a session's answer now."""
        asker = self._routing.queries.asker(face_id, request_id)
        return asker is None or self._has_room(asker, qos)

    def _has_room(self, face_id: int, qos: int) -> bool:
        place = self._place(face_id)
        return place is None or place.backlog.has_room(qos)

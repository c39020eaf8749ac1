"""Refusals: what neighbours tell that they did not accept from this node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from elea.routing.face import Face
from elea.routing.stats import Drop, RoutingStats
from elea.wire.network.oam import Oam
from elea.wire.network.refused import read_refused

# The neighbour's id and role, the action and the key.
OnRefused = Callable[[bytes, int, str, str], None]

_KNOWN_COUNT_MAX: Final = 100
_TEXT_LEN_MAX: Final = 4_096  # longer texts are handed on, and not kept


class Refused(NamedTuple):
    """An action on a key that a neighbour's access rules did not let this node do."""

    zid: bytes
    whatami: int
    action: str  # as access rules name it
    key: str


class Refusals:
    """Keeps and hands on what neighbours refused.

    `on_refused` is told under the node's lock: it must not block.

    Args:
        stats: Counts what is of no known kind.
    """

    __slots__ = ("_known", "_stats", "on_refused")

    def __init__(self, stats: RoutingStats) -> None:
        self._stats = stats
        self._known: dict[Refused, None] = {}
        self.on_refused: OnRefused | None = None

    def receive(self, face: Face, message: Oam) -> None:
        """An OAM came in that is not about links."""
        found = read_refused(message)
        if found is None:
            self._stats.drop(Drop.OAM_UNKNOWN)
            return
        refused = Refused(face.spec.zid, face.spec.whatami, *found)
        if len(self._known) < _KNOWN_COUNT_MAX and sum(map(len, found)) <= _TEXT_LEN_MAX:
            self._known[refused] = None
        if self.on_refused is not None:
            self.on_refused(*refused)

    def known(self) -> tuple[Refused, ...]:
        """Return what was refused, the first 100 different ones, oldest first."""
        return tuple(self._known)

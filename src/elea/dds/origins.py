"""Origins: by which sources the samples of a bridge are known (D-546, D-631)."""

from __future__ import annotations

import itertools
from typing import Final

from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.session.publisher import Origin

_FIRST: Final = 0xC000_0000  # entity ids of DDS writers, beyond those of sessions and devices
_COUNT: Final = 1 << 20  # of one bridge
_BLOCKS: Final = itertools.count()  # of entity ids, one per bridge of this process
_BLOCKS_COUNT: Final = 1 << 9


class Origins:
    """The entity ids of the DDS writers that one bridge puts samples of.

    Args:
        zid: Of the node.
        numbers: Whether samples have a source and numbers at all.
    """

    def __init__(self, zid: ZenohId, *, numbers: bool) -> None:
        self._zid = zid
        self._numbers = numbers
        self._first = _FIRST + (next(_BLOCKS) % _BLOCKS_COUNT) * _COUNT
        self._next = 0

    def new(self) -> Origin | None:
        """Return a source for the samples of one more DDS writer."""
        if not self._numbers:
            return None
        eid = self._first + self._next % _COUNT
        self._next += 1
        return Origin(self._zid.to_bytes(), eid)

    def has(self, source: tuple[bytes, int]) -> bool:
        """Whether a source is one of these; any thread may ask."""
        zid, eid = source
        return self._first <= eid < self._first + _COUNT and zid == self._zid.to_bytes()

    def entity(self, eid: int) -> EntityGlobalId:
        """Return the identity of an origin."""
        return EntityGlobalId(self._zid, EntityId(eid))

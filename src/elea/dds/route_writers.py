"""The writers of a route from DDS: those there are, and those that left.

What a writer wrote before it left may still be in the mirror readers, so it is remembered. Owned by
the DDS thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from elea.dds.pending_puts import Source
from elea.dds.port import Endpoint
from elea.dds.qos import ReaderClass

_LEFT_COUNT_MAX: Final = 4_096


class RouteWriters:
    """Writers by the handles that samples name them by.

    Args:
        make: Makes the source of a writer that is new.
    """

    def __init__(self, make: Callable[[Endpoint], Source]) -> None:
        self._make = make
        self._there: dict[int, Source] = {}
        self._left: dict[int, Source] = {}  # the last of them last

    def there(self) -> Iterable[Source]:
        """Return the writers that are there."""
        return self._there.values()

    def get(self, handle: int) -> Source | None:
        """Return a writer, whether it is there or left."""
        return self._there.get(handle) or self._left.get(handle)

    def update(self, writers: Iterable[Endpoint]) -> None:
        """Follow the writers of a changed plan."""
        before, self._there = self._there, {}
        known = {one.guid: one for one in (*self._left.values(), *before.values())}
        for writer in writers:
            source = known.get(writer.guid) or self._make(writer)
            source.reader_class = ReaderClass.of(writer.qos)
            source.is_durable = writer.qos.is_durable
            self._there[writer.handle] = source
        self._left.update(before)
        self._settle()

    def adopt(self, other: RouteWriters) -> None:
        """Go on with the stamps and numbers of a route that this one takes the place of."""
        for handle, source in other._there.items():
            mine = self._there.get(handle)
            if mine is None:
                self._left[handle] = source
                continue
            source.reader_class, source.is_durable = mine.reader_class, mine.is_durable
            self._there[handle] = source
        self._left = {**other._left, **self._left}
        self._settle()

    def _settle(self) -> None:
        for handle in self._there:
            self._left.pop(handle, None)
        while len(self._left) > _LEFT_COUNT_MAX:
            del self._left[next(iter(self._left))]

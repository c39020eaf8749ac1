"""Readers that match the mirrors of several types of one key: each gets a sample once (D-265).

A reader whose type can be read as another one matches the mirror writers of both. Every route has
every sample of the key; one whose readers all got a sample from another route does not write it.
Owned by the DDS thread.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elea.dds.routes import RouteId

_SAMPLES_COUNT_MAX: Final = 8_192  # more than the lines of a few routes hold

SampleId = tuple[bytes, int, int]  # writer, stamp, hash of the bytes; not unique without a stamp


@dataclass(slots=True)
class _Sample:
    came: Counter[RouteId] = field(default_factory=Counter)
    written: Counter[RouteId] = field(default_factory=Counter)


class SharedReaders:
    """What the routes of one key have written.

    Args:
        readers_of: Gives the readers that match the mirrors of a route.
    """

    def __init__(self, readers_of: Callable[[RouteId], frozenset[int]]) -> None:
        self._readers_of = readers_of
        self._samples: OrderedDict[SampleId, _Sample] = OrderedDict()

    def is_new(self, route: RouteId, sample: SampleId) -> bool:
        """Whether a sample that came to a route has to be written by it."""
        known = self._samples.get(sample)
        if known is None:
            known = self._samples[sample] = _Sample()
            if len(self._samples) > _SAMPLES_COUNT_MAX:
                self._samples.popitem(last=False)
        known.came[route] += 1
        others = [
            other
            for other, count in known.written.items()
            if other != route and count >= known.came[route]
        ]
        if not others:
            return True
        readers = self._readers_of(route)
        return not any(readers <= self._readers_of(other) for other in others)

    def wrote(self, route: RouteId, sample: SampleId) -> None:
        """Note that a route has written a sample."""
        known = self._samples.get(sample)
        if known is not None:
            known.written[route] += 1

"""Repeats: samples that come once more because a Spark task was tried again.

A sink gives each sample a source that is made of the query, the batch and the partition, and a
number that are made of the row: the same in every attempt. A sample is a duplicate only if source,
number, key, kind and payload all agree, and the timestamp, since a publisher that was restarted
counts from 0 again. Sources of a sink never do: their rows may be stamped by routers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from elea.limits import DEFAULT_LIMITS
from elea.spark.identity import ANY_KEY_EID, digest_of

if TYPE_CHECKING:
    from elea.sample import Sample


@final
class Repeats:
    """Which samples are new. For several threads.

    It remembers digests of the latest samples of the latest sources. Samples without source are
    always new.

    Args:
        sources_count: How many sources it remembers; a retry comes soon after what it repeats.
        samples_count: How many samples it remembers of all of them.

    Example:
        >>> from elea import EntityGlobalId, Sample, SourceInfo, ZenohId
        >>> source = SourceInfo(EntityGlobalId(ZenohId.parse("ab"), 1), 7)
        >>> repeats = Repeats()
        >>> [repeats.is_new(Sample(key_expr="k", source_info=source)) for _ in range(2)]
        [True, False]
        >>> repeats.dropped_count
        1
    """

    def __init__(
        self,
        sources_count: int = DEFAULT_LIMITS.spark_sources_count,
        samples_count: int = DEFAULT_LIMITS.spark_samples_count,
    ) -> None:
        self._sources_count = sources_count
        self._samples_count = samples_count
        self._seen: OrderedDict[tuple[str, int], dict[bytes, None]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self.dropped_count = 0

    def is_new(self, sample: Sample) -> bool:
        """Whether a sample was not seen before; it is now."""
        source = sample.source_info
        if source is None:
            return True
        place = (str(source.source_id.zid), int(source.source_id.eid))
        stamp = None if place[1] >= ANY_KEY_EID else str(sample.timestamp).encode()
        digest = digest_of(
            source.source_sn.to_bytes(4, "big"),
            str(sample.key_expr).encode(),
            stamp,
            str(int(sample.kind)).encode(),
            sample.payload.to_bytes(),
        )
        with self._lock:
            seen = self._seen.setdefault(place, {})
            self._seen.move_to_end(place)
            if digest in seen:
                self.dropped_count += 1
                return False
            seen[digest] = None
            self._count += 1
            self._forget()
            return True

    def _forget(self) -> None:
        """Keep within the bounds: the source seen longest ago goes first."""
        while len(self._seen) > self._sources_count:
            self._count -= len(self._seen.popitem(last=False)[1])
        while self._count > self._samples_count:
            place, oldest = next(iter(self._seen.items()))
            del oldest[next(iter(oldest))]
            self._count -= 1
            if not oldest:
                del self._seen[place]


def once(
    callback: Callable[[Sample], object], repeats: Repeats | None = None
) -> Callable[[Sample], None]:
    """A callback for a subscriber that gets each sample of a Spark sink once.

    Args:
        callback: Called with what is new.
        repeats: To share with other subscribers, or to look at what was dropped.
    """
    known = Repeats() if repeats is None else repeats

    def take(sample: Sample) -> None:
        if known.is_new(sample):
            callback(sample)

    return take

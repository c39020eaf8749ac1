"""Repeats: samples that come once more because a Spark task was tried again.

A sink gives each sample a source that is made of the query, the batch and the partition, and its
row there as a number: the same row has the same source and number in every attempt.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from elea.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from elea.sample import Sample


@final
class Repeats:
    """Which samples are new. For several threads.

    It remembers the last sources, and of each which numbers came; those are few spans, since an
    attempt sends its rows in order. Samples without source are always new.

    Args:
        sources_count: How many sources it remembers; a retry comes soon after what it repeats.

    Example:
        >>> from elea import EntityGlobalId, Sample, SourceInfo, ZenohId
        >>> source = SourceInfo(EntityGlobalId(ZenohId.parse("ab"), 1), 7)
        >>> repeats = Repeats()
        >>> [repeats.is_new(Sample(key_expr="k", source_info=source)) for _ in range(2)]
        [True, False]
        >>> repeats.dropped_count
        1
    """

    def __init__(self, sources_count: int = DEFAULT_LIMITS.spark_sources_count) -> None:
        self._sources_count = sources_count
        self._seen: OrderedDict[tuple[str, int], list[list[int]]] = OrderedDict()
        self._lock = threading.Lock()
        self.dropped_count = 0

    def is_new(self, sample: Sample) -> bool:
        """Whether a sample was not seen before; it is now."""
        source = sample.source_info
        if source is None:
            return True
        place = (str(source.source_id.zid), int(source.source_id.eid))
        with self._lock:
            spans = self._seen.setdefault(place, [])
            self._seen.move_to_end(place)
            if len(self._seen) > self._sources_count:
                self._seen.popitem(last=False)
            if _added(spans, source.source_sn):
                return True
            self.dropped_count += 1
            return False


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


def _added(spans: list[list[int]], number: int) -> bool:
    """Put a number into sorted spans [first, end); False if it is there."""
    place = bisect.bisect_right(spans, number, key=_first) - 1
    if place >= 0 and number < spans[place][1]:
        return False
    after = place + 1
    touches_next = after < len(spans) and spans[after][0] == number + 1
    if place >= 0 and spans[place][1] == number:
        spans[place][1] = number + 1
        if touches_next:
            spans[place][1] = spans.pop(after)[1]
    elif touches_next:
        spans[after][0] = number
    else:
        spans.insert(after, [number, number + 1])
    return True


def _first(span: list[int]) -> int:
    return span[0]

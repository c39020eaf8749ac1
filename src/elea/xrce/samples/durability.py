"""Durable samples: what outlives its writer (15.2).

A gateway is given one store for transient data and one for persistent data. This one keeps its
samples in memory; anything that does what `DurableStore` says will do.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, Protocol

from elea.limits import DEFAULT_LIMITS, Limits
from elea.timestamp import Timestamp
from elea.xrce.samples.keys import selects
from elea.xrce.samples.sample import Sample

TOMBSTONE_NS: Final = 24 * 3_600 * 1_000_000_000
_SAMPLE_LEN: Final = 64


class DurableStore(Protocol):
    """The latest samples of keys."""

    def write(self, sample: Sample, now_ns: int) -> bool:
        """Keep a sample if it is newer than those of its key; False if there is no room."""

    def delete(self, key: str, timestamp: Timestamp, now_ns: int) -> None:
        """Forget what is older of a key, and what comes late."""

    def matching(self, path: str) -> Iterable[Sample]:
        """The samples of a path or pattern, by timestamp."""

    def holds(self, key: str) -> bool:
        """Whether there is a sample of this key."""

    @property
    def is_full(self) -> bool:
        """Whether another key would be refused."""


class MemoryStore:
    """A store in memory.

    Args:
        depth: Samples of one key.
        evicts: Whether what was written longest ago makes room; persistent data never does.
    """

    def __init__(
        self, depth: int = 1, *, evicts: bool = True, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.evicted_count = 0
        self.refused_count = 0
        self._depth = depth
        self._evicts = evicts
        self._limits = limits
        self._kept: OrderedDict[str, deque[Sample]] = (
            OrderedDict()
        )  # by key, the one written last at the end
        self._tombs: OrderedDict[str, tuple[Timestamp, int]] = OrderedDict()  # oldest first
        self._count = 0
        self._length = 0

    @property
    def is_full(self) -> bool:
        """Whether another key would be refused."""
        return not self._evicts and self._count >= self._limits.xrce_durable_count

    def holds(self, key: str) -> bool:
        """Whether there is a sample of this key."""
        return key in self._kept

    def write(self, sample: Sample, now_ns: int) -> bool:
        """Keep a sample if it is newer than those of its key; False if there is no room."""
        tomb = self._tombs.get(sample.key)
        if tomb is not None:
            if sample.timestamp <= tomb[0] and now_ns - tomb[1] <= TOMBSTONE_NS:
                return True  # it came late: it is deleted already
            del self._tombs[sample.key]
        kept = self._kept.get(sample.key)
        if kept is not None and kept[-1].timestamp >= sample.timestamp:
            return True
        if not self._make_room(sample, kept):
            self.refused_count += 1
            return False
        kept = self._kept.pop(sample.key, None) or deque()
        self._kept[sample.key] = kept
        if len(kept) >= self._depth:
            self._account(kept.popleft(), -1)
        kept.append(sample)
        self._account(sample, 1)
        return True

    def delete(self, key: str, timestamp: Timestamp, now_ns: int) -> None:
        """Forget what is older of a key, and what comes late."""
        kept = self._kept.get(key)
        while kept and kept[0].timestamp <= timestamp:
            self._account(kept.popleft(), -1)
        if kept is not None and not kept:
            del self._kept[key]
        self._tombs.pop(key, None)
        self._tombs[key] = timestamp, now_ns
        while self._tombs:
            oldest = next(iter(self._tombs))
            old = now_ns - self._tombs[oldest][1] > TOMBSTONE_NS
            if not old and len(self._tombs) <= self._limits.xrce_durable_count:
                break
            del self._tombs[oldest]

    def matching(self, path: str) -> list[Sample]:
        """The samples of a path or pattern, by timestamp."""
        found = [
            sample for kept in self._kept.values() if selects(path, kept[0].path) for sample in kept
        ]
        return sorted(found, key=lambda sample: sample.timestamp)

    def _make_room(self, sample: Sample, kept: deque[Sample] | None) -> bool:
        limits = self._limits
        replaced = kept is not None and len(kept) >= self._depth
        while (
            self._count - replaced >= limits.xrce_durable_count
            or self._length + _length(sample) > limits.xrce_durable_len
        ):
            victims = (key for key in self._kept if key != sample.key)
            victim = next(victims, None) if self._evicts else None
            if victim is None:
                return False
            self.evicted_count += 1
            for old in self._kept.pop(victim):
                self._account(old, -1)
        return True

    def _account(self, sample: Sample, sign: int) -> None:
        self._count += sign
        self._length += sign * _length(sample)


def _length(sample: Sample) -> int:
    return len(sample.payload) + 2 * len(sample.key) + _SAMPLE_LEN

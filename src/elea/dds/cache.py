"""Samples for late joiners: what durable writers keep, and history merged with live samples.

Pure (dds.md 13). `CacheBudget` bounds all caches of a bridge together.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from elea.dds.port import Endpoint
from elea.dds.qos import INFINITE, KEEP_ALL

_ENTRY_LEN: Final = 256  # what an entry costs beside its payload
_CYCLONE: Final = b"\x01\x10"  # what GUIDs of Cyclone DDS begin with
_WRITERS_COUNT_MAX: Final = 4_096  # whose written stamps are remembered


class Kept(NamedTuple):
    """A sample in a cache."""

    payload: bytes
    time: int  # NTP64
    writer: bytes
    attachment: bytes
    kept_ns: int  # monotonic, when it was taken


def depth_of(writer: Endpoint, depth_all: int) -> int:
    """Return how many samples per instance a durable writer's late joiners get (D-561)."""
    qos = writer.qos
    depth = qos.depth
    if writer.guid[:2] == _CYCLONE and qos.service_depth is not None:
        depth = qos.service_depth
    return depth_all if depth == KEEP_ALL else min(depth, depth_all)


class Cache:
    """The kept samples of one route, per writer and instance."""

    def __init__(self) -> None:
        self._lines: dict[bytes, dict[int, deque[Kept]]] = {}
        self._depths: dict[bytes, int] = {}
        self._lifespans: dict[bytes, int] = {}
        self.count = 0
        self.len = 0

    def set_writers(self, writers: Iterable[Endpoint], depth_all: int, multiplier: int = 1) -> None:
        """Keep samples of these durable writers, and of no others (D-562).

        Args:
            writers: Of the route.
            depth_all: At most so many samples of an instance.
            multiplier: So many times a writer's depth is kept (D-564).
        """
        known = {one.guid: one for one in writers if one.qos.is_durable}
        for guid in [one for one in self._lines if one not in known]:
            for line in self._lines.pop(guid).values():
                self._forget(line)
        self._depths = {
            guid: min(depth_all, multiplier * depth_of(one, depth_all))
            for guid, one in known.items()
        }
        self._lifespans = {guid: one.qos.lifespan_ns for guid, one in known.items()}

    def wants(self, writer: bytes) -> bool:
        """Whether samples of a writer are kept."""
        return writer in self._depths

    def has(self, writer: bytes, time: int) -> bool:
        """Whether a sample of a writer is kept, by its stamp."""
        lines = self._lines.get(writer, {}).values()
        return any(one.time == time for line in lines for one in line)

    def add(self, instance: int, sample: Kept) -> int:
        """Keep a sample; returns by how many bytes the cache grew."""
        before = self.len
        lines = self._lines.setdefault(sample.writer, {})
        line = lines.setdefault(instance, deque())
        line.append(sample)
        self.count += 1
        self.len += len(sample.payload) + _ENTRY_LEN
        while len(line) > self._depths[sample.writer]:
            self._drop(line.popleft())
        return self.len - before

    def end_instance(self, writer: bytes, instance: int) -> None:
        """Forget an instance that was disposed."""
        lines = self._lines.get(writer)
        if lines is not None and instance in lines:
            self._forget(lines.pop(instance))

    def drop_oldest(self) -> int:
        """Drop the oldest sample; returns the bytes that it took, 0 if there is none."""
        oldest: tuple[int, bytes, int] | None = None
        for writer, lines in self._lines.items():
            for instance, line in lines.items():
                if line and (oldest is None or line[0].kept_ns < oldest[0]):
                    oldest = line[0].kept_ns, writer, instance
        if oldest is None:
            return 0
        _, writer, instance = oldest
        line = self._lines[writer][instance]
        before = self.len
        self._drop(line.popleft())
        if not line:
            del self._lines[writer][instance]
        return before - self.len

    def samples(self, now_ns: int, count_max: int | None = None) -> list[Kept]:
        """Return what late joiners get, oldest first; `count_max` per writer and instance."""
        found: list[Kept] = []
        for writer, lines in self._lines.items():
            lifespan_ns = self._lifespans.get(writer, INFINITE)
            for line in lines.values():
                fresh = [one for one in line if now_ns - one.kept_ns <= lifespan_ns]
                found += fresh if count_max is None else fresh[-count_max:] if count_max else []
        return sorted(found, key=lambda one: (one.time, one.writer))

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self.count = self.len = 0

    def _forget(self, line: deque[Kept]) -> None:
        for one in line:
            self._drop(one)

    def _drop(self, sample: Kept) -> None:
        self.count -= 1
        self.len -= len(sample.payload) + _ENTRY_LEN


class CacheBudget:
    """A bound on the bytes of all caches; beyond it the largest cache loses its oldest sample."""

    def __init__(self, len_max: int) -> None:
        self._len_max = len_max
        self._caches: list[Cache] = []
        self.dropped_count = 0

    def join(self, cache: Cache) -> None:
        """Count a cache."""
        self._caches.append(cache)

    def leave(self, cache: Cache) -> None:
        """Count a cache no longer."""
        self._caches.remove(cache)

    @property
    def len(self) -> int:
        """The bytes of all caches."""
        return sum(one.len for one in self._caches)

    @property
    def count(self) -> int:
        """The samples of all caches."""
        return sum(one.count for one in self._caches)

    def settle(self) -> None:
        """Drop samples until the bound holds."""
        total = self.len
        while total > self._len_max and self._caches:
            freed = max(self._caches, key=lambda one: one.len).drop_oldest()
            if not freed:
                return
            total -= freed
            self.dropped_count += 1


@dataclass(slots=True)
class Written:
    """The newest stamps that a route has written, per writer (D-566)."""

    count_max: int = 1_000
    _times: OrderedDict[bytes, OrderedDict[int, None]] = field(default_factory=OrderedDict)

    def is_new(self, writer: bytes, time: int) -> bool:
        """Remember a stamp; False if it was remembered before."""
        times = self._times.get(writer)
        if times is None:
            times = self._times[writer] = OrderedDict()
            if len(self._times) > _WRITERS_COUNT_MAX:
                self._times.popitem(last=False)
        if time in times:
            return False
        times[time] = None
        if len(times) > self.count_max:
            times.popitem(last=False)
        return True

    def forget(self, writer: bytes, time: int) -> None:
        """Forget a stamp whose sample was not written after all."""
        times = self._times.get(writer)
        if times is not None:
            times.pop(time, None)

    def forget_writer(self, writer: bytes) -> None:
        """Forget all stamps of a writer: what it wrote is kept for late readers no more."""
        self._times.pop(writer, None)


class Arrived(NamedTuple):
    """A sample on its way to DDS, of history or live, with what orders it."""

    time: int  # NTP64; 0: without a stamp
    writer: bytes
    item: object
    instance: bytes = b""  # its serialised key, if there is one


def merge(
    history: Iterable[Arrived], live: Iterable[Arrived], depth: int | None = None
) -> Iterator[Arrived]:
    """Yield history and live samples in the order of their stamps, equal stamps once (D-565).

    Live samples without a stamp come last, in their order. `depth` bounds the history of each
    writer and instance, the newest are kept (D-569); what several have told counts once.
    """
    newest: dict[tuple[bytes, bytes], deque[Arrived]] = {}
    told: set[tuple[int, bytes]] = set()
    for one in sorted(history, key=lambda found: (found.time, found.writer)):
        if one.time and (one.time, one.writer) in told:
            continue
        told.add((one.time, one.writer))
        newest.setdefault((one.writer, one.instance), deque(maxlen=depth)).append(one)
    kept = [one for line in newest.values() for one in line]
    unstamped: list[Arrived] = []
    for one in live:
        (kept if one.time else unstamped).append(one)
    seen: set[tuple[int, bytes]] = set()
    for one in sorted(kept, key=lambda found: (found.time, found.writer)):
        if not one.time or (one.time, one.writer) not in seen:
            seen.add((one.time, one.writer))
            yield one
    yield from unstamped

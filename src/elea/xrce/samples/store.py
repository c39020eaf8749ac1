"""The store of a subscriber that is not pushed to: samples until they are fetched (13.1, 13.2).

A pull session is a place in the store, by its pullId: each reads all samples for itself, and one
leaves when all sessions have read it. What is full drops its oldest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.samples.sample import Sample

PULL_SESSIONS_COUNT: Final = 16  # of one subscriber; the one unused for longest ends
_SAMPLE_LEN: Final = 64  # what a sample without octets counts as


@dataclass(slots=True)
class _Reader:
    at: int  # the number of the next sample
    used_ns: int


class Store:
    """Samples of one subscriber, oldest first.

    Args:
        depth: Samples kept of one key; None is as many as there is room for.
        idle_ns: How long a pull session lives without a Pull.
    """

    def __init__(self, depth: int | None, idle_ns: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self.dropped_count = 0  # never read, for want of room
        self.replaced_count = 0  # by newer ones of their keys
        self._depth = depth
        self._idle_ns = idle_ns
        self._count_max = limits.xrce_subscriber_count
        self._len_max = limits.xrce_subscriber_len
        self._samples: dict[int, Sample] = {}  # by number, in order
        self._by_key: dict[str, deque[int]] = {}
        self._length = 0
        self._next = 0
        self._readers: dict[int, _Reader] = {}  # by pullId, the one used last at the end

    def __len__(self) -> int:
        return len(self._samples)

    def put(self, sample: Sample) -> None:
        """Keep a sample."""
        numbers = self._by_key.setdefault(sample.key, deque())
        if self._depth is not None and len(numbers) >= self._depth:
            self.replaced_count += 1
            self._remove(numbers[0])
        self._samples[self._next] = sample
        self._by_key.setdefault(sample.key, deque()).append(self._next)
        self._length += _length(sample)
        self._next += 1
        while len(self._samples) > self._count_max or self._length > self._len_max:
            if len(self._samples) == 1:  # longer than the store: it is kept alone
                break
            self.dropped_count += 1
            self._remove(next(iter(self._samples)))

    def open(self, pull_id: int, now_ns: int) -> None:
        """Begin a pull session at the oldest sample, if there is none, or use it."""
        reader = self._readers.pop(pull_id, None)
        if reader is None:
            reader = _Reader(next(iter(self._samples), self._next), now_ns)
        reader.used_ns = now_ns
        self._readers[pull_id] = reader
        while len(self._readers) > PULL_SESSIONS_COUNT:
            del self._readers[next(iter(self._readers))]
        self._expire(now_ns)

    def peek(self, pull_id: int) -> Sample | None:
        """The next sample of an open pull session."""
        reader = self._readers.get(pull_id)
        if reader is None:
            return None
        number = self._from(reader.at)
        return self._samples[number] if number is not None else None

    def advance(self, pull_id: int) -> None:
        """That sample was sent."""
        reader = self._readers[pull_id]
        number = self._from(reader.at)
        reader.at = self._next if number is None else number + 1
        self._release()

    def drain(self) -> list[Sample]:
        """All samples, which leave."""
        found = list(self._samples.values())
        self._samples.clear()
        self._by_key.clear()
        self._length = 0
        return found

    def pop(self) -> None:
        """The oldest sample was sent, whoever reads: for subscribers that do not pull."""
        self._remove(next(iter(self._samples)))

    @property
    def oldest(self) -> Sample | None:
        """The oldest sample."""
        return next(iter(self._samples.values()), None)

    def _from(self, at: int) -> int | None:
        """The first number that is kept, from a place on."""
        first = next(iter(self._samples), None)
        if first is None or at >= self._next:
            return None
        number = max(at, first)
        while number not in self._samples:  # others of its key replaced it
            number += 1
            if number >= self._next:
                return None
        return number

    def _release(self) -> None:
        """Let go of what every session has read."""
        done = min((reader.at for reader in self._readers.values()), default=0)
        while self._samples and (first := next(iter(self._samples))) < done:
            self._remove(first)

    def _expire(self, now_ns: int) -> None:
        for pull_id, reader in list(self._readers.items()):
            if now_ns - reader.used_ns > self._idle_ns:
                del self._readers[pull_id]
        self._release()

    def _remove(self, number: int) -> None:
        sample = self._samples.pop(number)
        self._length -= _length(sample)
        numbers = self._by_key[sample.key]
        numbers.remove(number)
        if not numbers:
            del self._by_key[sample.key]


def _length(sample: Sample) -> int:
    return len(sample.payload) + len(sample.key) + _SAMPLE_LEN

"""Seam: history and live samples as one stream, in order, each once. Sans-IO.

Live samples are held from the beginning. History comes as answers to questions, each about a time
and what follows it:

    start .......... delivered .......... declared ... settled
      |  history, given in order  |  held: found and live  |  live, as it comes

History that is old enough to be whole is given at once. The rest waits, with the live samples,
until a question that was asked late enough is answered: what a recorder had not yet received when
the first question came is in that answer. How late that is, history itself says: it reaches the
first live sample of each publisher that was held, so it has what that publisher sent before. Then
all that was found and all that was held is put in the order of its timestamps, given, and from then
on live samples are given as they come.

A publisher of which nothing was held says nothing. So the end of history is asked for once more,
long after: what was not given is counted as late.

A sample is known by its timestamp and key, or by who published it and its number there. A sample
that has neither cannot be told from another: it may be given twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from elea.ids import EntityGlobalId, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.provenance import SourceInfo
from elea.sample import Sample
from elea.timestamp import NTP64, Timestamp

_ROW_LEN: Final = 256  # what a sample costs beside its payload
_Order = tuple[int, bytes]
_SN_HALF: Final = 1 << 31
_SN_MASK: Final = 0xFFFF_FFFF

# What comes in order from one end to another: a key of one clock, or of one publisher.
_Stream: TypeAlias = tuple[str, ZenohId | EntityGlobalId]


class Seam:
    """One stream of history and live samples.

    Args:
        deliver: Takes them in order.
        declared_ns: When the subscriber was declared, in nanoseconds since 1970. History that is
            younger than `since_overlap_ns` then is held.
        start_ns: From when on history is asked for.
        limits: That, and how much may be held.
    """

    def __init__(
        self,
        deliver: Callable[[Sample], None],
        declared_ns: int,
        *,
        start_ns: int = 0,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.history_count = 0  # samples that came from history alone
        self.duplicate_count = 0
        self.refused_count = 0  # samples for which there was no room
        self.late_count = 0  # history that came when later samples were given, so it was not
        self.behind_count = 0  # streams whose first live sample history did not reach
        self.is_closed = False
        self._deliver = deliver
        self._limits = limits
        self._tail_ns = declared_ns - limits.since_overlap_ns
        self._start_ns = start_ns
        self._given_ns = 0  # history before this time was given
        self._found: list[Sample] = []
        self._held: list[Sample] = []
        self._held_len = 0
        self._known = _Known(limits.since_held_count)
        self._firsts: dict[_Stream, Sample | None] = {}  # live; None: history reaches it
        self._is_seen = False  # streams that come now are not waited for
        self._closed_ns = 0

    @property
    def tail_ns(self) -> int:
        """From when on history is to be asked for again."""
        return max(self._start_ns, self._tail_ns, self._given_ns)

    def behind(self) -> int | None:
        """The time of the first live sample that history does not reach; None: it reaches all.

        Streams that come after this was asked first are not waited for, lest it never ends.
        """
        self._is_seen = True
        behind = [self._time_of(one) for one in self._firsts.values() if one is not None]
        return min((ns for ns in behind if ns >= self.tail_ns), default=None)

    @property
    def doubt(self) -> tuple[int, int]:
        """The times, from and before, of which it can be told later whether all was given."""
        return max(self.tail_ns, self._known.forgotten_ns + 1), self._closed_ns

    def live(self, sample: Sample) -> None:
        """A sample as it is published."""
        if self._known.has(sample):
            self.duplicate_count += 1
            self._note_first(sample, None)
        elif self.is_closed:
            if sample.timestamp is None or _ns(sample.timestamp) < self._closed_ns:
                self._known.add(sample)
                self._known.done(sample)
                self._known.forget()
            self._deliver(sample)
        elif self._has_room(sample):
            self._note_first(sample, sample)
            self._known.add(sample)
            self._held.append(sample)
            self._held_len += _len_of(sample)
        else:
            self.refused_count += 1  # the next question may bring it

    def history(self, sample: Sample) -> None:
        """A sample of an answer."""
        stream = _stream_of(sample)
        first = None if stream is None else self._firsts.get(stream)
        if stream is not None and first is not None and _reaches(sample, first):
            self._firsts[stream] = None
        if self._known.has(sample):
            self.duplicate_count += 1
        elif self.is_closed:
            self.late_count += stream is not None  # who has no name may have been given
        elif sample.timestamp is not None and _ns(sample.timestamp) < self._given_ns:
            self.late_count += 1
        elif len(self._found) < self._limits.since_found_count:
            self._known.add(sample)
            self._found.append(sample)
        else:
            self.refused_count += 1

    def answered(self, until_ns: int | None) -> None:
        """All history before a time has come; None: all there is.

        What is old enough is given.
        """
        horizon_ns = self._tail_ns if until_ns is None else min(self._tail_ns, until_ns)
        found = _in_order(self._found)
        if len(found) > self._limits.since_held_count:
            # More than may be held happened since: half of it is trusted to be whole.
            middle = found[len(found) // 2].timestamp
            if middle is not None and (until_ns is None or _ns(middle) < until_ns):
                horizon_ns = max(horizon_ns, _ns(middle))
        self._given_ns = max(self._given_ns, horizon_ns)
        self._found = []
        for sample in found:
            stamp = sample.timestamp
            if stamp is None or _ns(stamp) < self._given_ns:
                self._give(sample)
            else:
                self._found.append(sample)

    def close(self, now_ns: int) -> None:
        """History is whole: give all there is, in order; live samples are given as they come."""
        self.is_closed = self._is_seen = True
        self._closed_ns = now_ns
        floor_ns = max(self._start_ns, self._tail_ns)  # what is older was not asked for
        behind = [self._time_of(one) for one in self._firsts.values() if one is not None]
        self.behind_count = sum(ns >= floor_ns for ns in behind)
        self._firsts.clear()
        self.history_count += len(self._found)
        for sample in _in_order([*_in_order(self._found), *self._held]):
            self._known.done(sample)
            self._deliver(sample)
        self._found, self._held, self._held_len = [], [], 0
        self._known.forget()

    def forget(self) -> None:
        """Samples that came as history do not come live any more."""
        self._known = _Known(0)
        self._closed_ns = 0

    def _give(self, sample: Sample) -> None:
        self.history_count += 1
        self._known.done(sample)
        self._known.forget()
        self._deliver(sample)

    def _note_first(self, sample: Sample, waiting: Sample | None) -> None:
        """A live sample; the first of its stream, if that is new here."""
        stream = None if self._is_seen else _stream_of(sample)
        if stream is not None:
            self._firsts.setdefault(stream, waiting)

    def _time_of(self, sample: Sample) -> int:
        """When it was published, or not before."""
        return self.tail_ns if sample.timestamp is None else _ns(sample.timestamp)

    def _has_room(self, sample: Sample) -> bool:
        limits = self._limits
        length = self._held_len + _len_of(sample)
        return len(self._held) < limits.since_held_count and length <= limits.since_held_len


class _Known:
    """Samples that were seen; of those that were given, the last ones."""

    def __init__(self, count_max: int) -> None:
        self.forgotten_ns = 0  # up to this time some were forgotten
        self._count_max = count_max
        self._sources: set[SourceInfo] = set()
        self._stamps: dict[tuple[str, Timestamp], SourceInfo | None] = {}
        self._given: deque[Sample] = deque()

    def has(self, sample: Sample) -> bool:
        info, stamp = sample.source_info, sample.timestamp
        if info is not None and info in self._sources:
            return True
        if stamp is None or (sample.key_text, stamp) not in self._stamps:
            return False
        # Two numbers of one publisher are two samples, whatever their timestamps.
        return info is None or self._stamps[sample.key_text, stamp] is None

    def add(self, sample: Sample) -> None:
        info, stamp = sample.source_info, sample.timestamp
        if info is not None:
            self._sources.add(info)
        if stamp is not None:
            self._stamps[sample.key_text, stamp] = info

    def done(self, sample: Sample) -> None:
        """It was given, and may be forgotten when there are too many."""
        self._given.append(_identity(sample))

    def forget(self) -> None:
        while len(self._given) > self._count_max:
            sample = self._given.popleft()
            info, stamp = sample.source_info, sample.timestamp
            if info is not None:
                self._sources.discard(info)
            if stamp is not None:
                self._stamps.pop((sample.key_text, stamp), None)
                self.forgotten_ns = max(self.forgotten_ns, _ns(stamp))


def _identity(sample: Sample) -> Sample:
    """A sample without its payload."""
    return Sample(
        key_expr=sample.key_text, timestamp=sample.timestamp, source_info=sample.source_info
    )


def _stream_of(sample: Sample) -> _Stream | None:
    """What a sample comes in order with; None: it cannot be told from others."""
    if sample.timestamp is not None:
        return sample.key_text, sample.timestamp.id
    if sample.source_info is not None:
        return sample.key_text, sample.source_info.source_id
    return None


def _reaches(found: Sample, first: Sample) -> bool:
    """Whether a sample is this one of its stream, or a later one."""
    if found.timestamp is not None and first.timestamp is not None:
        return found.timestamp >= first.timestamp
    if found.source_info is not None and first.source_info is not None:
        return (found.source_info.source_sn - first.source_info.source_sn) & _SN_MASK < _SN_HALF
    return False


def _in_order(samples: Iterable[Sample]) -> list[Sample]:
    """By timestamp; one that has none stays behind the one before it."""
    last: _Order = (0, b"")
    orders: list[tuple[_Order, int, Sample]] = []
    for number, sample in enumerate(samples):
        stamp = sample.timestamp
        if stamp is not None:
            last = (stamp.time.value, stamp.id.to_bytes())
        orders.append((last, number, sample))
    orders.sort(key=lambda one: one[:2])
    return [sample for _, _, sample in orders]


def _ns(stamp: Timestamp) -> int:
    return NTP64.as_nanos(stamp.time)


def _len_of(sample: Sample) -> int:
    attachment = sample.attachment
    return _ROW_LEN + len(sample.payload) + (0 if attachment is None else len(attachment))

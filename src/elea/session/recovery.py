"""Puts the samples of each source in order, and finds what is missing. Sans-IO. 7.11.

A source is a publisher that numbers its samples of a key, or a clock that stamps them. While a
question to caches is under way, what would be out of order is held back; when the last question is
answered, what is still missing is given up and reported.

Numbers are claims, and begin anew when a publisher with a configured id is restarted. A number that
was delivered already, with a timestamp after all or before all of its source, is of a new
incarnation. Without timestamps only a live number 0 is: all others may be duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from elea.ids import EntityGlobalId
from elea.records import dataclass
from elea.sample import Sample
from elea.timestamp import Timestamp, TimestampId

SOURCES_COUNT_MAX: Final = 4_096
HELD_COUNT_MAX: Final = 4_096  # samples of one source that wait for an earlier one
FORGET_NS: Final = 3_600_000_000_000  # after the last sample of a source

# From here on entities number samples of any key, or by their content: numbers tell no order.
_ANY_KEY_EID: Final = 0x8000_0000
_SN_MASK: Final = 0xFFFF_FFFF
_SN_HALF: Final = 1 << 31

SourceId = EntityGlobalId | TimestampId


@dataclass(slots=True, eq=False)
class Source:
    """What is known of one publisher, or of one clock."""

    id: SourceId
    last_sn: int | None = None
    first_time: Timestamp | None = None  # of its incarnation
    last_time: Timestamp | None = None
    held: dict[int, Sample] = field(default_factory=dict)  # by number, or by time
    question_count: int = 0  # to caches, about this source
    seen_ns: int = 0

    @property
    def next_sn(self) -> int:
        """The number that comes next."""
        return 0 if self.last_sn is None else (self.last_sn + 1) & _SN_MASK


@dataclass(slots=True, eq=False)
class Sources:
    """All sources of one subscriber.

    Args:
        deliver: Takes samples in order.
        missed: Takes the number of samples that are lost for good.
        recover: Asks caches for what a source is missing, from a number on; None: nobody is asked.
    """

    deliver: Callable[[Sample], None]
    missed: Callable[[EntityGlobalId, int], None]
    recover: Callable[[Source], None] | None
    history_count: int = 0  # questions about all sources that are under way
    _sources: dict[tuple[SourceId, str], Source] = field(default_factory=dict)

    def get(self, id: SourceId, key: str, now_ns: int) -> Source:
        """What is known of a source; nothing yet if it is new. A clock is one for all keys."""
        name = (id, key if isinstance(id, EntityGlobalId) else "")
        source = self._sources.get(name)
        if source is None:
            self._forget(now_ns)
            source = self._sources[name] = Source(id)
        source.seen_ns = now_ns
        return source

    def all(self) -> list[Source]:
        """Every source."""
        return list(self._sources.values())

    def received(self, sample: Sample, now_ns: int, *, is_live: bool) -> None:
        """A sample, live or from a cache."""
        info = sample.source_info
        if info is not None and info.source_id.eid >= _ANY_KEY_EID:
            self.deliver(sample)
        elif info is not None:
            source = self.get(info.source_id, sample.key_text, now_ns)
            self._numbered(source, info.source_sn, sample, is_live=is_live)
        elif sample.timestamp is None:
            self.deliver(sample)
        else:
            stamp = sample.timestamp
            self._stamped(self.get(stamp.id, "", now_ns), stamp, sample, is_live=is_live)

    def asked(self, source: Source | None) -> None:
        """A question to caches begins, about one source or all."""
        if source is None:
            self.history_count += 1
        else:
            source.question_count += 1

    def answered(self, source: Source | None) -> None:
        """A question to caches is over."""
        if source is None:
            self.history_count -= 1
            for one in self.all():
                self._give_up(one)
        else:
            source.question_count -= 1
            self._give_up(source)

    def _numbered(self, source: Source, sn: int, sample: Sample, *, is_live: bool) -> None:
        ahead = 0 if source.last_sn is None else (sn - source.next_sn) & _SN_MASK
        if ahead >= _SN_HALF:
            begins = is_live and sn == 0
            if not _is_restart(source, sample.timestamp, is_live=is_live, begins=begins):
                return  # it, or a later one, was delivered
            self._begin_anew(source)
            ahead = 0
        if source.last_sn is None and (self.history_count or source.question_count):
            self._hold(source, sn, sample)
        elif ahead == 0:
            self._pass(source, sn, sample)
            self._release(source)
        elif self.recover is not None:
            self._hold(source, sn, sample)
            if source.question_count == 0:
                self.recover(source)
        else:
            self._report(source, ahead)
            self._pass(source, sn, sample)

    def _stamped(self, source: Source, stamp: Timestamp, sample: Sample, *, is_live: bool) -> None:
        if source.last_time is not None and stamp <= source.last_time:
            if not _is_restart(source, stamp, is_live=is_live):
                return
            self._begin_anew(source)
        if source.last_time is None and (self.history_count or source.question_count):
            self._hold(source, stamp.time.value, sample)
        else:
            self._pass(source, None, sample)

    def _pass(self, source: Source, sn: int | None, sample: Sample) -> None:
        """Deliver a sample, and remember up to where its source is delivered."""
        source.last_sn, stamp = sn, sample.timestamp
        if stamp is not None:
            source.last_time = stamp
            source.first_time = source.first_time or stamp
        self.deliver(sample)

    def _begin_anew(self, source: Source) -> None:
        """Deliver what is held of a publisher, or clock, that is no more."""
        self._give_up(source, at_once=True)
        source.last_sn = source.first_time = source.last_time = None

    def _hold(self, source: Source, order: int, sample: Sample) -> None:
        source.held[order] = sample
        if len(source.held) > HELD_COUNT_MAX:
            self._give_up(source, at_once=True)

    def _release(self, source: Source) -> None:
        """Deliver what was only waiting for the sample before it."""
        while source.held and source.next_sn in source.held:
            sn = source.next_sn
            self._pass(source, sn, source.held.pop(sn))

    def _give_up(self, source: Source, *, at_once: bool = False) -> None:
        """Deliver what is held, whatever is missing in between, if nothing will be found."""
        if not at_once and (self.history_count or source.question_count):
            return
        if not isinstance(source.id, EntityGlobalId):
            for _, sample in sorted(source.held.items()):
                self._pass(source, None, sample)
            source.held.clear()
            return
        first = min(source.held, default=0) if source.last_sn is None else source.next_sn
        for sn in sorted(source.held, key=lambda one: (one - first) & _SN_MASK):
            sample = source.held[sn]
            if source.last_sn is not None:
                self._report(source, (sn - source.next_sn) & _SN_MASK)
            self._pass(source, sn, sample)
        source.held.clear()

    def _report(self, source: Source, count: int) -> None:
        if count > 0 and isinstance(source.id, EntityGlobalId):
            self.missed(source.id, count)

    def _forget(self, now_ns: int) -> None:
        """Make room for one more source."""
        for name, source in list(self._sources.items()):
            if now_ns - source.seen_ns > FORGET_NS and not source.held:
                del self._sources[name]
        if len(self._sources) >= SOURCES_COUNT_MAX:
            name, oldest = min(self._sources.items(), key=lambda item: item[1].seen_ns)
            self._give_up(oldest, at_once=True)
            del self._sources[name]


def _is_restart(
    source: Source, stamp: Timestamp | None, *, is_live: bool, begins: bool = False
) -> bool:
    """Whether a sample whose number, or time, was delivered already is of a new incarnation.

    Args:
        begins: Whether it is, if there are no timestamps.
    """
    if stamp is None or source.last_time is None or source.first_time is None:
        return begins
    return stamp > source.last_time or (is_live and stamp < source.first_time)

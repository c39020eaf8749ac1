"""Puts the samples of each source in order, and finds what is missing. Sans-IO. 7.11.

A source is a publisher that numbers its samples of a key, or a clock that stamps them. While a
question to caches is under way, what would be out of order is held back; when the last question is
answered, what is still missing is given up and reported.

Numbers and times are claims: numbers begin at 0 again when a publisher with a configured id is
restarted, clocks are set back, programs use a number or a time more than once. So a live sample is
a duplicate only if one with its number or time, and with its content, was delivered; the latest
`DELIVERED_COUNT_MAX` are remembered. One that is not remembered is of a new incarnation, except
that without timestamps only number 0 is. A cache repeats what it has, so an answer needs a later
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.ids import EntityGlobalId
from elea.records import dataclass, field
from elea.sample import Sample
from elea.timestamp import Timestamp, TimestampId

SOURCES_COUNT_MAX: Final = 16_384
HELD_COUNT_MAX: Final = 4_096  # samples of one source that wait for an earlier one
DELIVERED_COUNT_MAX: Final = 16_384  # samples of all sources that are known again
FORGET_NS: Final = 3_600_000_000_000  # after the last sample of a source

# From here on entities number samples of any key, or by their content: numbers tell no order.
_ANY_KEY_EID: Final = 0x8000_0000
_SN_MASK: Final = 0xFFFF_FFFF
_SN_HALF: Final = 1 << 31

SourceId = EntityGlobalId | TimestampId
Order = tuple[int, int]  # a number; or a time and a hash of the content


@dataclass(slots=True, eq=False)
class Source:
    """What is known of one publisher, or of one clock."""

    id: SourceId
    key: str
    last_sn: int | None = None
    last_time: Timestamp | None = None
    held: dict[Order, Sample] = field(default_factory=dict)
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
    _sources: dict[tuple[SourceId, str], Source] = field(default_factory=dict)  # oldest first
    _delivered: dict[tuple[SourceId, str, Order], int] = field(default_factory=dict)

    def get(self, id: SourceId, key: str, now_ns: int) -> Source:
        """Return what is known of a source of one key; nothing yet if it is new."""
        name = (id, key)
        source = self._sources.pop(name, None)
        if source is None:
            self._forget(now_ns)
            source = Source(id, key)
        self._sources[name] = source
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
            source = self.get(stamp.id, sample.key_text, now_ns)
            self._stamped(source, stamp, sample, is_live=is_live)

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
            if not self._is_restart(source, sn, sample, is_live=is_live):
                return  # it, or a later one, was delivered
            self._begin_anew(source)
            ahead = 0
        if source.last_sn is None and (self.history_count or source.question_count):
            self._hold(source, (sn, 0), sample)
        elif ahead == 0:
            self._pass(source, sn, sample)
            self._release(source)
        elif self.recover is not None:
            self._hold(source, (sn, 0), sample)
            if source.question_count == 0:
                self.recover(source)
        else:
            self._report(source, ahead)
            self._pass(source, sn, sample)

    def _is_restart(self, source: Source, sn: int, sample: Sample, *, is_live: bool) -> bool:
        """Whether a sample whose number was passed already is of a new incarnation."""
        stamp = sample.timestamp
        if not is_live:
            return stamp is not None and source.last_time is not None and stamp > source.last_time
        known = self._delivered.get((source.id, source.key, (sn, 0)))
        if stamp is None and sn == 0:
            return True  # nothing tells a restart from a duplicate
        if known is not None:
            return known != _content(sample)
        return stamp is not None and source.last_time is not None

    def _stamped(self, source: Source, stamp: Timestamp, sample: Sample, *, is_live: bool) -> None:
        order = (stamp.time.value, _content(sample))
        if source.last_time is None and (self.history_count or source.question_count):
            self._hold(source, order, sample)
        elif source.last_time is None or stamp > source.last_time:
            self._pass(source, None, sample)
        elif is_live and (source.id, source.key, order) not in self._delivered:
            self._remember(source, order, sample)  # the clock was set back, or it was overtaken
            self.deliver(sample)

    def _pass(self, source: Source, sn: int | None, sample: Sample) -> None:
        """Deliver a sample, and remember up to where its source is delivered."""
        source.last_sn, stamp = sn, sample.timestamp
        if stamp is not None:
            source.last_time = stamp
        if sn is not None:
            self._remember(source, (sn, 0), sample)
        elif stamp is not None:
            self._remember(source, (stamp.time.value, _content(sample)), sample)
        self.deliver(sample)

    def _remember(self, source: Source, order: Order, sample: Sample) -> None:
        """Know a sample again if it is received once more."""
        name = (source.id, source.key, order)
        self._delivered.pop(name, None)
        self._delivered[name] = _content(sample)
        if len(self._delivered) > DELIVERED_COUNT_MAX:
            del self._delivered[next(iter(self._delivered))]

    def _begin_anew(self, source: Source) -> None:
        """Deliver what is held of a publisher, or clock, that is no more."""
        self._give_up(source, at_once=True)
        source.last_sn = source.last_time = None

    def _hold(self, source: Source, order: Order, sample: Sample) -> None:
        before = source.held.get(order)
        if before is not None and _content(before) != _content(sample):
            self._begin_anew(source)  # one number, two samples
        source.held[order] = sample
        if len(source.held) > HELD_COUNT_MAX:
            self._give_up(source, at_once=True)

    def _release(self, source: Source) -> None:
        """Deliver what was only waiting for the sample before it."""
        while source.held and (source.next_sn, 0) in source.held:
            sn = source.next_sn
            self._pass(source, sn, source.held.pop((sn, 0)))

    def _give_up(self, source: Source, *, at_once: bool = False) -> None:
        """Deliver what is held, whatever is missing in between, if nothing will be found."""
        if not at_once and (self.history_count or source.question_count):
            return
        held, source.held = source.held, {}
        if not isinstance(source.id, EntityGlobalId):
            for _, sample in sorted(held.items(), key=lambda item: item[0]):
                self._pass(source, None, sample)
            return
        first = min(held, default=(0, 0))[0] if source.last_sn is None else source.next_sn
        for sn, _ in sorted(held, key=lambda order: (order[0] - first) & _SN_MASK):
            if source.last_sn is not None:
                self._report(source, (sn - source.next_sn) & _SN_MASK)
            self._pass(source, sn, held[sn, 0])

    def _report(self, source: Source, count: int) -> None:
        if count > 0 and isinstance(source.id, EntityGlobalId):
            self.missed(source.id, count)

    def _forget(self, now_ns: int) -> None:
        """Make room for one more source."""
        while self._sources:
            name, oldest = next(iter(self._sources.items()))
            is_old = now_ns - oldest.seen_ns > FORGET_NS and not oldest.held
            if not is_old and len(self._sources) < SOURCES_COUNT_MAX:
                return
            self._give_up(oldest, at_once=True)
            del self._sources[name]


def _content(sample: Sample) -> int:
    """Return a hash of what tells a sample from another one with the same number or time."""
    body = (sample.kind, sample.payload, sample.attachment, str(sample.encoding))
    return hash((*body, sample.timestamp))

"""History and live samples, against every schedule: what is given is what was published, once.

Publishers learn of the subscriber late, the recorder has samples later than the subscriber or
earlier, questions travel, answers are cut and come in any order. Promised is: no sample is missing
or double, samples of one publisher stay in order, and up to the seam all are in order of time. The
conditions are those of the documentation: what is published reaches the recorder, and a publisher
learns of the subscriber, within the time that is allowed for it.

With a recorder that is behind for as long as it likes, promised is: what is missing is told; and
nothing is missing of a publisher whose live samples were held, unless the recorder is further
behind than is waited for.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.session.fake_node import START_WALL_NS, World, text_key

from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.sample import Sample
from elea.selector import Selector
from elea.session.handlers import FifoChannel
from elea.session.query import Query
from elea.session.since import HistoryStatus
from elea.timestamp import NTP64, Timestamp, format_rfc3339
from elea.wire.data.put import Put
from elea.wire.fields import Stamp
from elea.wire.network.push import Push
from elea.wire.shared_extensions import SourceRef

MS_NS = 1_000_000
DECLARED_MS = 3_000  # when the subscriber is declared
START_MS = 1_000  # from when on it wants samples
FAR_MS = 8_000  # a recorder that is not further behind is waited for
END_MS = 100_000  # the last look was taken
CAPACITY = 256  # more than there are samples

delays = st.integers(0, 450)


@dataclass(frozen=True)
class Publisher:
    number: int
    times_ms: tuple[int, ...]  # when it publishes
    learns_ms: int  # after the declaration
    delay_ms: int  # to the subscriber
    lag_ms: int  # to the recorder
    is_numbered: bool

    def samples(self) -> list[tuple[int, Sample]]:
        found = []
        for sn, time_ms in enumerate(sorted(set(self.times_ms))):
            source = None
            if self.is_numbered:
                source = SourceInfo(EntityGlobalId(self.clock, EntityId(1)), sn)
            stamp = Timestamp(NTP64.from_nanos(START_WALL_NS + time_ms * MS_NS), self.clock)
            sample = Sample(
                key_expr=f"k/{self.number}",
                payload=str(sn).encode(),
                timestamp=stamp,
                source_info=source,
            )
            found.append((time_ms, sample))
        return found

    @property
    def clock(self) -> ZenohId:
        return ZenohId(bytes([self.number + 1]))


@dataclass(frozen=True)
class Schedule:
    publishers: tuple[Publisher, ...]
    question_ms: int  # to the historian
    answer_ms: int  # and back
    piece_count: int  # samples in one answer
    capacity: int  # of the subscriber's channel
    seed: int


def schedules(lags_ms: st.SearchStrategy[int]) -> st.SearchStrategy[Schedule]:
    publishers = st.builds(
        Publisher,
        number=st.just(0),
        times_ms=st.lists(st.integers(0, 6_000), max_size=25).map(tuple),
        learns_ms=delays,
        delay_ms=delays,
        lag_ms=lags_ms,
        is_numbered=st.booleans(),
    )
    return st.builds(
        Schedule,
        publishers=st.lists(publishers, min_size=1, max_size=4).map(
            lambda found: tuple(replace(one, number=number) for number, one in enumerate(found))
        ),
        question_ms=delays,
        answer_ms=delays,
        piece_count=st.integers(3, 30),
        capacity=st.sampled_from([1, 3, CAPACITY]),
        seed=st.integers(0, 1_000),
    )


@dataclass
class Run:
    """A world in which everything happens at its time."""

    schedule: Schedule
    world: World = field(default_factory=World)
    recorded: list[Sample] = field(default_factory=list)
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0
    was_answered: bool = False  # when all was live

    def __post_init__(self) -> None:
        self.rng = random.Random(self.schedule.seed)
        self.subscriber_session = self.world.open()
        self.historian_session = self.world.open()
        self.historian_session.declare_queryable("**", self._asked)
        for publisher in self.schedule.publishers:
            for time_ms, sample in publisher.samples():
                self._publish(publisher, time_ms, sample)

    def at(self, time_ms: int, act: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (time_ms, self.count, act))

    def _now_ms(self) -> int:
        return self.world.driver.time_ns // MS_NS

    def _publish(self, publisher: Publisher, time_ms: int, sample: Sample) -> None:
        self.at(time_ms + publisher.lag_ms, lambda: self.recorded.append(sample))
        if time_ms >= DECLARED_MS + publisher.learns_ms:
            self.at(time_ms + publisher.delay_ms, lambda: self._push(sample))

    def _push(self, sample: Sample) -> None:
        stamp, info = sample.timestamp, sample.source_info
        assert stamp is not None
        source = None
        if info is not None:
            source = SourceRef(info.source_id.zid.to_bytes(), info.source_id.eid, info.source_sn)
        body = Put(
            sample.payload.to_bytes(),
            Stamp(stamp.time.value, stamp.id.to_bytes()),
            source=source,
        )
        push = Push(text_key(sample.key_text), body)
        self.world.driver.receive(self.subscriber_session, push)

    def _asked(self, query: Query) -> None:
        self.at(self._now_ms() + self.schedule.question_ms, lambda: self._look(query))

    def _look(self, query: Query) -> None:
        """The historian answers from what is recorded now."""
        times = Selector(query.key_expr, query.parameters).time_range()
        assert times is not None
        inside = [
            one
            for one in self.recorded
            if one.timestamp is not None and times.contains(one.timestamp, 0)
        ]
        inside.sort(key=lambda one: one.timestamp or 0)
        count = self.schedule.piece_count
        piece, rest = inside[:count], inside[count:]
        while rest and piece and _ns(piece[-1]) == _ns(rest[0]):
            piece.append(rest.pop(0))
        self.at(self._now_ms() + self.schedule.answer_ms, lambda: self._reply(query, piece, rest))

    def _reply(self, query: Query, piece: list[Sample], rest: list[Sample]) -> None:
        self.rng.shuffle(piece)
        for one in piece:
            query.reply(
                one.key_text,
                one.payload,
                timestamp=one.timestamp,
                source_info=one.source_info,
            )
        if rest:
            following = f"k/*?_time=[{format_rfc3339(_ns(rest[0]))}..];_order=time"
            query.reply_err(json.dumps({"error": "cut", "detail": "", "next": [following]}))
        query.drop()

    def run(self) -> tuple[list[Sample], int, HistoryStatus]:
        """What was given, how many samples of it until all was live, and what was told."""
        found: list[Sample] = []
        until_live = 0
        driver = self.world.driver
        driver.time_ns = 0
        subscriber = None
        was_live = False
        step_ms = 10
        while self._now_ms() < END_MS:
            now_ms = self._now_ms()
            while self.events and self.events[0][0] <= now_ms:
                heapq.heappop(self.events)[2]()
                if subscriber is not None:
                    found += subscriber.drain()
                    assert subscriber.history is not None
                    if subscriber.history.is_live and not was_live:
                        was_live, until_live = True, len(found)
                        self.was_answered = subscriber.history.is_answered
            if now_ms == DECLARED_MS:
                start = format_rfc3339(START_WALL_NS + START_MS * MS_NS)
                subscriber = self.subscriber_session.declare_subscriber(
                    "k/*", FifoChannel(self.schedule.capacity), since=start
                )
            if was_live:  # nothing but what is planned happens
                next_ms = self.events[0][0] if self.events else END_MS
                step_ms = min(max(next_ms - now_ms, 1), 500)
            driver.advance(step_ms / 1_000)
            if subscriber is not None:
                found += subscriber.drain()
        assert subscriber is not None
        assert subscriber.history is not None
        assert subscriber.history.is_live
        assert not subscriber.history.errors
        assert not subscriber.dropped_count
        return found, until_live, subscriber.history


def _ns(sample: Sample) -> int:
    assert sample.timestamp is not None
    return sample.timestamp.time.as_nanos()


def identity(sample: Sample) -> tuple[str, str]:
    return sample.key_text, sample.payload.to_string()


def wanted(schedule: Schedule) -> list[tuple[str, str]]:
    published = [sample for one in schedule.publishers for _, sample in one.samples()]
    start_ns = START_WALL_NS + START_MS * MS_NS
    return sorted(identity(one) for one in published if _ns(one) >= start_ns)


def assert_in_order(schedule: Schedule, found: list[Sample]) -> None:
    for one in schedule.publishers:
        mine = [one_.payload.to_string() for one_ in found if one_.key_text == f"k/{one.number}"]
        assert [*map(int, mine)] == sorted(map(int, mine))


@settings(max_examples=100, deadline=None)
@given(schedules(delays))
def test_every_sample_since_the_start_is_given_once_and_in_order(schedule: Schedule) -> None:
    found, until_live, told = Run(schedule).run()
    assert sorted(map(identity, found)) == wanted(schedule)
    assert (told.late_count, told.behind_count) == (0, 0)
    assert_in_order(schedule, found)
    if schedule.capacity == CAPACITY:  # else live samples come while the reader is behind
        history = [_ns(sample) for sample in found[:until_live]]
        assert history == sorted(history)


@settings(max_examples=150, deadline=None)
@given(schedules(st.one_of(delays, st.integers(450, FAR_MS), st.integers(0, 40_000))))
def test_whatever_a_recorder_that_is_behind_leaves_out_is_told(schedule: Schedule) -> None:
    run = Run(schedule)
    found, _, told = run.run()
    given_ = [*map(identity, found)]
    assert len(set(given_)) == len(given_)
    assert_in_order(schedule, found)
    missing = [one for one in wanted(schedule) if one not in given_]
    assert len(missing) == told.late_count
    if not run.was_answered or any(one.lag_ms > FAR_MS for one in schedule.publishers):
        return
    assert told.behind_count == 0
    for one in schedule.publishers:
        lived_ms = DECLARED_MS + one.learns_ms
        arrived_ms = [time_ms + one.delay_ms for time_ms in one.times_ms if time_ms >= lived_ms]
        if arrived_ms and min(arrived_ms) < DECLARED_MS + 1_000:  # held
            assert f"k/{one.number}" not in [key for key, _ in missing]


def test_a_key_that_is_not_recorded_is_told_and_holds_up_the_others_for_a_while_only() -> None:
    times_ms = tuple(range(0, 6_000, 200))
    recorded = Publisher(0, times_ms, learns_ms=0, delay_ms=0, lag_ms=0, is_numbered=False)
    never = replace(recorded, number=1, lag_ms=END_MS * 2)
    schedule = Schedule((recorded, never), 0, 0, piece_count=30, capacity=CAPACITY, seed=0)
    found, _, told = Run(schedule).run()
    by_key = [[one.key_text for one in found].count(f"k/{number}") for number in (0, 1)]
    assert by_key == [25, 14]  # since the start, and since it is declared
    assert (told.is_live, told.behind_count, told.late_count) == (True, 1, 0)

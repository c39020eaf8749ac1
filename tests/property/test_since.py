"""History and live samples, against every schedule: what is given is what was published, once.

Publishers learn of the subscriber late, the recorder has samples later than the subscriber or
earlier, questions travel, answers are cut and come in any order. Promised is: no sample is missing
or double, samples of one publisher stay in order, and up to the seam all are in order of time. The
conditions are those of the documentation: what is published reaches the recorder, and a publisher
learns of the subscriber, within the time that is allowed for it.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.session.fake_node import START_WALL_NS, World, text_key

from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.sample import Sample
from elea.selector import Selector
from elea.session.handlers import FifoChannel
from elea.session.query import Query
from elea.timestamp import NTP64, Timestamp, format_rfc3339
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import Stamp
from elea.wire.network.push_hot import Push
from elea.wire.shared_extensions import SourceRef

MS_NS = 1_000_000
DECLARED_MS = 3_000  # when the subscriber is declared
START_MS = 1_000  # from when on it wants samples
QUIET_MS = 7_000  # all was published, and has arrived
END_MS = 60_000
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


publishers = st.builds(
    Publisher,
    number=st.just(0),
    times_ms=st.lists(st.integers(0, 6_000), max_size=25).map(tuple),
    learns_ms=delays,
    delay_ms=delays,
    lag_ms=delays,
    is_numbered=st.booleans(),
)
schedules = st.builds(
    Schedule,
    publishers=st.lists(publishers, min_size=1, max_size=4).map(
        lambda found: tuple(
            Publisher(
                number, one.times_ms, one.learns_ms, one.delay_ms, one.lag_ms, one.is_numbered
            )
            for number, one in enumerate(found)
        )
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

    def run(self) -> tuple[list[Sample], int]:
        """What was given, and how many samples of it until all was live."""
        found: list[Sample] = []
        until_live = 0
        driver = self.world.driver
        driver.time_ns = 0
        subscriber = None
        was_live = False
        for now_ms in range(0, END_MS + 1, 10):
            while self.events and self.events[0][0] <= now_ms:
                heapq.heappop(self.events)[2]()
                if subscriber is not None:
                    found += subscriber.drain()
                    assert subscriber.history is not None
                    if subscriber.history.is_live and not was_live:
                        was_live, until_live = True, len(found)
            if now_ms == DECLARED_MS:
                start = format_rfc3339(START_WALL_NS + START_MS * MS_NS)
                subscriber = self.subscriber_session.declare_subscriber(
                    "k/*", FifoChannel(self.schedule.capacity), since=start
                )
            driver.advance(0.01)
            if subscriber is not None:
                found += subscriber.drain()
                if was_live and now_ms > QUIET_MS and not self.events:
                    break
        assert subscriber is not None
        assert subscriber.history is not None
        assert subscriber.history.is_live
        assert not subscriber.history.errors
        assert not subscriber.dropped_count
        return found, until_live


def _ns(sample: Sample) -> int:
    assert sample.timestamp is not None
    return sample.timestamp.time.as_nanos()


def identity(sample: Sample) -> tuple[str, str]:
    return sample.key_text, sample.payload.to_string()


@settings(max_examples=100, deadline=None)
@given(schedules)
def test_every_sample_since_the_start_is_given_once_and_in_order(schedule: Schedule) -> None:
    found, until_live = Run(schedule).run()
    published = [sample for one in schedule.publishers for _, sample in one.samples()]
    wanted = [one for one in published if _ns(one) >= START_WALL_NS + START_MS * MS_NS]
    assert sorted(map(identity, found)) == sorted(map(identity, wanted))
    for one in schedule.publishers:
        key = f"k/{one.number}"
        given_order = [
            int(sample.payload.to_string()) for sample in found if sample.key_text == key
        ]
        assert given_order == sorted(given_order)
    if schedule.capacity == CAPACITY:  # else live samples come while the reader is behind
        history = [_ns(sample) for sample in found[:until_live]]
        assert history == sorted(history)

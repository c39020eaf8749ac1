"""Advanced publishers and subscribers over a node in memory, with time that stands still."""

from __future__ import annotations

import gc
from datetime import timedelta

import pytest
from tests.unit.session.fake_node import World

from elea.errors import ClosedError, InvalidValueError, ZError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SampleKind, SourceInfo
from elea.query import ConsolidationMode
from elea.sample import Sample
from elea.session.advanced import declare_advanced_publisher, declare_advanced_subscriber
from elea.session.advanced_config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
    RepliesConfig,
)
from elea.session.advanced_publisher import AdvancedPublisher
from elea.session.advanced_subscriber import AdvancedSubscriber
from elea.session.handlers import Handler
from elea.session.query import Query
from elea.session.session import Session
from elea.timestamp import NTP64, Timestamp
from elea.wire.network.request import Request

Advanced = AdvancedSubscriber[Handler[Sample]]
NUMBERS = MissDetectionConfig()


@pytest.fixture
def world() -> World:
    return World()


def texts(subscriber: Advanced) -> list[str]:
    return [sample.payload.to_string() for sample in subscriber.drain()]


def asked(world: World) -> list[str]:
    requests = [message for message in world.sent(Request) if isinstance(message, Request)]
    return [f"{request.key.suffix}?{request.body.parameters}" for request in requests]


class TestConfig:
    def test_recovery_is_one_of_two(self) -> None:
        assert RecoveryConfig(periodic_queries=0.5).period_ns == 500_000_000
        assert RecoveryConfig(periodic_queries=timedelta(seconds=2)).period_ns == 2_000_000_000
        assert RecoveryConfig(heartbeat=True).heartbeat
        for wrong in ({}, {"periodic_queries": 1, "heartbeat": True}):
            with pytest.raises(ValueError, match="invalid parameters"):
                RecoveryConfig(**wrong)  # type: ignore[arg-type]

    def test_history_asks_for_what_is_given(self) -> None:
        assert HistoryConfig().parameters() == "_anyke"
        both = HistoryConfig(max_samples=2, max_age=10)
        assert both.parameters() == "_max=2;_time=[now(-10s)..];_anyke"
        assert HistoryConfig(max_age=1.5).parameters() == "_time=[now(-1.5s)..];_anyke"

    def test_numbers_are_checked(self) -> None:
        with pytest.raises(ValueError, match="negative"):
            MissDetectionConfig(heartbeat=-1)
        with pytest.raises(OverflowError):
            CacheConfig(-1)
        with pytest.raises(TypeError):
            CacheConfig("1")  # type: ignore[arg-type]
        assert CacheConfig(replies_config=RepliesConfig(express=True)).replies_config.express


class TestPublisher:
    def test_samples_are_numbered_and_kept(self, world: World) -> None:
        session = world.open()
        plain = session.declare_subscriber("k")
        publisher = declare_advanced_publisher(
            session, "k", encoding="text/plain", cache=CacheConfig(3), sample_miss_detection=NUMBERS
        )
        for text in "abcd":
            publisher.put(text, attachment="x")
        publisher.delete()
        numbers = [sample.source_info for sample in plain.drain()]
        assert numbers == [SourceInfo(publisher.id, number) for number in range(5)]
        key = f"k/@adv/pub/{session.zid()}/{publisher.id.eid}/_"

        def cached(parameters: str) -> list[str]:
            replies = session.get(f"{key}?{parameters}", consolidation=ConsolidationMode.NONE)
            samples = [reply.ok for reply in replies if reply.ok]
            assert {str(sample.key_expr) for sample in samples} <= {"k"}
            return [f"{sample.kind.name} {sample.payload}" for sample in samples]

        assert cached("_anyke") == ["PUT c", "PUT d", "DELETE "]
        assert cached("_anyke;_max=1") == ["DELETE "]
        assert cached("_anyke;_max=0") == []
        assert cached("_anyke;_sn=3..") == ["PUT d", "DELETE "]
        assert cached("_anyke;_sn=..2") == ["PUT c"]
        assert cached("_anyke;_sn=3") == ["PUT d"]
        assert cached("_max=1") == []

    def test_ages_are_told_from_timestamps(self, world: World) -> None:
        session = world.open(timestamping={"enabled": True})
        publisher = declare_advanced_publisher(session, "k", cache=CacheConfig(9))
        publisher.put("old")
        world.driver.advance(60)
        publisher.put("new")
        replies = session.get(f"k/@adv/pub/{session.zid()}/uhlc/_?_time=[now(-10s)..];_anyke")
        assert [reply.result.payload.to_string() for reply in replies] == ["new"]

    def test_a_wrong_question_is_answered_with_an_error(self, world: World) -> None:
        session = world.open()
        publisher = declare_advanced_publisher(
            session, "k", cache=CacheConfig(3), sample_miss_detection=NUMBERS
        )
        replies = list(session.get("k/@adv/**?_sn=a..;_anyke"))
        assert [reply.err is not None for reply in replies] == [True]
        publisher.undeclare()

    def test_a_cache_needs_an_order(self, world: World) -> None:
        with pytest.raises(InvalidValueError, match="timestamping"):
            declare_advanced_publisher(world.open(), "k", cache=CacheConfig())

    def test_heartbeats(self, world: World) -> None:
        session = world.open()
        beats = session.declare_subscriber("**/@adv/**")
        publisher = declare_advanced_publisher(
            session, "k", sample_miss_detection=MissDetectionConfig(heartbeat=1)
        )
        world.driver.advance(1.5)
        assert beats.drain() == []  # nothing was published yet
        publisher.put("a")
        publisher.put("b")
        world.driver.advance(2)
        assert [bytes(beat.payload) for beat in beats.drain()] == [b"\1\0\0\0"] * 2
        publisher.undeclare()
        world.driver.advance(5)
        assert beats.drain() == []

    def test_sporadic_heartbeats_come_after_a_publication(self, world: World) -> None:
        session = world.open()
        beats = session.declare_subscriber("**/@adv/**")
        publisher = declare_advanced_publisher(
            session, "k", sample_miss_detection=MissDetectionConfig(sporadic_heartbeat=1)
        )
        publisher.put("a")
        world.driver.advance(5)
        assert len(beats.drain()) == 1
        publisher.put("b")
        world.driver.advance(5)
        assert [bytes(beat.payload) for beat in beats.drain()] == [b"\1\0\0\0"]

    def test_it_is_detected_and_dropped(self, world: World) -> None:
        session = world.open()
        publisher: AdvancedPublisher | None = declare_advanced_publisher(
            session,
            "k",
            publisher_detection=True,
            cache=CacheConfig(),
            sample_miss_detection=MissDetectionConfig(heartbeat=1),
        )
        assert publisher is not None
        key = f"k/@adv/pub/{session.zid()}/{publisher.id.eid}/_"
        [token] = session.liveliness().get("**/@adv/**")
        assert token.ok is not None
        assert token.ok.key_expr == key
        publisher = None
        gc.collect()
        assert list(session.liveliness().get("**/@adv/**")) == []
        assert session._context.core.answerers.all() == []

    def test_undeclared(self, world: World) -> None:
        with declare_advanced_publisher(world.open(), "k") as publisher:
            assert (str(publisher.key_expr), publisher.matching_status.matching) == ("k", False)
        with pytest.raises(ClosedError):
            publisher.put("x")


class TestHistory:
    def test_what_was_published_before_comes_first(self, world: World) -> None:
        a, b = world.open(), world.open()
        publisher = declare_advanced_publisher(
            a, "k/1", cache=CacheConfig(2), sample_miss_detection=NUMBERS
        )
        for text in "abc":
            publisher.put(text)
        subscriber = declare_advanced_subscriber(b, "k/*", history=HistoryConfig(max_samples=2))
        assert asked(world) == ["k/*/@adv/**?_max=2;_anyke"]
        publisher.put("d")
        assert texts(subscriber) == ["b", "c", "d"]

    def test_live_samples_wait_for_history_and_none_comes_twice(self, world: World) -> None:
        a, b = world.open(), world.open()
        slow = a.declare_queryable("k/@adv/**")  # stands in for a cache that takes its time
        subscriber = declare_advanced_subscriber(b, "k", history=HistoryConfig())
        source = EntityGlobalId(a.zid(), a.id.eid)
        for number in (5, 6):
            a.put("k", str(number), source_info=SourceInfo(source, number))
        assert texts(subscriber) == []
        question = slow.recv()
        for number in (4, 5):
            put(question, number, source)
        question.drop()
        assert texts(subscriber) == ["4", "5", "6"]
        a.put("k", "7", source_info=SourceInfo(source, 7))
        assert texts(subscriber) == ["7"]

    def test_a_cache_answers_with_no_key_that_was_not_subscribed_to(self, world: World) -> None:
        session = world.open()

        def answer(query: Query) -> None:
            query.reply("other", "forged")
            query.reply("k", "1")

        session.declare_queryable("k/@adv/pub/1/2/_", answer)
        subscriber = declare_advanced_subscriber(session, "k", history=HistoryConfig())
        assert texts(subscriber) == ["1"]

    def test_by_timestamps(self, world: World) -> None:
        a, b = world.open(timestamping={"enabled": True}), world.open()
        publisher = declare_advanced_publisher(a, "k", cache=CacheConfig(9))
        publisher.put("a")
        publisher.put("b")
        subscriber = declare_advanced_subscriber(b, "k", history=HistoryConfig())
        publisher.put("c")
        assert texts(subscriber) == ["a", "b", "c"]

    def test_late_publishers_are_asked_too(self, world: World) -> None:
        a, b = world.open(), world.open()
        subscriber = declare_advanced_subscriber(
            b, "k/*", history=HistoryConfig(detect_late_publishers=True)
        )
        declare_advanced_publisher(
            a,
            "k/1",
            cache=CacheConfig(),
            sample_miss_detection=NUMBERS,
            publisher_detection=True,
        ).put("x")
        assert len(asked(world)) == 2
        assert texts(subscriber) == ["x"]

    def test_live_samples_wait_for_the_history_of_a_late_publisher(self, world: World) -> None:
        a, b = world.open(), world.open()
        subscriber = declare_advanced_subscriber(
            b, "k", history=HistoryConfig(detect_late_publishers=True)
        )
        source = EntityGlobalId(a.zid(), a.id.eid)
        own_key = f"k/@adv/pub/{source.zid}/{source.eid}/_"
        slow = a.declare_queryable(own_key)  # not known when the first question was asked
        token = a.liveliness().declare_token(own_key)
        for number in (5, 6):
            a.put("k", str(number), source_info=SourceInfo(source, number))
        assert texts(subscriber) == []
        question = slow.recv()
        for number in (3, 4, 5, 6):
            put(question, number, source)
        question.drop()
        assert texts(subscriber) == ["3", "4", "5", "6"]
        token.undeclare()

    def test_samples_without_a_source_pass(self, world: World) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k", history=HistoryConfig())
        session.put("k", "1")
        assert texts(subscriber) == ["1"]


def put(question: object, number: int, source: EntityGlobalId) -> None:
    from elea.session.query import Query
    from elea.wire.data.put import Put
    from elea.wire.shared_extensions import SourceRef

    assert isinstance(question, Query)
    body = Put(str(number).encode(), source=SourceRef(source.zid.to_bytes(), source.eid, number))
    question.answer("k", body, express=False)


class Lossy:
    """A publisher with a cache, and samples of it that never arrive."""

    def __init__(self, world: World, period_s: float | None = None) -> None:
        self.session = world.open()
        self.publisher = declare_advanced_publisher(
            self.session,
            "k",
            cache=CacheConfig(10),
            sample_miss_detection=MissDetectionConfig(heartbeat=period_s),
        )
        self._node = world.node

    def lose(self, text: str) -> None:
        wants = self._node._wants
        self._node._wants = lambda face, key: False  # type: ignore[method-assign]
        self.publisher.put(text)
        self._node._wants = wants  # type: ignore[method-assign]


class TestRecovery:
    def test_a_gap_is_filled_from_the_cache(self, world: World) -> None:
        lossy, session = Lossy(world), world.open()
        subscriber = declare_advanced_subscriber(
            session, "k", recovery=RecoveryConfig(heartbeat=True)
        )
        misses = subscriber.sample_miss_listener()
        lossy.publisher.put("a")
        lossy.lose("b")
        lossy.lose("c")
        lossy.publisher.put("d")
        assert texts(subscriber) == ["a", "b", "c", "d"]
        assert misses.drain() == []
        eid = lossy.publisher.id.eid
        zid = lossy.session.zid()
        assert asked(world)[-1] == f"k/@adv/*/{zid}/{eid}/**?_sn=1..;_anyke"

    def test_what_no_cache_has_is_reported(self, world: World) -> None:
        session = world.open()
        source = EntityGlobalId(session.zid(), session.id.eid)
        for recovery in (None, RecoveryConfig(heartbeat=True)):
            with declare_advanced_subscriber(session, "k", recovery=recovery) as subscriber:
                misses = subscriber.sample_miss_listener()
                for number in (7, 8, 11, 11, 9, 12):
                    session.put("k", str(number), source_info=SourceInfo(source, number))
                assert texts(subscriber) == ["7", "8", "11", "12"]
                [miss] = misses.drain()
                assert (miss.source, miss.nb) == (source, 2)

    def test_the_last_sample_is_missed_by_heartbeat(self, world: World) -> None:
        lossy, session = Lossy(world, period_s=1), world.open()
        subscriber = declare_advanced_subscriber(
            session, "k", recovery=RecoveryConfig(heartbeat=True)
        )
        lossy.publisher.put("a")
        lossy.lose("b")
        assert texts(subscriber) == ["a"]
        world.driver.advance(1)
        assert texts(subscriber) == ["b"]
        world.driver.advance(5)
        assert texts(subscriber) == []

    def test_the_last_sample_is_missed_by_asking(self, world: World) -> None:
        lossy, session = Lossy(world), world.open()
        subscriber = declare_advanced_subscriber(
            session, "k", recovery=RecoveryConfig(periodic_queries=1)
        )
        lossy.publisher.put("a")
        lossy.lose("b")
        world.driver.advance(1)
        assert texts(subscriber) == ["a", "b"]
        count = len(asked(world))
        subscriber.undeclare()
        world.driver.advance(5)
        assert len(asked(world)) == count

    def test_numbers_wrap_around(self, world: World) -> None:
        session = world.open()
        source = EntityGlobalId(session.zid(), session.id.eid)
        subscriber = declare_advanced_subscriber(session, "k")
        for number in (2**32 - 1, 0, 2**32 - 1, 1):
            session.put("k", str(number), source_info=SourceInfo(source, number))
        assert texts(subscriber) == [str(2**32 - 1), "0", "1"]


def say(
    session: Session, sn: int, *, key: str = "k", stamp: int | None = None, text: str | None = None
) -> None:
    """A sample of publisher 9 with any number and time, of a session that claims to be it."""
    timestamp = None if stamp is None else Timestamp(NTP64.from_value(stamp << 32), b"\1")
    source = SourceInfo(EntityGlobalId(ZenohId(b"\1"), EntityId(9)), sn)
    session.put(key, text or f"{key} {sn}", source_info=source, timestamp=timestamp)


class TestIncarnations:
    """A publisher that was restarted with its id numbers its samples from 0 again."""

    @pytest.mark.parametrize("stamps", [(1, 9), (5, 1), (None, None)], ids=["on", "back", "none"])
    def test_the_samples_of_a_restarted_publisher_are_delivered(
        self, world: World, stamps: tuple[int | None, int | None]
    ) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(
            session, "k", recovery=RecoveryConfig(heartbeat=True)
        )
        misses = subscriber.sample_miss_listener()
        for stamp in stamps:
            for sn in range(3):
                say(session, sn, stamp=None if stamp is None else stamp + sn)
        assert texts(subscriber) == ["k 0", "k 1", "k 2"] * 2
        assert misses.drain() == []

    def test_a_number_on_another_key_harms_nobody(self, world: World) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k/*")
        say(session, 0, key="k/a", stamp=1)
        say(session, 70_000, key="k/b", stamp=2)
        say(session, 1, key="k/a", stamp=3)
        assert texts(subscriber) == ["k/a 0", "k/b 70000", "k/a 1"]

    def test_a_number_ahead_on_the_same_key_is_followed_by_the_real_ones(
        self, world: World
    ) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k")
        for sn, stamp in ((0, 1), (70_000, 2), (1, 3), (2, 4)):
            say(session, sn, stamp=stamp)
        assert texts(subscriber) == ["k 0", "k 70000", "k 1", "k 2"]

    def test_duplicates_are_not_delivered(self, world: World) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k")
        for sn in (0, 1, 2, 1, 2, 3):
            say(session, sn, stamp=sn + 1)
        assert texts(subscriber) == ["k 0", "k 1", "k 2", "k 3"]

    @pytest.mark.parametrize("first_sn", [0, 1], ids=["all", "first lost"])
    def test_a_publisher_restarted_with_a_clock_set_back_a_little_is_heard(
        self, world: World, first_sn: int
    ) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k")
        for sn in range(5):
            say(session, sn, stamp=10 + sn)
        for sn in range(first_sn, 3):
            say(session, sn, stamp=12 + sn)  # within the times of the incarnation before
        texts_first = [f"k {sn}" for sn in range(5)]
        assert texts(subscriber) == texts_first + [f"k {sn}" for sn in range(first_sn, 3)]

    @pytest.mark.parametrize("stamp", [None, 7], ids=["no time", "one time"])
    def test_a_program_that_repeats_a_number_is_heard(
        self, world: World, stamp: int | None
    ) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k")
        for text in ("a", "b", "b", "c"):
            say(session, 5, stamp=stamp, text=text)
        assert texts(subscriber) == ["a", "b", "c"]

    def test_numbers_repeated_while_history_is_asked_for_are_delivered(self, world: World) -> None:
        session = world.open()
        silent = session.declare_queryable("k/@adv/**")
        subscriber = declare_advanced_subscriber(session, "k", history=HistoryConfig())
        for text in ("a", "b", "b", "c"):
            say(session, 5, stamp=7, text=text)
        silent.recv().drop()
        assert texts(subscriber) == ["a", "b", "c"]


def stamped(session: Session, stamp: int, text: str, *, key: str = "k") -> None:
    """A sample without number, of a clock that says anything."""
    session.put(key, text, timestamp=Timestamp(NTP64.from_value(stamp << 32), b"\1"))


class TestClocks:
    """Samples without numbers are told apart by clock, time, key and content."""

    @pytest.mark.parametrize("asked", [False, True], ids=["live", "history asked for"])
    def test_one_time_for_several_keys_and_values(self, world: World, asked: bool) -> None:
        session = world.open()
        silent = session.declare_queryable("k/*/@adv/**")
        history = HistoryConfig() if asked else None
        subscriber = declare_advanced_subscriber(session, "k/*", history=history)
        for key, text in (("k/a", "1"), ("k/b", "1"), ("k/a", "2"), ("k/a", "1")):
            stamped(session, 7, text, key=key)
        if asked:
            silent.recv().drop()
        found = sorted((s.key_text, s.payload.to_string()) for s in subscriber.drain())
        assert found == [("k/a", "1"), ("k/a", "2"), ("k/b", "1")]

    def test_a_clock_set_back_a_little_is_heard(self, world: World) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k")
        for stamp in (10, 12, 14, 11, 13, 14, 15):
            stamped(session, stamp, str(stamp))
        assert texts(subscriber) == ["10", "12", "14", "11", "13", "15"]

    def test_keys_of_one_clock_do_not_wait_for_each_other(self, world: World) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(session, "k/*")
        stamped(session, 1, "first", key="k/a")
        stamped(session, 9, "urgent", key="k/a")
        stamped(session, 8, "overtaken", key="k/b")
        assert texts(subscriber) == ["first", "urgent", "overtaken"]


class TestSubscriber:
    def test_it_tells_of_publishers_and_of_itself(self, world: World) -> None:
        a, b = world.open(), world.open()
        subscriber = declare_advanced_subscriber(b, "k/*", subscriber_detection=True)
        found = subscriber.detect_publishers(history=True)
        publisher = declare_advanced_publisher(a, "k/1", publisher_detection=True)
        [sample] = found.drain()
        assert sample.key_expr == f"k/1/@adv/pub/{a.zid()}/uhlc/_"
        publisher.undeclare()
        assert [sample.kind for sample in found.drain()] == [SampleKind.DELETE]
        [token] = a.liveliness().get("**/@adv/sub/**")
        assert token.ok is not None
        assert token.ok.key_expr == f"k/*/@adv/sub/{b.zid()}/{subscriber.id.eid}/_"

    @pytest.mark.parametrize("how", ["undeclare", "close", "drop"])
    def test_everything_ends_with_it(self, world: World, how: str) -> None:
        session = world.open()
        subscriber = declare_advanced_subscriber(
            session,
            "k",
            history=HistoryConfig(detect_late_publishers=True),
            recovery=RecoveryConfig(heartbeat=True),
            subscriber_detection=True,
        )
        handler = subscriber.handler
        misses = subscriber.sample_miss_listener().handler
        end(session, subscriber, how)
        del subscriber
        gc.collect()
        for one in (handler, misses):
            with pytest.raises(ZError, match="closed"):
                one.recv()
        core = session._context.core
        assert core._subscriptions == {}
        assert core.tokens.watchers() == []


def end(session: Session, subscriber: Advanced, how: str) -> None:
    if how == "undeclare":
        subscriber.undeclare()
        with pytest.raises(ZError, match="Undeclared"):
            subscriber.key_expr  # noqa: B018
    elif how == "close":
        session.close()

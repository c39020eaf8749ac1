from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
from tests.unit.session.fake_node import FakeDriver, World, text_key

from elea.answers import DROPPED, QUEUED
from elea.config.config import Config
from elea.encoding import Encoding
from elea.errors import ClosedError, KeyExprError, ZError
from elea.keyexpr import KeyExpr
from elea.provenance import SampleKind
from elea.qos import CongestionControl, Locality, Priority, Reliability
from elea.routing.id_space import ID_MAX
from elea.sample import Sample
from elea.session.handlers import Callback, FifoChannel, RingChannel
from elea.session.matching import Writer, Writers
from elea.session.outlet import Channel
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.queries import Ask
from elea.session.session import Session
from elea.wire.data.put import Put
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.push import Push


@pytest.fixture
def world() -> World:
    return World()


def matches(writer: Publisher | Querier) -> bool:
    status = writer.matching_status
    assert bool(status) == status.matching
    return status.matching


class TestPublications:
    def test_a_put_reaches_other_sessions_and_its_own(self, world: World) -> None:
        a, b = world.open(), world.open()
        here, there = a.declare_subscriber("room/*"), b.declare_subscriber("room/**")
        a.put("room/1", "21.5", encoding="text/plain", attachment=b"x", priority=Priority.DATA_HIGH)
        for subscriber in (here, there):
            sample = subscriber.recv()
            assert sample.key_expr == "room/1"
            assert sample.payload == "21.5"
            assert sample.encoding == Encoding.TEXT_PLAIN
            assert sample.attachment == b"x"
            assert sample.priority is Priority.DATA_HIGH
            assert sample.kind is SampleKind.PUT
            assert subscriber.try_recv() is None

    def test_a_delete_is_a_sample_without_payload(self, world: World) -> None:
        a, b = world.open(), world.open()
        subscriber = b.declare_subscriber("a")
        a.delete("a")
        a.declare_publisher("a").delete(attachment="why")
        first, second = subscriber.recv(), subscriber.recv()
        assert first.kind is second.kind is SampleKind.DELETE
        assert len(first.payload) == 0
        assert second.attachment == b"why"

    def test_a_publisher_knows_its_settings(self, world: World) -> None:
        session = world.open()
        publisher = session.declare_publisher(
            "a",
            encoding="application/json",
            congestion_control=CongestionControl.BLOCK,
            priority=Priority.REAL_TIME,
            express=True,
            reliability=Reliability.BEST_EFFORT,
        )
        assert publisher.key_expr == KeyExpr("a")
        assert publisher.encoding == Encoding.APPLICATION_JSON
        assert publisher.congestion_control is CongestionControl.BLOCK
        assert publisher.priority is Priority.REAL_TIME
        assert publisher.reliability is Reliability.BEST_EFFORT
        assert publisher.id.zid == session.zid()
        subscriber = session.declare_subscriber("a")
        publisher.put("1")
        sample = subscriber.recv()
        assert (sample.encoding, sample.express) == (Encoding.APPLICATION_JSON, True)
        publisher.put("2", encoding="text/csv")
        assert subscriber.recv().encoding == Encoding.TEXT_CSV

    def test_publishers_with_one_key_share_an_interest(self, world: World) -> None:
        session = world.open()
        first, second = session.declare_publisher("a"), session.declare_publisher("a")
        interests = world.sent(Interest)
        assert [interest.mode for interest in interests if isinstance(interest, Interest)] == [
            InterestMode.CURRENT_FUTURE
        ]
        first.undeclare()
        assert len(world.sent(Interest)) == 1
        second.undeclare()
        last = world.sent(Interest)[-1]
        assert isinstance(last, Interest)
        assert last.mode is InterestMode.FINAL

    @pytest.mark.parametrize(
        ("destination", "origin", "heard_here", "heard_there"),
        [
            (Locality.ANY, Locality.ANY, True, True),
            (Locality.REMOTE, Locality.ANY, False, True),
            (Locality.SESSION_LOCAL, Locality.ANY, True, False),
            (Locality.ANY, Locality.REMOTE, False, True),
            (Locality.ANY, Locality.SESSION_LOCAL, True, False),
        ],
    )
    def test_locality(
        self,
        world: World,
        destination: Locality,
        origin: Locality,
        heard_here: bool,
        heard_there: bool,
    ) -> None:
        a, b = world.open(), world.open()
        here = a.declare_subscriber("a", allowed_origin=origin)
        there = b.declare_subscriber("a", allowed_origin=origin)
        a.put("a", "1", allowed_destination=destination)
        a.declare_publisher("a", allowed_destination=destination).put("2")
        assert len(here.drain()) == (2 if heard_here else 0)
        assert len(there.drain()) == (2 if heard_there else 0)

    def test_matching_status_follows_subscribers(self, world: World) -> None:
        a, b = world.open(), world.open()
        publisher = a.declare_publisher("x/1")
        listener = publisher.declare_matching_listener()
        assert not matches(publisher)
        remote = b.declare_subscriber("x/*")
        local = a.declare_subscriber("x/**")
        assert matches(publisher)
        remote.undeclare()
        assert matches(publisher)
        local.undeclare()
        assert not matches(publisher)
        assert [status.matching for status in listener.drain()] == [True, False]

    def test_a_subscriber_is_compared_with_publishers_on_its_keys_alone(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, b = world.open(), world.open()
        publishers = [a.declare_publisher(f"robot/{number}/pose") for number in range(20)]
        listeners = [one.declare_matching_listener() for one in publishers]
        looked_at: list[str] = []
        matches_now = Writers._matches

        def counted(writers: Writers, writer: Writer) -> bool:
            looked_at.append(writer.key)
            return matches_now(writers, writer)

        monkeypatch.setattr(Writers, "_matches", counted)
        here = a.declare_subscriber("robot/7/*")
        there = b.declare_subscriber("robot/7/**")
        here.undeclare()
        there.undeclare()
        assert set(looked_at) == {"robot/7/pose"}
        statuses = [[one.matching for one in listener.drain()] for listener in listeners]
        assert statuses == [[True, False] if number == 7 else [] for number in range(20)]

    def test_what_does_not_fit_is_counted(self, world: World) -> None:
        session = world.open()
        publisher = session.declare_publisher("a")
        publisher.put("1")
        world.node.result = DROPPED
        publisher.put("2")
        assert (publisher.stats.sent_count, publisher.stats.dropped_count) == (1, 1)
        assert publisher.try_put("3") is False
        world.node.result, world.node.room = 0, False
        sent = len(world.sent(Push))
        assert publisher.try_put("4") is False
        assert session.try_put("a", "5") is False
        assert len(world.sent(Push)) == sent
        world.node.room = True
        assert publisher.try_put("6")
        assert session.try_put("a", "7")

    def test_a_put_that_may_not_be_dropped_waits_for_room(self, world: World) -> None:
        session = world.open()
        world.node.result = QUEUED
        session.put("a", "1", congestion_control=CongestionControl.BLOCK)
        assert len(world.driver.waited) == 1

    @pytest.mark.parametrize("payload", [3, None, object(), 1.5])
    def test_only_octets_and_text_are_payloads(self, world: World, payload: object) -> None:
        with pytest.raises(TypeError, match="expected bytes/str"):
            world.open().put("a", payload)  # type: ignore[call-overload]

    def test_keys_are_checked(self, world: World) -> None:
        session = world.open()
        with pytest.raises(KeyExprError):
            session.put("/a//b", "1")
        with pytest.raises(TypeError, match="key_expr"):
            session.declare_subscriber(3)  # type: ignore[call-overload]

    def test_a_namespace_is_put_in_front_and_taken_off(self, world: World) -> None:
        inside, outside = world.open(namespace="fleet/7"), world.open()
        mine, all_of_it = inside.declare_subscriber("**"), outside.declare_subscriber("**")
        inside.put("pose", "1")
        assert str(mine.recv().key_expr) == "pose"
        assert str(all_of_it.recv().key_expr) == "fleet/7/pose"
        outside.put("fleet/7/speed", "2")
        outside.put("fleet/8/speed", "3")
        assert [str(sample.key_expr) for sample in mine.drain()] == ["speed"]

    def test_timestamps_are_added_where_the_node_has_a_clock(self, world: World) -> None:
        session = world.open(timestamping={"enabled": True})
        subscriber = session.declare_subscriber("a")
        session.put("a", "1")
        stamp = subscriber.recv().timestamp
        assert stamp is not None
        assert stamp < session.new_timestamp()
        own = session.new_timestamp()
        session.put("a", "1", timestamp=own)
        assert subscriber.recv().timestamp == own


class TestHandlers:
    def test_a_ring_keeps_the_newest(self, world: World) -> None:
        session = world.open()
        subscriber = session.declare_subscriber("a", RingChannel(2))
        for number in range(5):
            session.put("a", str(number))
        assert [sample.payload.to_string() for sample in subscriber.drain()] == ["3", "4"]
        assert (subscriber.stats.received_count, subscriber.stats.dropped_count) == (5, 3)

    def test_a_function_is_called_and_told_the_end(self, world: World) -> None:
        session = world.open()
        got: list[str] = []
        callback = Callback[Sample](
            lambda sample: got.append(sample.payload.to_string()), lambda: got.append("end")
        )
        subscriber = session.declare_subscriber("a", callback)
        assert subscriber.handler is None
        session.put("a", "1")
        subscriber.undeclare()
        session.put("a", "2")
        assert got == ["1", "end"]

    def test_the_verbs_of_a_handler_work_on_the_entity(self, world: World) -> None:
        class Stack(list[Sample]):
            def recv(self) -> Sample:
                return self.pop()

            def try_recv(self) -> Sample | None:
                return self.pop() if self else None

        session, stack = world.open(), Stack()
        subscriber: Any = session.declare_subscriber("a", (stack.append, stack))
        session.put("a", "1")
        assert [sample.payload for sample in subscriber] == ["1"]
        assert subscriber.recv().payload == "1"
        assert subscriber.try_recv() is None
        with pytest.raises(TypeError, match="not iterable"):
            iter(session.declare_subscriber("a", stack.append))

    def test_a_pair_gives_back_its_second_half(self, world: World) -> None:
        session = world.open()
        got: list[Sample] = []
        subscriber = session.declare_subscriber("a", (got.append, got))
        session.put("a", "1")
        assert subscriber.handler is got
        assert len(got) == 1
        with pytest.raises(AttributeError, match="recv"):
            subscriber.recv()  # type: ignore[misc]

    def test_anything_else_is_refused(self, world: World) -> None:
        with pytest.raises(ValueError, match="Invalid handler type int"):
            world.open().declare_subscriber("a", 3)  # type: ignore[call-overload]

    def test_after_the_end_a_channel_gives_what_it_has_and_says_so(self, world: World) -> None:
        session = world.open()
        subscriber = session.declare_subscriber("a", FifoChannel(8))
        handler = subscriber.handler
        session.put("a", "1")
        subscriber.undeclare()
        assert handler.recv().payload == "1"
        for read in (handler.try_recv, handler.recv):
            with pytest.raises(ClosedError, match="channel is empty and closed"):
                read()
        assert list(handler) == []

    def test_recv_can_give_up(self, world: World) -> None:
        session = world.open()
        subscriber = session.declare_subscriber("a")
        with pytest.raises(TimeoutError):
            subscriber.recv(timeout=0)

    def test_a_function_that_raises_is_logged_and_called_again(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        session = world.open()
        got: list[str] = []

        def receive(sample: Sample) -> None:
            got.append(sample.payload.to_string())
            raise RuntimeError("no good")

        session.declare_subscriber("a", receive)
        session.put("a", "1")
        session.put("a", "2")
        assert got == ["1", "2"]
        assert "no good" in caplog.text


class TestLife:
    def test_undeclared_things_say_so(self, world: World) -> None:
        session = world.open()
        publisher = session.declare_publisher("a")
        publisher.undeclare()
        subscriber = session.declare_subscriber("a")
        subscriber.undeclare()
        with pytest.raises(ZError, match="Undeclared publisher"):
            publisher.put("x")
        with pytest.raises(ZError, match="Undeclared subscriber"):
            subscriber.recv()
        with pytest.raises(ZError, match="Undeclared publisher"):
            publisher.undeclare()

    def test_with_undeclares(self, world: World) -> None:
        session = world.open()
        with session, session.declare_subscriber("a") as subscriber:
            assert subscriber.key_expr == "a"
        with pytest.raises(ZError, match="Undeclared"):
            subscriber.handler  # noqa: B018
        assert session.is_closed()

    def test_nobody_refers_to_it(self, world: World) -> None:
        a, b = world.open(), world.open()
        watching = b.declare_publisher("a")
        subscriber = a.declare_subscriber("a")
        assert matches(watching)
        del subscriber
        assert not matches(watching)

    def test_garbage_is_undeclared_with_the_next_call(self, world: World) -> None:
        """The collector runs anywhere, also where locks are held: nothing is done from there."""
        a, b = world.open(), world.open()
        watching = b.declare_publisher("a")
        cycle: list[object] = [a.declare_subscriber("a")]
        cycle.append(cycle)
        assert matches(watching)
        del cycle
        with world.driver.lock:
            gc.collect()
        gc.collect()
        a.put("x", "1")
        assert not matches(watching)

    def test_functions_go_on_in_the_background(self, world: World) -> None:
        session = world.open()
        got: list[Sample] = []
        session.declare_subscriber("a", got.append)
        gc.collect()
        session.put("a", "1")
        assert len(got) == 1

    def test_a_closed_session_refuses(self, world: World) -> None:
        session = world.open()
        publisher = session.declare_publisher("a")
        subscriber = session.declare_subscriber("a")
        session.close()
        session.close()
        assert session.is_closed()
        assert world.driver.closed
        for call in (
            lambda: session.put("a", "1"),
            lambda: publisher.put("1"),
            lambda: session.declare_publisher("a"),
            lambda: session.declare_subscriber("a"),
            lambda: session.declare_queryable("a"),
            lambda: session.get("a"),
            lambda: session.liveliness().declare_token("a"),
        ):
            with pytest.raises(ZError, match="session closed"):
                call()
        with pytest.raises(ZError, match="channel is empty and closed"):
            subscriber.recv()
        assert session.zid()
        publisher.undeclare()

    def test_dropping_a_session_closes_it(self, world: World) -> None:
        session = world.open()
        publisher = session.declare_publisher("a")
        del session
        gc.collect()
        with pytest.raises(ZError, match="session closed"):
            publisher.put("1")

    def test_undeclare_and_close_inside_a_function(self, world: World) -> None:
        session = world.open()
        got: list[int] = []

        def receive(sample: Sample) -> None:
            subscriber.undeclare()
            session.close()
            got.append(1)

        subscriber = session.declare_subscriber("a", receive)
        session.put("a", "1")
        assert got == [1]
        assert session.is_closed()

    def test_what_is_declared_has_no_copies(self, world: World) -> None:
        session = world.open()
        for declared in (session.declare_publisher("a"), session.declare_subscriber("a")):
            for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="declare another one"):
                    attempt(declared)
        queryable = session.declare_queryable("q")
        replies = session.get("q")
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copy.copy(queryable.recv())
        assert list(replies) == []

    def test_declared_keys(self, world: World) -> None:
        session = world.open()
        key = session.declare_keyexpr("a/b")
        assert key == KeyExpr("a/b") == session.declare_keyexpr(key)
        session.declare_keyexpr("c")
        session.undeclare(key)
        session.undeclare(key)
        with pytest.raises(ZError, match="declare_keyexpr"):
            session.undeclare(key)
        session.declare_keyexpr("d")
        assert [one.body for one in world.sent(Declare) if isinstance(one, Declare)] == [
            DeclareKeyExpr(1, text_key("a/b")),
            DeclareKeyExpr(2, text_key("c")),
            UndeclareKeyExpr(1),
            DeclareKeyExpr(1, text_key("d")),
        ]
        publisher = session.declare_publisher("a")
        session.undeclare(publisher)
        with pytest.raises(ZError):
            publisher.put("1")


def test_pushes_come_without_a_subscriber(world: World) -> None:
    """A node may send more than was asked for: it goes nowhere."""
    session = world.open()
    world.driver.receive(session, Push(text_key("a"), Put(b"1")))
    assert session.info.zid() == session.zid()
    assert session.info.transports() == []
    assert session.info.links() == []


def test_numbers_of_a_session_begin_anew_and_skip_those_in_use() -> None:
    """After 2**32 of them the node at the other end could not read an id."""
    driver = FakeDriver()
    session = Session(Config(), driver)
    core = session._context.core
    subscriber = session.declare_subscriber("a")
    publisher = session.declare_publisher("b")
    token = session.liveliness().declare_token("t")
    queryable = session.declare_queryable("q")
    core.face._ids._last = ID_MAX
    numbers = [core.face.new_id() for _ in range(8)]
    used = {subscriber.id.eid, publisher.id.eid, queryable.id.eid, *core.tokens._own}
    assert max(numbers) < 20
    assert not used & set(numbers)
    assert len(set(numbers)) == 8
    token.undeclare()
    session.close()


def test_an_answered_get_leaves_no_timer() -> None:
    driver = FakeDriver()
    session = Session(Config(), driver)
    core = session._context.core
    for _ in range(1_000):
        get = core.gets.start(Ask(key="q", timeout_ns=10_000_000_000), Channel(8, is_ring=True))
        core.gets.end(get)
    assert len(core.face._timers._heap) < 200
    assert core.face.next_timer_ns() is None
    session.close()


@pytest.mark.parametrize("name", ["session", "publisher"])
def test_try_put_looks_for_room_and_sends_without_letting_others_in(name: str) -> None:
    driver = FakeDriver()
    session = Session(Config(), driver)
    publisher = session.declare_publisher("a", congestion_control=CongestionControl.BLOCK)
    outbox = session._context.core.outbox
    steps: list[str] = []
    release = outbox.release

    def has_room(face_id: int, key: str, qos: int) -> bool:
        assert driver.lock.locked()
        steps.append(f"room for {key}")
        return driver.node.room

    def released() -> None:
        steps.append("released")
        release()

    driver.node.has_room = has_room  # type: ignore[method-assign]
    outbox.release = released
    sent = len(driver.node.sent)

    def try_put() -> bool:
        return session.try_put("a", "1") if name == "session" else publisher.try_put("1")

    assert try_put()
    assert steps == ["room for a", "released"]
    assert len(driver.node.sent) == sent + 1
    driver.node.room = False
    assert not try_put()
    assert len(driver.node.sent) == sent + 1
    assert driver.waited == []
    session.close()

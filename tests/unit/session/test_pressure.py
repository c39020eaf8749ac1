"""A reader that is behind holds up the network, and not for ever."""

from __future__ import annotations

import threading

import pytest
from tests.unit.session.fake_node import FakeDriver, World

from elea.config.config import Config
from elea.sample import Sample
from elea.session.handlers import FifoChannel, RingChannel
from elea.session.outlet import OVERRUN_COUNT_MAX
from elea.session.ports import CallbackThread
from elea.session.session import Session

PATIENCE_S = 20.0


def held(world: World) -> bool:
    return world.driver.held


def test_a_full_channel_holds_up_reading_until_it_is_read() -> None:
    world = World()
    session = world.open()
    subscriber = session.declare_subscriber("a", FifoChannel(4))
    for number in range(6):
        session.put("a", str(number))
        assert held(world) == (number >= 4)
    got = [subscriber.recv().payload.to_string() for _ in range(3)]
    assert held(world)
    got.append(subscriber.recv().payload.to_string())
    assert not held(world)
    got += [sample.payload.to_string() for sample in subscriber.drain()]
    assert got == list("012345")
    assert subscriber.dropped_count == 0


def test_a_channel_nobody_reads_holds_up_nothing_for_long(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    session = world.open()
    subscriber = session.declare_subscriber("a", FifoChannel(2))
    for number in range(4):
        session.put("a", str(number))
    assert held(world)
    world.driver.advance(4)
    subscriber.recv()
    world.driver.advance(4)
    assert held(world)  # it was read meanwhile
    world.driver.advance(4)
    assert not held(world)
    assert "nobody reads" in caplog.text
    session.put("a", "4")
    assert [sample.payload.to_string() for sample in subscriber.drain()] == ["1", "2", "3"]
    assert subscriber.stats.dropped_count == 1
    session.put("a", "5")
    assert subscriber.recv().payload == "5"


def test_a_ring_never_holds_up() -> None:
    world = World()
    session = world.open()
    subscriber = session.declare_subscriber("a", RingChannel(1))
    for number in range(6):
        session.put("a", str(number))
    assert not held(world)
    assert subscriber.recv().payload == "5"


@pytest.mark.parametrize("how", ["undeclare", "drop"])
def test_a_channel_that_is_gone_holds_up_nothing(how: str) -> None:
    world = World()
    session = world.open()
    subscriber = session.declare_subscriber("a", FifoChannel(1))
    session.put("a", "1")
    session.put("a", "2")
    assert held(world)
    if how == "undeclare":
        subscriber.undeclare()
    del subscriber
    assert not held(world)


def test_replies_nobody_can_read_are_not_kept() -> None:
    world = World()
    a, b = world.open(), world.open()
    queryable = b.declare_queryable("q")
    replies = a.get("q", FifoChannel(1), consolidation=None)
    query = queryable.recv()
    del replies
    for _ in range(4):
        query.reply("q", "1")
    assert not held(world)


def test_a_function_that_is_behind_holds_up_too() -> None:
    driver = FakeDriver(CallbackThread.SESSION)
    session = Session(Config(), driver)
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()
    got: list[str] = []
    count = OVERRUN_COUNT_MAX + 1

    def slow(sample: Sample) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        got.append(sample.payload.to_string())
        if len(got) == count + 1:
            done.set()

    session.declare_subscriber("a", slow)
    session.put("a", "0")
    assert entered.wait(PATIENCE_S)
    other = threading.Event()
    session.declare_subscriber("b", lambda sample: other.set())
    for number in range(1, count + 1):
        session.put("a", str(number))
    session.put("b", "x")
    assert other.wait(PATIENCE_S)  # everything before it was put off by then
    assert driver.held
    go_on.set()
    assert done.wait(PATIENCE_S)
    session.close()
    assert got == [str(number) for number in range(count + 1)]

"""Rows as samples: what travels, what is asked of a full queue, what is counted."""

from __future__ import annotations

import pytest
from tests.unit.session.fake_node import World
from tests.unit.store.samples import CLOCK, batch_of, row

from elea.answers import DROPPED, QUEUED
from elea.errors import ClosedError, InvalidValueError, KeyExprError
from elea.ids import ZenohId
from elea.session.rows import RowPublisher
from elea.wire.data.put import Put
from elea.wire.network.push import Push


def pushed(world: World) -> list[Push]:
    return [one for one in world.sent(Push) if isinstance(one, Push)]


@pytest.fixture
def world() -> World:
    return World()


def test_rows_travel_as_they_were(world: World) -> None:
    publisher = RowPublisher(world.open(), rename=lambda key: f"sim/{key}")
    rows = publisher.load(
        batch_of(
            [
                row("a", 0, b"0", qos=0x15),
                row("a", 1, b"1", attachment=b"more", encoding="text/plain"),
                row("b", 2, kind=1),
                row("b", 3, b"3", hlc=-1, hlc_id=None),
                row("b", 4, b"4", hlc=None, hlc_id=None),
            ]
        )
    )
    publisher.publish(rows, 0, 2)
    publisher.publish(rows, 2, 5)
    first, attached, gone, late, unstamped = pushed(world)
    assert [one.key.suffix for one in (first, gone)] == ["sim/a", "sim/b"]
    assert isinstance(first.body, Put)
    assert (first.body.payload, first.qos, first.body.source) == (b"0", 0x15, None)
    assert first.body.timestamp is not None
    assert first.body.timestamp.id == ZenohId.parse(CLOCK).to_bytes()
    assert isinstance(attached.body, Put)
    assert (attached.body.attachment, attached.body.encoding is None) == (b"more", False)
    assert not isinstance(gone.body, Put)
    assert late.body.timestamp is not None
    assert late.body.timestamp.time == 2**64 - 1  # its sign bit is set from 2038 on
    assert late.body.timestamp.id == world.node.zid
    assert unstamped.body.timestamp is None


def test_new_timestamps_and_waiting(world: World) -> None:
    publisher = RowPublisher(world.open(), original=False, block=True)
    publisher.publish(publisher.load(batch_of([row("a", 0, qos=0x25)])), 0, 1)
    [push] = pushed(world)
    assert (push.body.timestamp, push.qos) == (None, 0x0D)


def test_what_is_dropped_is_counted(world: World) -> None:
    publisher = RowPublisher(world.open())
    batch = batch_of([row("a", at, b"", kind=at % 2) for at in range(10)])
    world.node.result = DROPPED
    publisher.publish(publisher.load(batch), 0, 7)
    assert publisher.dropped_count == 7
    world.node.result = QUEUED  # waits after each of them, and drops none
    publisher.publish(publisher.load(batch), 7, 10)
    assert (publisher.dropped_count, len(pushed(world))) == (7, 10)


def test_lanes_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elea.session.rows._LANES_COUNT_MAX", 3)
    publisher = RowPublisher(world.open())
    publisher.publish(publisher.load(batch_of([row(f"k/{at}", at) for at in range(10)])), 0, 10)
    assert [one.key.suffix for one in pushed(world)] == [f"k/{at}" for at in range(10)]
    assert len(publisher._lanes) <= 3


def test_rows_that_are_no_samples(world: World) -> None:
    publisher = RowPublisher(world.open())
    with pytest.raises(KeyExprError):
        publisher.load(batch_of([row("a//b", 0)]))
    with pytest.raises(InvalidValueError):
        publisher.load(batch_of([row("a", 0, hlc_id="XY")]))
    with pytest.raises(InvalidValueError):
        publisher.load(batch_of([row("a", 0, encoding="x" * 300)]))


def test_a_closed_session(world: World) -> None:
    session = world.open()
    publisher = RowPublisher(session)
    rows = publisher.load(batch_of([row("a", 0)]))
    session.close()
    with pytest.raises(ClosedError):
        publisher.publish(rows, 0, 1)

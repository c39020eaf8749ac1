"""Subscribers that are not pushed to, durable data, and properties, by way of a gateway."""

from __future__ import annotations

import pytest
from tests.xrce_world import World, device_settings

from elea.xrce.client import PullEnded
from elea.xrce.declaration_records import (
    Property,
)
from elea.xrce.gateway.effects import Ask, Subscribe
from elea.xrce.message_records import Pong, StreamData
from elea.xrce.properties import (
    DEPTH,
    DURABILITY,
    EMPTY_IS_DELETE,
    RELIABILITY,
    WANTS_PULL_END,
    nat,
)
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.status import Status

# Modes.


@pytest.mark.line("X-107", "X-108")
def test_pulling() -> None:
    world = World()
    reader = world.device(device_settings(0, capabilities=WANTS_PULL_END))
    rid = reader.resource("/a")
    reader.subscriber(rid, pull=True)
    world.committed(reader)
    reader.pull(rid, world.now_ns, pull_id=2, max_samples=0)
    for number in range(5):
        world.put("a", b"%d" % number)
    world.run(1)
    assert world.payloads(0) == []
    reader.pull(rid, world.now_ns, pull_id=1, max_samples=2)
    world.run(0.2)
    assert world.payloads(0) == [b"0", b"1"]
    reader.pull(rid, world.now_ns, pull_id=1)
    world.run(0.2)
    assert world.payloads(0) == [b"0", b"1", b"2", b"3", b"4"]
    reader.pull(rid, world.now_ns, pull_id=2)
    world.run(0.2)
    assert world.payloads(0)[5:] == [b"0", b"1", b"2", b"3", b"4"]
    assert sum(isinstance(one, PullEnded) for one in world.events[0]) == 4
    assert len(world.gateway.devices[b"\xde\0"].subscriptions[rid].store or ()) == 0


@pytest.mark.line("X-109")
def test_a_store_that_overflows_is_counted() -> None:
    world = World()
    reader = world.device()
    rid = reader.resource("/a")
    reader.subscriber(rid, pull=True)
    world.committed(reader)
    for number in range(1_030):
        world.put("a", b"%d" % number)
    reader.pull(rid, world.now_ns, max_samples=1)
    world.run(0.2)
    assert world.payloads(0) == [b"6"]
    assert world.gateway.counters.stores_dropped == 6


@pytest.mark.parametrize("silent", [False, True])
def test_a_pull_without_a_subscriber_reads_what_is_at_rest(silent: bool) -> None:
    world = World(transient=MemoryStore(), asks=True, silent=silent)
    writer, reader = world.device(), world.device()
    writer.write_to("/lab/a#transient", b"old", world.now_ns)
    writer.write_to("/lab/b#transient", b"mine", world.now_ns)
    world.run(0.2)
    world.rest = [
        world.sample("lab/a", b"newer"),
        world.sample("lab/c", b"other"),
        world.sample("x", b""),
    ]
    wild = reader.resource("/lab/*")
    world.committed(reader)
    reader.pull(wild, world.now_ns, pull_id=1, max_samples=2)
    world.run(11)
    expected = [("lab/b", b"mine"), ("lab/a", b"newer"), ("lab/c", b"other")]
    if silent:
        expected = [("lab/a", b"old"), ("lab/b", b"mine")]
    assert world.received(1) == expected[:2]
    reader.pull(wild, world.now_ns, pull_id=1)
    world.run(0.2)
    assert world.received(1) == expected
    assert Ask(0, ("lab/*",), "", 10_000_000_000) in world.effects
    reader.pull(99, world.now_ns)
    world.run(0.2)
    assert world.gateway.devices[b"\xde\1"].counters.pulls == 1


def test_a_pull_for_a_push_subscriber_gives_the_latest_values() -> None:
    world = World(transient=MemoryStore())
    writer, reader = world.device(), world.device()
    rid = reader.resource("/lab/*")
    reader.subscriber(rid)
    writer.write_to("/lab/a#transient", b"1", world.now_ns)
    world.run(0.2)
    world.committed(reader)
    assert world.payloads(1) == []
    reader.pull(rid, world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == [b"1"]


@pytest.mark.line("X-111")
def test_periodic_push() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    rid = reader.resource("/a")
    reader.subscriber(
        rid, window_ms=(1_000, 10_000, 500), properties=[Property(id=DEPTH, value=nat(9))]
    )
    world.committed(reader, run_s=0.3)
    for number in range(3):
        world.put("a", b"%d" % number)
    world.run(0.5)
    assert world.payloads(0) == []
    world.run(0.3)  # the window is open from 1.2 to 1.7 seconds
    assert world.payloads(0) == [b"0", b"1", b"2"]
    world.put("a", b"3")
    world.run(0.1)
    assert world.payloads(0)[-1] == b"3"
    world.run(1)
    world.put("a", b"4")
    before = len(world.to_device[0])
    world.run(7)
    told = [one for one in world.to_device[0][before:] if not isinstance(one, Pong)]
    assert told == [], "nobody wakes it; what it asks is answered"
    world.run(3)
    assert world.payloads(0)[-1] == b"4"


def test_only_the_latest_of_a_key_waits_for_a_window_unless_more_are_asked_for() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    reader.subscriber(reader.resource("/*"), window_ms=(1_000, 10_000, 500))
    world.committed(reader)
    for number in range(3):
        world.put("a", b"a%d" % number)
        world.put("b", b"b%d" % number)
    world.run(2)
    assert world.payloads(0) == [b"a2", b"b2"]


@pytest.mark.line("X-111")
def test_what_was_lost_in_a_window_comes_in_the_next() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    rid = reader.resource("/a")
    reader.subscriber(rid, window_ms=(1_000, 10_000, 500))
    world.committed(reader, run_s=0.5)
    world.put("a", b"1")
    world.cut.add(0)
    world.run(4)
    world.cut.clear()
    world.run(5)
    assert world.payloads(0) == []
    world.run(3)
    assert world.payloads(0) == [b"1"]


@pytest.mark.line("X-112")
def test_periodic_pull() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    rid = reader.resource("/a")
    depth = [Property(id=DEPTH, value=nat(9))]
    reader.subscriber(rid, pull=True, window_ms=(1_000, 10_000, 500), properties=depth)
    world.committed(reader, run_s=0.3)
    for number in range(3):
        world.put("a", b"%d" % number)
    reader.pull(rid, world.now_ns, max_samples=1)
    reader.pull(rid, world.now_ns, max_samples=2)
    world.run(0.5)
    assert world.payloads(0) == []
    world.run(0.5)
    assert world.payloads(0) == [b"0", b"1"], "the newest Pull, at the start of the window"


@pytest.mark.line("X-113")
def test_a_subscriber_declared_again_is_another_one() -> None:
    world = World()
    reader = world.device()
    rid = reader.resource("/a")
    reader.subscriber(rid, pull=True)
    world.committed(reader)
    world.put("a", b"0")
    reader.subscriber(rid)
    world.committed(reader)
    world.put("a", b"1")
    world.run(0.2)
    assert world.payloads(0) == [b"1"]
    reader.subscriber(rid, window_ms=(0, 1_000, 100))
    world.committed(reader)
    world.put("a", b"2")
    world.run(0.2)
    assert world.payloads(0) == [b"1"]
    world.run(1)
    assert world.payloads(0) == [b"1", b"2"]


# Durability.


@pytest.mark.line("X-117")
def test_late_joiners_of_durable_resources() -> None:
    world = World(transient=MemoryStore())
    writer = world.device()
    durable, fleeting = writer.resource("/a#transient"), writer.resource("/b")
    writer.publisher(durable)
    world.committed(writer)
    assert writer.is_matched(durable), "the service reads it"
    writer.write(durable, b"1", world.now_ns)
    writer.write(durable, b"2", world.now_ns)
    writer.write(fleeting, b"3", world.now_ns)
    world.run(0.2)
    reader = world.device()
    reader.subscriber(reader.resource("/a#transient"))
    reader.subscriber(reader.resource("/b"))
    reader.subscriber(reader.resource("/a"))
    world.committed(reader)
    assert world.payloads(1) == [b"2"]
    assert [one.payload for one in world.gateway.at_rest.matching("**")] == [b"2"]


def test_persistent_data_survives_a_restart() -> None:
    world = World(transient=MemoryStore(), persistent=MemoryStore(evicts=False))
    writer = world.device()
    writer.write_to("/a#transient", b"1", world.now_ns)
    writer.write_to("/b#persistent", b"2", world.now_ns)
    world.run(0.2)
    world.transient = MemoryStore()
    world.restart()
    reader = world.device()
    reader.subscriber(reader.resource("/**#transient"))
    world.committed(reader)
    assert world.payloads(1) == [b"2"]


@pytest.mark.line("X-119")
def test_levels_are_requested_and_offered() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    reader.subscriber(reader.resource("/a#transient", rid=2))
    reader.subscriber(reader.resource("/a", rid=4))
    said = [Property(id=DURABILITY, value=b"\2")]
    reader.subscriber(reader.resource("/a", rid=6), properties=said)
    world.committed(reader)
    for name in ("/a", "/a#transient", "/a#persistent"):
        writer.write_to(name, name.encode(), world.now_ns)
    world.put("a", b"zenoh")
    world.run(0.2)
    got = [(one.id, one.payload) for one in world.to_device[1] if isinstance(one, StreamData)]
    assert sorted(got) == sorted(
        [
            (2, b"/a#transient"),
            (2, b"/a#persistent"),
            (2, b"zenoh"),
            (4, b"/a"),
            (4, b"/a#transient"),
            (4, b"/a#persistent"),
            (4, b"zenoh"),
            (6, b"/a#persistent"),
            (6, b"zenoh"),
        ]
    )


def test_history_of_other_storages_comes_first_and_everything_once() -> None:
    world = World(transient=MemoryStore(), asks=True, silent=True)
    writer, reader = world.device(), world.device()
    writer.write_to("/a#transient", b"1", world.now_ns)
    world.run(0.2)
    elsewhere = world.sample("b", b"2")
    reader.subscriber(reader.resource("/*#transient"))
    world.committed(reader)
    writer.write_to("/a#transient", b"3", world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == []
    (asked,) = [one for one in world.effects if isinstance(one, Ask)]
    world.gateway.answered(asked.query_id, [elsewhere, elsewhere], world.now_ns)
    world.gateway.answered(asked.query_id, [elsewhere], world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == [b"2", b"3"]
    # Nobody answers: after two seconds it begins without.
    late = world.device()
    late.subscriber(late.resource("/*#transient"))
    world.committed(late)
    assert world.payloads(2) == []
    world.run(3)
    assert world.payloads(2) == [b"3"]


def test_deletes() -> None:
    world = World(transient=MemoryStore())
    writer = world.device(device_settings(0, capabilities=EMPTY_IS_DELETE))
    plain = world.device()
    rid = writer.resource("/a#transient")
    writer.publisher(rid)
    writer.subscriber(rid)
    plain.subscriber(plain.resource("/a"))
    world.committed(writer)
    world.committed(plain)
    assert Subscribe("a") in world.effects
    writer.write(rid, b"1", world.now_ns)
    world.run(0.2)
    world.put("a", deleted=True)
    world.run(0.2)
    assert world.payloads(0) == [b"1", b""]
    assert world.payloads(1) == [b"1"]
    assert world.gateway.at_rest.matching("a") == []
    writer.write(rid, b"2", world.now_ns)
    writer.write(rid, b"", world.now_ns)
    world.run(0.2)
    assert world.puts()[-1].deleted
    assert world.gateway.at_rest.matching("a") == []


def test_a_full_persistent_store_refuses() -> None:
    class Full(MemoryStore):
        @property
        def is_full(self) -> bool:
            return True

        def write(self, sample: object, now_ns: int) -> bool:
            return False

    world = World(persistent=Full())
    writer = world.device()
    rid = writer.resource("/a#persistent")
    writer.publisher(rid)
    settled = world.committed(writer)
    assert (settled.status, settled.id) == (Status.NO_SPACE, rid)
    writer.write_to("/a#persistent", b"1", world.now_ns)
    world.run(0.2)
    assert world.puts() == []
    assert world.gateway.counters.refused == 1


@pytest.mark.line("X-078")
def test_properties_are_resources() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    writer.resource("/lab/t", [Property(id=RELIABILITY, value=b"\1"), Property(id=98, value=b"xy")])
    writer.resource("/lab/u")
    world.committed(writer)
    sid = reader.selection("/lab/*/property")
    reader.subscriber(sid)
    other = reader.selection("/lab/u/property")
    world.committed(reader)
    expected = [
        ("lab/t/property", bytes.fromhex("02060101620278 79".replace(" ", ""))),
        ("lab/u/property", b"\0"),
    ]
    assert world.received(1) == expected
    reader.pull(other, world.now_ns)
    world.run(0.2)
    assert world.payloads(1)[2:] == [b"\0"]


@pytest.mark.line("X-117")
def test_a_long_history_does_not_end_a_session() -> None:
    world = World(transient=MemoryStore())
    writer, reader = world.device(), world.device()
    for number in range(1_500):
        while not writer.write_to(f"/h/{number}#transient", b"%d" % number, world.now_ns):
            world.run(0.05)
    world.run(2)
    reader.subscriber(reader.resource("/h/*#transient"))
    reader.commit()
    world.run(0.01)
    writer.write_to("/h/0#transient", b"live", world.now_ns)
    world.run(20)
    expected = [b"%d" % number for number in range(1_500)]
    assert world.payloads(1) == [*expected, b"live"]


def test_pulls_outside_of_windows_are_bounded() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    rid = reader.resource("/a")
    reader.subscriber(rid, pull=True, window_ms=(5_000, 10_000, 500))
    world.committed(reader)
    for pull_id in range(40):
        while not reader.pull(rid, world.now_ns, pull_id=pull_id):
            world.run(0.05)
    world.run(1)
    assert len(world.gateway.devices[b"\xde\0"].subscriptions[rid].pulls) == 16


def test_a_sleeper_is_not_left_without_its_result() -> None:
    world = World()
    reader = world.device(device_settings(0, lease_s=100))
    reader.subscriber(reader.resource("/a"), window_ms=(20_000, 60_000, 500))
    reader.commit()
    world.run(0.007)
    world.cut.add(0)  # the Result is lost
    world.run(2)
    world.cut.clear()
    world.run(2)
    assert [type(one).__name__ for one in world.events[0]] == ["Opened", "Settled"]


def test_a_subscriber_declared_again_gets_its_history_once() -> None:
    world = World(transient=MemoryStore(), asks=True, silent=True)
    writer, reader = world.device(), world.device()
    writer.write_to("/a#transient", b"1", world.now_ns)
    world.run(0.2)
    rid = reader.resource("/a#transient")
    reader.subscriber(rid)
    world.committed(reader)
    reader.subscriber(rid)
    world.committed(reader)
    for asked in [one for one in world.effects if isinstance(one, Ask)]:
        world.gateway.answered(asked.query_id, (), world.now_ns)
    world.run(5)
    assert world.payloads(1) == [b"1"]


def test_answers_that_nobody_goes_on_with_are_forgotten() -> None:
    world = World(transient=MemoryStore())
    reader = world.device()
    for number in range(3):
        reader.write_to(f"/a/{number}#transient", b"", world.now_ns)
    rid = reader.resource("/a/*")
    world.committed(reader)
    reader.pull(rid, world.now_ns, max_samples=1)
    world.run(50)
    device = world.gateway.devices[b"\xde\0"]
    assert len(device.rests) == 1
    world.run(20)
    assert len(device.rests) == 0
    assert len(world.payloads(0)) == 1

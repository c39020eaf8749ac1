"""A gateway and devices that are slow, tiny, asleep, or take samples together."""

from __future__ import annotations

import pytest
from tests.xrce_world import World, device_settings

from elea.xrce.client import DEVICE_LIMITS, Client, PullEnded, Received
from elea.xrce.declaration_records import Property
from elea.xrce.encode import encode
from elea.xrce.gateway.effects import Left
from elea.xrce.gateway.flow import PRESS_NS
from elea.xrce.message_records import (
    BatchedData,
    BatchedDataPayloadPart,
    Close,
    Declare,
    StreamData,
)
from elea.xrce.properties import (
    ACCEPTS_BATCHES,
    ACCEPTS_FRAGMENTS,
    RELIABILITY,
    VENDOR_CODE,
    WANTS_PULL_END,
    SessionProperties,
)
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.session.settings import SECOND_NS, SessionSettings

Data = StreamData | BatchedData


def reader(
    world: World, *names: str, pull: bool = False, capabilities: int = ACCEPTS_BATCHES
) -> Client:
    """A device that takes batches, with subscribers."""
    client = world.device(device_settings(len(world.clients), capabilities=capabilities))
    for name in names:
        client.subscriber(client.resource(name), pull=pull)
    world.committed(client)
    world.to_device[-1].clear()
    return client


def data_to(world: World, number: int = 0) -> list[Data]:
    return [one for one in world.to_device[number] if isinstance(one, Data)]


# Batches.


@pytest.mark.line("X-104")
def test_samples_that_are_ready_together_share_a_message() -> None:
    world = World()
    reader(world, "/d")
    for payload in (b"1", b"2", b""):
        world.put("d", payload)
    world.run(1)
    [message] = data_to(world)
    assert isinstance(message, BatchedData)
    assert (message.id, message.payload) == (2, (b"1", b"2", b""))
    assert world.payloads(0) == [b"1", b"2", b""]
    world.put("d", b"alone")
    world.run(1)
    assert isinstance(data_to(world)[-1], StreamData)
    assert world.payloads(0)[-1] == b"alone"


def test_who_does_not_say_so_gets_no_batches() -> None:
    world = World()
    reader(world, "/d", capabilities=0)
    for payload in (b"1", b"2"):
        world.put("d", payload)
    world.run(1)
    assert [type(one) for one in data_to(world)] == [StreamData, StreamData]


@pytest.mark.line("X-104")
def test_a_pattern_has_the_id_of_each_sample_in_the_batch() -> None:
    world = World()
    client = reader(world, "/f/*")
    rids = [client.resource(f"/f/{name}") for name in "ab"]
    world.committed(client)
    for key in ("f/a", "f/b", "f/a"):
        world.put(key, key.encode())
    world.run(1)
    [message] = data_to(world)
    assert isinstance(message, BatchedData)
    parts = [one for one in message.payload if isinstance(one, BatchedDataPayloadPart)]
    assert [one.prid for one in parts] == [rids[0], rids[1], rids[0]]
    assert world.received(0) == [(key, key.encode()) for key in ("f/a", "f/b", "f/a")]


def test_order_is_kept_between_ids_and_names_and_channels() -> None:
    world = World()
    client = reader(world, "/d", "/e", "/g/*")
    off = [Property(id=RELIABILITY, value=b"\0")]
    client.subscriber(client.resource("/u"), properties=off)
    world.committed(client)
    keys = ["d", "d", "e", "g/new", "d", "e", "e", "u", "u", "d"]
    for number, key in enumerate(keys):
        world.put(key, b"%d" % number)
    world.run(1)
    reliable = [int(one) for key, one in world.received(0) if key != "u"]
    assert reliable == sorted(reliable)
    assert len(world.received(0)) == len(keys)
    batches = [one for one in data_to(world) if isinstance(one, BatchedData)]
    assert sorted((one.id, len(one.payload), one.reliable) for one in batches) == [
        (2, 2, True),
        (4, 2, True),
        (client_id(world, "u"), 2, False),
    ]


def client_id(world: World, path: str) -> int:
    events = [one for one in world.events[0] if isinstance(one, Received) and one.path == path]
    assert events[0].id is not None
    return events[0].id


def test_a_batch_is_no_longer_than_a_frame_and_long_samples_go_alone() -> None:
    world = World()
    capabilities = ACCEPTS_BATCHES | ACCEPTS_FRAGMENTS
    client = world.device(device_settings(0, frame_len=64, capabilities=capabilities))
    client.subscriber(client.resource("/d"))
    world.committed(client)
    expected = [bytes((length,)) * length for length in (10, 20, 30, 58, 57, 56, 200, 1, 2, 0, 3)]
    for payload in expected:
        world.put("d", payload)
    lengths = [len(frame) for _, frame in world.gateway.data_to_send(world.now_ns)]
    assert max(lengths) <= 64
    assert len(lengths) < len(expected) + 3
    world.run(5)  # those frames were taken from the network: they are asked for again
    assert world.payloads(0) == expected


def test_a_pull_ends_behind_its_batch() -> None:
    world = World()
    client = reader(world, "/d", pull=True, capabilities=ACCEPTS_BATCHES | WANTS_PULL_END)
    for payload in (b"1", b"2", b"3"):
        world.put("d", payload)
    client.pull(2, world.now_ns, max_samples=2)
    world.run(1)
    kinds = [type(one) for one in world.events[0]][-3:]
    assert kinds == [Received, Received, PullEnded]
    assert [type(one) for one in data_to(world)] == [BatchedData, StreamData]


def test_a_history_comes_in_batches() -> None:
    world = World(transient=MemoryStore(depth=50))
    writer = world.device(device_settings(0))
    for number in range(50):
        writer.write_to("/h#transient", b"%d" % number, world.now_ns)
        world.run(0.01)
    world.run(1)
    late = world.device(device_settings(1, capabilities=ACCEPTS_BATCHES))
    late.subscriber(late.resource("/h#transient"))
    world.committed(late, run_s=3)
    assert world.payloads(1) == [b"%d" % number for number in range(50)]
    assert len(data_to(world, 1)) == 1


# Back-pressure.


def test_the_data_space_is_held_back_before_anything_is_lost() -> None:
    world = World()
    reader(world, "/d", capabilities=0)
    world.cut.add(0)
    count = 0
    while not world.gateway.is_pressed(world.now_ns):
        world.put("d", b"%d" % count)
        count += 1
        assert count < 2_000
    assert world.gateway.devices  # it could take as much again
    world.cut.clear()
    world.run(1)
    assert not world.gateway.is_pressed(world.now_ns)
    assert world.payloads(0) == [b"%d" % number for number in range(count)]


def test_one_device_does_not_hold_back_others_for_long() -> None:
    world = World(lease_s=0)
    reader(world, "/d", capabilities=0)
    world.cut.add(0)
    while not world.gateway.is_pressed(world.now_ns):
        world.put("d", b"x")
    world.run(PRESS_NS / 1e9 - 0.01)
    assert world.gateway.is_pressed(world.now_ns)
    world.run(0.02)
    assert not world.gateway.is_pressed(world.now_ns)
    for _ in range(1_024):
        world.put("d", b"x")
    world.flush()
    [left] = [one for one in world.effects if isinstance(one, Left)]
    assert left.reason == 3


def test_a_device_that_leaves_presses_no_more() -> None:
    world = World(lease_s=0)
    reader(world, "/d", capabilities=0)
    world.cut.add(0)
    while not world.gateway.is_pressed(world.now_ns):
        world.put("d", b"x")
    leaving = encode(Close(pid=bytes((0xDE, 0)), reason=255))
    world.gateway.receive(leaving, 0, world.now_ns)
    assert not world.gateway.devices
    assert not world.gateway.is_pressed(world.now_ns)


# Tiny and sleepy ones.


def test_a_device_with_frames_of_20_octets() -> None:
    """From the Open to payloads in fragments, both ways: no frame is longer."""
    said = SessionProperties(
        vendor=VENDOR_CODE, frame_len=20, capabilities=ACCEPTS_BATCHES | ACCEPTS_FRAGMENTS
    )
    tiny = SessionSettings(
        pid=b"\1", lease_ns=10 * SECOND_NS, frame_len=20, properties=said, limits=DEVICE_LIMITS
    )
    world = World()
    client = world.device(tiny)
    rid = client.resource("/t")
    client.publisher(rid)
    client.subscriber(client.resource("/u"))
    world.committed(client)
    world.run(1)
    other = world.device(device_settings(1, capabilities=ACCEPTS_FRAGMENTS))
    other.subscriber(other.resource("/t"))
    world.committed(other)
    world.run(1)
    payload = bytes(range(100))
    assert client.write(rid, payload, world.now_ns)
    for number in range(5):
        world.put("u", bytes((number,)))
    world.put("u", payload)
    world.run(5)
    assert world.payloads(1) == [payload]
    assert world.payloads(0) == [bytes((number,)) for number in range(5)] + [payload]
    assert max(world.frame_lengths[0]) <= 20


def test_a_device_that_sleeps_is_told_of_readers_when_it_wakes() -> None:
    world = World(lease_s=0)
    sleepy = world.device(device_settings(0, lease_s=0))
    rid = sleepy.resource("/w")
    sleepy.publisher(rid)
    sleepy.subscriber(sleepy.resource("/u"), window_ms=(0, 5_000, 500))
    world.committed(sleepy, run_s=1)
    other = world.device(device_settings(1, lease_s=0))
    before = len(world.to_device[0])
    other.subscriber(other.resource("/w"))
    world.committed(other)
    world.run(2)
    assert not sleepy.is_matched(rid)
    assert world.to_device[0][before:] == []
    world.run(3)
    assert sleepy.is_matched(rid)
    told = [one for one in world.to_device[0][before:] if isinstance(one, Declare)]
    assert [one.committed for one in told] == [True]

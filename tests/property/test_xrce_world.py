"""Devices, sleepy ones too, a gateway that restarts, and a bad network, by seeds."""

from __future__ import annotations

import os

import pytest
from tests.xrce_network import Faults
from tests.xrce_world import World, device_settings

from elea.xrce.client import Client
from elea.xrce.declaration_records import Property
from elea.xrce.gateway.effects import Joined, Left, Subscribe, Unsubscribe, Unwatch, Watch
from elea.xrce.properties import DEPTH, nat
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.session.session import Ended
from elea.xrce.status import Status

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 12
FAULTS = Faults(loss=0.15, repeat=0.1, delay_ms=(2, 20), late=0.1, late_ms=60)
SAMPLES = 25


def opened(world: World, client: Client) -> None:
    """Ask until there is a session: an Open may be lost eleven times."""
    for _ in range(5):
        world.run(12)
        if client.is_open:
            return
        client.open(world.now_ns)
    assert client.is_open, f"seed {world.seed}"


def declared(world: World, client: Client) -> None:
    settled = world.committed(client, run_s=8)
    assert settled.status is Status.SUCCESS, f"seed {world.seed}"


@pytest.mark.line("X-107", "X-111")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_reader_gets_every_sample_once_in_order(seed: int) -> None:
    world = World(seed=seed, faults=FAULTS, lease_s=120)
    bits = world.rng.choice((7, 14))
    settings = [device_settings(number, lease_s=120, bits=bits) for number in range(4)]
    writer, pushed, pulled, sleepy = (world.device(one, run_s=0) for one in settings)
    for client in world.clients:
        opened(world, client)
    deep = [Property(id=DEPTH, value=nat(SAMPLES))]
    pushed.subscriber(pushed.resource("/fleet/*"))
    selected = pulled.selection("/fleet/**")
    pulled.subscriber(selected, pull=True)
    sleepy.subscriber(sleepy.resource("/fleet/t"), window_ms=(0, 5_000, 700), properties=deep)
    for client in (pushed, pulled, sleepy):
        declared(world, client)
    rid = writer.resource("/fleet/t")
    writer.publisher(rid)
    declared(world, writer)
    world.run(2)
    assert writer.is_matched(rid), f"seed {seed}"
    expected = [b"%d" % number for number in range(SAMPLES)]
    left = list(expected)
    while left:
        if writer.write(rid, left[0], world.now_ns):
            del left[0]
        world.run(world.rng.choice((0, 0.01, 0.3)))
        if world.rng.random() < 0.2:
            pulled.pull(selected, world.now_ns, max_samples=3)
    world.run(10)
    pulled.pull(selected, world.now_ns)
    world.run(20)
    for number in (1, 2, 3):
        assert world.payloads(number) == expected, f"seed {seed}, device {number}"
    assert [one.payload for one in world.puts()] == expected, f"seed {seed}"


@pytest.mark.line("X-037")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_restarts_leave_nothing_behind_and_durable_data_survives(seed: int) -> None:
    world = World(seed=seed, faults=FAULTS, lease_s=20, persistent=MemoryStore(evicts=False))
    writer = world.device(device_settings(0, lease_s=20), run_s=0)
    opened(world, writer)
    last = b""
    for life in range(3):
        last = b"%d" % life
        writer.write_to("/state#persistent", last, world.now_ns)
        world.run(6)
        if life == 1:  # the gateway: the device sees its lease end, and comes back
            world.restart()
            world.run(60)
            assert any(isinstance(one, Ended) for one in world.events[0]), f"seed {seed}"
        else:  # the device, without a word
            writer = world.clients[0] = Client(device_settings(0, lease_s=20))
        if not writer.is_open:
            writer.open(world.now_ns)
        opened(world, writer)
    reader = world.device(device_settings(1, lease_s=60), run_s=0)
    opened(world, reader)
    reader.subscriber(reader.resource("/*#persistent"))
    declared(world, reader)
    assert world.payloads(1) == [last], f"seed {seed}"
    for client in world.clients:
        client.close(world.now_ns)
    world.run(60)
    gateway = world.gateway
    assert gateway.devices == {}, f"seed {seed}"
    kinds = [type(one) for one in world.effects]
    assert kinds.count(Subscribe) == kinds.count(Unsubscribe)
    assert kinds.count(Watch) == kinds.count(Unwatch)
    # What the gateway had when it was restarted was never told to end.
    assert kinds.count(Joined) - kinds.count(Left) in (0, 1)
    assert len(gateway.acceptor.pids()) == 0

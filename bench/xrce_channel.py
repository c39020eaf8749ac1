"""Reliable goodput over a link that loses frames, and what devices take in memory; virtual time.

    python bench/xrce_channel.py             all of it, about a minute, JSON lines
    python bench/xrce_channel.py --quick     fewer seeds and devices, for a look

The link takes 5 ms one way and has no bound on its rate, so that only the window bounds goodput:
what a loss holds up shows as it is. `ratio` is samples per second of virtual time with 10 % of all
frames lost, both ways, to those without loss; the bar is 0.6. `channel` is one message per frame
between two ends with the limits of a gateway, `up` a device that writes to a gateway, `down` a
gateway that pushes to a device, in frames of 127 octets. `frames` is what crossed the link per
sample, both ways. `xrce fleet` is a thousand devices that all write to one gateway at once, by
name, from when their sessions are open. Memory is what `tracemalloc` counts.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import json
import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script: find `tests`

from tests.xrce_footprint import client_octets, device_octets
from tests.xrce_network import SECOND, Faults, Network, sample
from tests.xrce_world import World, device_settings

from elea.limits import DEFAULT_LIMITS
from elea.xrce.client import DEVICE_LIMITS, Client
from elea.xrce.gateway.effects import Put
from elea.xrce.session.initiator import Opened
from elea.xrce.session.settings import SessionSettings

DELAY_NS: Final = 5_000_000
LOSS: Final = 0.1
BAR: Final = 0.6
SAMPLES_COUNT: Final = 4_000
FLEET_SAMPLES_COUNT: Final = 200  # of each device
PAYLOAD: Final = bytes(8)
FRAME_LEN: Final = 127  # of a device on a wireless link
STATE_LEN_MAX: Final = 16 * 1024


def over_channel(seed: int, loss: float) -> tuple[float, float]:
    network = Network(seed, Faults(loss=loss))
    end, got, sent = network.ends[0], network.delivered[1], 0
    for one in network.ends:
        one.mask_bits = DEFAULT_LIMITS.xrce_store_count  # as between peers of our own kind
        one.round_trip.sample(2 * DELAY_NS)  # as the Ping of a session tells it

    def done() -> bool:
        nonlocal sent
        while sent < SAMPLES_COUNT and end.send(sample(PAYLOAD), network.now_ns):
            sent += 1
        return len(got) >= SAMPLES_COUNT

    network.run(done)
    frames = len(network.frames[0]) + len(network.frames[1])
    return SAMPLES_COUNT * SECOND / network.now_ns, frames / SAMPLES_COUNT


def prepared(seed: int, loss: float) -> tuple[World, Client, int]:
    """A device with a publisher and a subscriber; loss begins when both are there."""
    world = World(seed=seed, lease_s=60, interest_always=True)
    settings = device_settings(0, lease_s=60, frame_len=FRAME_LEN)
    client = world.device(dataclasses.replace(settings, limits=DEVICE_LIMITS))
    rid = client.resource("/bench/up")
    client.publisher(rid)
    client.subscriber(client.resource("/bench/down"))
    world.committed(client)
    world.run(1)
    world.faults.loss = loss
    world.effects.clear()
    world.events[0].clear()
    world.frames_count = 0
    return world, client, rid


def upward(seed: int, loss: float) -> tuple[float, float]:
    world, client, rid = prepared(seed, loss)
    started_ns, sent = world.now_ns, 0
    while len(world.effects) < SAMPLES_COUNT:
        while sent < SAMPLES_COUNT and client.write(rid, PAYLOAD, world.now_ns):
            sent += 1
        world.flush()
        world.step()
    per_s = SAMPLES_COUNT * SECOND / (world.now_ns - started_ns)
    return per_s, world.frames_count / SAMPLES_COUNT


def downward(seed: int, loss: float) -> tuple[float, float]:
    world, _client, _rid = prepared(seed, loss)
    [device] = world.gateway.devices.values()
    started_ns, sent = world.now_ns, 0
    while len(world.events[0]) < SAMPLES_COUNT:
        while sent < SAMPLES_COUNT and device.outlet.is_clear:  # as a router that holds back does
            world.put("bench/down", PAYLOAD)
            sent += 1
        world.flush()
        world.step()
    per_s = SAMPLES_COUNT * SECOND / (world.now_ns - started_ns)
    return per_s, world.frames_count / SAMPLES_COUNT


class Fleet:
    """Many devices that write to one gateway, each as fast as its window lets it; virtual time."""

    def __init__(self, count: int, loss: float) -> None:
        world = World(lease_s=0, interest_always=True)
        self.gateway = world.gateway
        self.loss, self.rng, self.now_ns = loss, random.Random(count), 0
        self.clients = [Client(self._settings(number)) for number in range(count)]
        self.sent, self.left_count = [0] * count, count * FLEET_SAMPLES_COUNT
        self.opened_ns, self.done_ns = [0] * count, [0] * count
        self._events: list[tuple[int, int, int, bytes | None, bool]] = []
        self._timers: dict[int, int] = {}  # by device, -1 is the gateway
        self._order = 0
        for number, client in enumerate(self.clients):
            client.open(0)
            self._collect(number)

    @staticmethod
    def _settings(number: int) -> SessionSettings:
        settings = device_settings(0, lease_s=0, frame_len=FRAME_LEN)
        pid = number.to_bytes(4, "big")
        return dataclasses.replace(settings, pid=pid, limits=DEVICE_LIMITS)

    def run(self) -> float:
        """Samples per second of one device, on average."""
        while self.left_count:
            self.now_ns, _, number, frame, up = heapq.heappop(self._events)
            if frame is None and self._timers.get(number) != self.now_ns:
                continue  # another one is to come, or was earlier
            if frame is None:
                del self._timers[number]
            if number < 0:
                self.gateway.handle_timer(self.now_ns)
            elif frame is None:
                self.clients[number].handle_timer(self.now_ns)
            elif up:
                self.gateway.receive(frame, number, self.now_ns)
            else:
                self.clients[number].receive(frame, self.now_ns)
            if number >= 0:
                self._collect(number)
            self._collect_gateway()
        spans = zip(self.opened_ns, self.done_ns, strict=True)
        rates = [FLEET_SAMPLES_COUNT * SECOND / (done - opened) for opened, done in spans]
        return sum(rates) / len(rates)

    def _collect(self, number: int) -> None:
        client = self.clients[number]
        while self.sent[number] < FLEET_SAMPLES_COUNT and client.is_open:
            if not client.write_to(f"/f/{number}", PAYLOAD, self.now_ns):
                break
            self.sent[number] += 1
        for frame in client.data_to_send(self.now_ns):
            self._carry(number, frame, up=True)
        while (event := client.next_event()) is not None:
            if isinstance(event, Opened):
                self.opened_ns[number] = self.now_ns
        self._wake(number, client.next_timer_ns())

    def _collect_gateway(self) -> None:
        for number, frame in self.gateway.data_to_send(self.now_ns):
            self._carry(number, frame, up=False)
        while (effect := self.gateway.next_effect()) is not None:
            if isinstance(effect, Put):
                number = int.from_bytes(effect.pid, "big")
                self.left_count -= 1
                self.done_ns[number] = self.now_ns
        self._wake(-1, self.gateway.next_timer_ns())

    def _carry(self, number: int, frame: bytes, *, up: bool) -> None:
        if self.rng.random() >= self.loss:
            self._push(self.now_ns + DELAY_NS, number, frame, up=up)

    def _wake(self, number: int, at_ns: int | None) -> None:
        if at_ns is not None and self._timers.get(number) != at_ns:
            self._timers[number] = max(at_ns, self.now_ns)
            self._push(self._timers[number], number, None, up=False)

    def _push(self, at_ns: int, number: int, frame: bytes | None, *, up: bool) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ns, self._order, number, frame, up))


def fleet(devices: int) -> None:
    started = time.process_time()
    free_per_s, lossy_per_s = Fleet(devices, 0.0).run(), Fleet(devices, LOSS).run()
    result = {
        "bench": "xrce fleet",
        "devices": devices,
        "loss_free_per_s": round(free_per_s),
        "ratio": round(lossy_per_s / free_per_s, 3),
        "cpu_s": round(time.process_time() - started, 1),
        "bar": BAR,
        "holds": lossy_per_s / free_per_s >= BAR,
    }
    print(json.dumps(result), flush=True)


def goodput(seeds: int) -> None:
    for name, run in (("channel", over_channel), ("up", upward), ("down", downward)):
        free_per_s, free_frames = run(0, 0.0)
        lossy = [run(seed, LOSS) for seed in range(seeds)]
        ratios = [per_s / free_per_s for per_s, _ in lossy]
        result = {
            "bench": "xrce goodput",
            "way": name,
            "loss_free_per_s": round(free_per_s),
            "ratio": round(sum(ratios) / seeds, 3),
            "ratio_least": round(min(ratios), 3),
            "frames": round(sum(frames for _, frames in lossy) / seeds, 3),
            "frames_loss_free": round(free_frames, 3),
            "seeds": seeds,
            "bar": BAR,
            "holds": sum(ratios) / seeds >= BAR,
        }
        print(json.dumps(result), flush=True)


def memory(devices: int) -> None:
    octets = device_octets(devices)
    result = {
        "bench": "xrce memory",
        "client": client_octets(),
        "devices": devices,
        "idle_device_at_gateway": octets,
        "bar": STATE_LEN_MAX,
        "holds": octets <= STATE_LEN_MAX,
    }
    print(json.dumps(result), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and devices")
    args = parser.parse_args()
    goodput(seeds=3 if args.quick else 20)
    fleet(devices=20 if args.quick else 1_000)
    memory(devices=100 if args.quick else 1_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())

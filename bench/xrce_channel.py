"""Reliable goodput over a link that loses frames, and what devices take in memory; virtual time.

    python bench/xrce_channel.py             all of it, about a minute, JSON lines
    python bench/xrce_channel.py --quick     fewer seeds and devices, for a look

The link takes 5 ms one way and has no bound on its rate, so that only the window bounds goodput:
what a loss holds up shows as it is. `ratio` is samples per second of virtual time with 10 % of all
frames lost, both ways, to those without loss; the bar is 0.6. `channel` is one message per frame
between two ends with the limits of a gateway, `up` a device that writes to a gateway, `down` a
gateway that pushes to a device, in frames of 127 octets. `frames` is what crossed the link per
sample, both ways. Memory is what `tracemalloc` counts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script: find `tests`

from tests.xrce_footprint import client_octets, device_octets
from tests.xrce_network import SECOND, Faults, Network, sample
from tests.xrce_world import World, device_settings

from elea.limits import DEFAULT_LIMITS
from elea.xrce.client import DEVICE_LIMITS, Client

DELAY_NS: Final = 5_000_000
LOSS: Final = 0.1
BAR: Final = 0.6
SAMPLES_COUNT: Final = 4_000
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
    memory(devices=100 if args.quick else 1_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())

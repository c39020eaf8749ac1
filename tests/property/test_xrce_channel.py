"""The reliable channel under loss, repetition and reordering: exactly once, in order, by seeds."""

from __future__ import annotations

import os

import pytest
from tests.xrce_network import MS, Faults, Network, pump

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 40
LOSSY = Faults(loss=0.2, repeat=0.1, delay_ms=(2, 8), late=0.1)


@pytest.mark.line("X-086")
def test_ten_thousand_messages_arrive_once_in_order() -> None:
    network = Network(1, LOSSY)
    pump(network, 10_000)
    assert network.ends[1].gap_count == 0
    assert network.ends[0].unacknowledged_count == 0
    assert network.ends[0].resent_count > 1_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_seed_delivers_once_in_order(seed: int) -> None:
    rng = Network(seed).rng
    faults = Faults(
        loss=rng.choice((0, 0.1, 0.3, 0.5)),
        repeat=rng.choice((0, 0.2)),
        delay_ms=rng.choice(((1, 1), (1, 20), (100, 110))),
        late=rng.choice((0, 0.2)),
    )
    pump(Network(seed, faults, bits=rng.choice((11, 14, 28, 63))), 200)


@pytest.mark.line("X-091")
@pytest.mark.parametrize("bits", [4, 7])
@pytest.mark.parametrize("seed", range(10))
def test_numbers_wrap_under_loss(bits: int, seed: int) -> None:
    """The order is kept here: of 16 numbers, one that comes much too late looks like a new one."""
    pump(Network(seed, Faults(loss=0.2, repeat=0.1), bits=bits), 500)


def goodput(seed: int, loss: float) -> float:
    network = Network(seed, Faults(loss=loss))
    for end in network.ends:
        end.mask_bits = end.limits.xrce_store_count  # as between peers of our own kind
        end.round_trip.sample(10 * MS)  # as a Ping tells it
    pump(network, 2_000)
    return 1 / network.now_ns


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_lost_both_ways_costs_less_than_four_tenths_of_the_goodput(seed: int) -> None:
    """The link has no other bound than the window, so nothing hides what a loss holds up."""
    assert goodput(seed, 0.1) >= 0.6 * goodput(seed, 0)


def test_the_same_seed_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        network = Network(7, LOSSY)
        pump(network, 300)
        runs.append((network.frames, network.now_ns))
    assert runs[0] == runs[1]

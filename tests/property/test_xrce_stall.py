"""Reliable streams with few numbers on bad links: they never stop, whatever is lost, by seeds."""

from __future__ import annotations

import dataclasses
import os
import random

import pytest
from tests.xrce_foreign import Link
from tests.xrce_network import Faults, Network, pump

from elea.limits import DEFAULT_LIMITS

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 30
LOSSES = (0.1, 0.3, 0.3, 0.4)
COUNT = 400


def expected(count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("seed", [1, 16, 20, 28, 39])
def test_a_stream_of_7_bits_at_30_percent_loss_does_not_stop(seed: int) -> None:
    """With some of these seeds a session ended: "the peer acknowledges nothing".

    Synchs had backed off to one a second; each, its answer and what that asked for had to arrive,
    and a lease of 5 seconds had room for eleven of them.
    """
    assert Link(seed, bits=7, loss=0.3).down(1_000) == expected(1_000)


@pytest.mark.line("X-086", "X-091")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_small_receiver_gets_everything_once_in_order(seed: int) -> None:
    rng = random.Random(seed)
    bits, loss, repeat = rng.choice((4, 5, 7, 14)), rng.choice(LOSSES), rng.choice((0, 0.2))
    assert Link(seed, bits, loss, repeat).down(COUNT) == expected()


@pytest.mark.line("X-086", "X-091")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_small_sender_is_taken_once_in_order(seed: int) -> None:
    rng = random.Random(seed)
    bits, loss, repeat = rng.choice((4, 5, 7, 14)), rng.choice(LOSSES), rng.choice((0, 0.2))
    assert Link(seed, bits, loss, repeat).up(COUNT) == expected()


@pytest.mark.line("X-091")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_two_ends_of_ours_with_few_numbers(seed: int) -> None:
    """Frames overtake each other where the window leaves numbers for that: all of half the number
    space may be under way, and then a late copy has the number of another message."""
    rng = random.Random(seed)
    bits, overtakes = rng.choice((4, 5, 7)), rng.random() < 0.5
    faults = Faults(
        loss=rng.choice(LOSSES),
        repeat=rng.choice((0, 0.2)),
        delay_ms=(5, 5),
        late=0.2 if overtakes else 0.0,
        late_ms=3.0,
    )
    few = {"xrce_window_count": 1 << bits - 3, "xrce_flight_count": 1 << bits - 3}
    limits = dataclasses.replace(DEFAULT_LIMITS, **(few if overtakes else {}))
    network = Network(seed, faults, bits=bits, lease_ns=10 * 10**9, limits=limits)
    both = [network.ends[0], network.ends[1]]
    stalled = []

    def watched(number: int, _frame: bytes) -> bool:
        if both[number].is_stalled(network.now_ns):
            stalled.append(network.now_ns)
        return False

    network.drop = watched
    pump(network, COUNT, number=seed % 2)
    assert not stalled, f"seed {seed}"


@pytest.mark.line("X-091")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_datagrams_that_overtake_each_other_are_taken_once_in_order_with_few_numbers(
    seed: int,
) -> None:
    """With half of 128 numbers under way, a repeated message that came 2 ms late was taken for
    the one 128 numbers later, also where nothing was lost: that one was lost without a word."""
    rng = random.Random(seed)
    faults = Faults(loss=rng.choice((0, 0.1, 0.3)), repeat=rng.choice((0, 0.2)), delay_ms=(4, 6))
    network = Network(seed, faults, bits=7)
    pump(network, COUNT)
    assert network.payloads(1) == expected()

"""Fixed seeds: every law holds, and everything rare happened at least once."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.scale import scaled

from elea.sim.campaign.run import SOMETIMES, run

SEEDS_PER_TEST = 50
TESTS = scaled(2, 40)

SEEDS_MAX = 4_000

REACHED: Counter[str] = Counter()


@pytest.mark.parametrize("first", range(0, TESTS * SEEDS_PER_TEST, SEEDS_PER_TEST))
def test_the_laws_hold(first: int) -> None:
    failures = {}
    for seed in range(first, first + SEEDS_PER_TEST):
        result = run(seed)
        REACHED.update(result.reached)
        if result.violations:
            failures[f"elea sim --seed {seed}"] = result.violations
    assert failures == {}


def test_everything_rare_happened() -> None:
    """After the seeds above; when run alone, of those it takes to get there."""
    seed = TESTS * SEEDS_PER_TEST
    while any(not REACHED[name] for name in SOMETIMES) and seed < SEEDS_MAX:
        REACHED.update(run(seed).reached)
        seed += 1
    assert [name for name in SOMETIMES if not REACHED[name]] == []

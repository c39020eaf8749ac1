"""Networks of routers with clients and peers below them, cut, stalled and restarted.

At rest every router knows exactly the routers that it is linked to and what each of them has, as if
all had been told at once; every sample, query and token finds its way.
"""

from __future__ import annotations

import pytest
from tests.scale import scaled

from elea.choices import SIM_ROUTERS
from elea.sim.campaign.plan import Options
from elea.sim.campaign.run import run

SEEDS_PER_TEST = 20


@pytest.mark.parametrize("nodes_count", [4, 6, 9])
@pytest.mark.parametrize("first", range(0, scaled(1, 4) * SEEDS_PER_TEST, SEEDS_PER_TEST))
def test_the_laws_hold(first: int, nodes_count: int) -> None:
    failures = {}
    options = Options(nodes_count=nodes_count, shape=SIM_ROUTERS)
    for seed in range(first, first + SEEDS_PER_TEST):
        result = run(seed, options)
        if result.violations:
            failures[f"elea sim --seed {seed} --nodes {nodes_count}"] = result.violations
    assert failures == {}

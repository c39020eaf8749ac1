"""One seed, one trace: whatever the hash seed of the process is, and however often it is run."""

from __future__ import annotations

import os
import subprocess
import sys

from elea.sim.campaign.plan import Options
from elea.sim.campaign.run import run

SEEDS = (1, 2, 3, 4, 5, 6)
PROGRAM = f"""
from elea.sim.campaign.run import run
print(*(run(seed).digest for seed in {SEEDS}))
"""


def digests(hash_seed: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_trace_does_not_depend_on_hashes() -> None:
    first = digests("1")
    assert digests("2") == first
    assert [run(seed).digest for seed in SEEDS] == first


def test_another_seed_is_another_world() -> None:
    assert len({run(seed, Options(seconds=1)).digest for seed in range(10)}) == 10


def test_options_are_part_of_what_is_replayed() -> None:
    few = run(7, Options(nodes_count=2, seconds=1))
    many = run(7, Options(nodes_count=5, seconds=1))
    assert [len(one.plan.nodes) for one in (few, many)] == [2, 5]
    assert few.digest != many.digest
    assert run(7, Options(nodes_count=5, seconds=1)).digest == many.digest

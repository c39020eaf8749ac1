"""Logs on a disk that loses, tears, reorders, is full and lies once; over seeds."""

from __future__ import annotations

import pytest
from chaos.campaign import BrokenLawError, Life

from elea import crash
from elea.errors import EleaError

SEEDS_COUNT = 60


def test_the_laws_hold_through_crashes() -> None:
    for seed in range(SEEDS_COUNT):
        life = Life(seed)
        try:
            life.live(6)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    seen = crash.seen()
    rares = ("log.tail_cut", "log.tail_rewritten", "log.index_rebuilt", "log.packed")
    for rare in (*rares, "log.not_packed"):
        assert seen.get(rare), f"no seed of these had {rare}"


def test_the_laws_are_broken_by_a_disk_that_does_not_synchronise() -> None:
    def is_broken(seed: int) -> bool:
        try:
            Life(seed, lies=True).live(6)
        except (BrokenLawError, EleaError):
            return True
        return False

    assert sum(is_broken(seed) for seed in range(10)) >= 8


@pytest.mark.parametrize("seed", [7])
def test_a_seed_gives_the_same_life_again(seed: int) -> None:
    lives = [Life(seed), Life(seed)]
    for life in lives:
        life.live(4)
    assert lives[0].fixed == lives[1].fixed
    assert lives[0].platter.load() == lives[1].platter.load()

"""Sequence numbers: the rule of wire.md 5.9 at every resolution."""

from __future__ import annotations

import pytest

from elea.transport.negotiation import SN_MASKS
from elea.transport.sequence import Received, following, is_news, preceding
from elea.transport.stats import TransportStats


@pytest.mark.parametrize("mask", SN_MASKS)
def test_neighbours_wrap(mask: int) -> None:
    assert following(mask, mask) == 0
    assert preceding(0, mask) == mask
    assert following(preceding(5, mask), mask) == 5


@pytest.mark.parametrize("mask", SN_MASKS)
@pytest.mark.parametrize("last", [0, 1, 60, 127])
def test_what_is_ahead_by_at_most_half_is_news(mask: int, last: int) -> None:
    half = mask >> 1
    for gap, news in ((0, False), (1, True), (2, True), (half, True), (half + 1, False)):
        assert is_news((last + gap) & mask, last, mask) == news
    assert not is_news((last - 1) & mask, last, mask)


@pytest.mark.parametrize("mask", SN_MASKS)
def test_the_initial_number_itself_is_accepted_first_and_once(mask: int) -> None:
    for initial_sn in (0, 1, mask):
        numbers = Received(mask, initial_sn)
        assert numbers.accept(5, True, initial_sn)
        assert not numbers.accept(5, True, initial_sn)


def test_conduits_are_independent() -> None:
    numbers = Received(0x7F, 10)
    for priority in range(8):
        for reliable in (False, True):
            assert numbers.accept(priority, reliable, 10)
            assert not numbers.accept(priority, reliable, 10)


def test_a_gap_is_skipped_and_what_comes_late_is_refused() -> None:
    numbers = Received(0x7F, 0)
    assert numbers.accept(5, True, 3)
    assert not numbers.accept(5, True, 2)
    assert numbers.accept(5, True, 4)


def test_a_join_sets_one_conduit() -> None:
    numbers = Received(0x7F, 0)
    numbers.start(5, False, 100)
    assert not numbers.accept(5, False, 99)
    assert numbers.accept(5, False, 100)
    assert numbers.accept(5, True, 0)


def test_numbers_that_never_came_are_counted() -> None:
    stats = TransportStats()
    numbers = Received(0x7F, 0, stats)
    for sn in (0, 1, 4, 3, 0x7F & (4 + 60)):
        numbers.accept(5, True, sn)
    assert stats.missed_numbers == 2 + 59
    assert stats.as_dict()["missed_numbers"] == 61

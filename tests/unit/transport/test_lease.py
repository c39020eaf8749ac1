"""Lease: two timers per link, on virtual time."""

from __future__ import annotations

import pytest

from elea.limits import DEFAULT_LIMITS
from elea.transport.lease import Lease

SECOND = 1_000_000_000


def lease(own_ms: int = 10_000, peer_ms: int = 10_000, *, steady: bool = False) -> Lease:
    return Lease(own_ms=own_ms, peer_ms=peer_ms, now_ns=0, limits=DEFAULT_LIMITS, steady=steady)


def test_a_quarter_of_the_own_lease_without_a_word_is_enough() -> None:
    one = lease(own_ms=10_000)
    assert one.next_timer_ns == 2_500_000_000
    assert not one.keep_alive_due(2_499_999_999)
    assert one.keep_alive_due(2_500_000_000)
    assert not one.keep_alive_due(2_500_000_001)  # once per interval
    assert one.next_timer_ns == 5_000_000_000


def test_any_batch_restarts_the_keep_alive() -> None:
    one = lease()
    one.said(2 * SECOND)
    assert not one.keep_alive_due(3 * SECOND)
    assert one.next_timer_ns == 4_500_000_000


def test_low_latency_keeps_its_pace_whatever_is_sent() -> None:
    one = lease(steady=True)
    one.said(2 * SECOND)
    assert one.keep_alive_due(2_500_000_000)


def test_the_peers_lease_counts_and_any_batch_restarts_it() -> None:
    one = lease(own_ms=100_000, peer_ms=3_000)
    assert not one.expired(3 * SECOND - 1)
    assert one.expired(3 * SECOND)
    one.heard(2 * SECOND)
    assert not one.expired(4 * SECOND)
    assert one.expired(5 * SECOND)


@pytest.mark.parametrize(
    ("peer_ms", "lease_ns"),
    [(0, SECOND), (1, SECOND), (1_500, 1_500_000_000), (60_001, 60 * SECOND),
     (2**64 * 1_000, 60 * SECOND)],
)  # fmt: skip
def test_an_absurd_lease_is_clamped(peer_ms: int, lease_ns: int) -> None:
    assert lease(peer_ms=peer_ms).expires_ns == lease_ns


def test_a_tiny_own_lease_does_not_make_the_timer_spin() -> None:
    assert lease(own_ms=1).interval_ns == 1_000_000


def test_a_link_that_is_not_read_does_not_expire() -> None:
    lease = Lease(own_ms=8_000, peer_ms=2_000, now_ns=0, limits=DEFAULT_LIMITS)
    lease.hold(True, 1_000_000_000)
    assert not lease.expired(60_000_000_000)
    assert lease.next_timer_ns == 2_000_000_000  # our own word is due all the same
    lease.hold(False, 60_000_000_000)
    assert not lease.expired(61_999_999_999)
    assert lease.expired(62_000_000_000)

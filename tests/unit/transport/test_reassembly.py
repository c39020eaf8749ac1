"""Reassembly: every rule of wire.md 5.10, and the bounds of threat T05."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from elea.limits import DEFAULT_LIMITS, Limits
from elea.transport import reassembly
from elea.transport.reassembly import FragmentPool, Reassembly
from elea.transport.stats import TransportStats
from elea.wire.transport.fragment import Fragment

MASK = 0x7F


class Bench:
    """A Reassembly and what it counted."""

    def __init__(
        self,
        *,
        patch: int = 1,
        limits: Limits = DEFAULT_LIMITS,
        pool: FragmentPool | None = None,
    ) -> None:
        self.stats = TransportStats()
        self.under_test = Reassembly(
            mask=MASK, patch=patch, limits=limits, stats=self.stats, pool=pool
        )

    def add(
        self,
        sn: int,
        payload: bytes = b"p",
        *,
        more: bool = True,
        first: bool = False,
        drop: bool = False,
        priority: int = 5,
        reliable: bool = True,
        now_ns: int = 0,
    ) -> bytes | None:
        fragment = Fragment(sn, payload, reliable, more, priority, first, drop)
        pieces = self.under_test.add(fragment, now_ns)
        return None if pieces is None else b"".join(pieces)

    def lost(self) -> dict[str, int]:
        return self.stats.lost_fragments


@pytest.mark.parametrize("patch", [0, 1])
def test_pieces_become_a_message(patch: int) -> None:
    bench = Bench(patch=patch)
    assert bench.add(126, b"a", first=True) is None
    assert bench.add(127, b"b") is None
    assert bench.under_test.pending_len == 2
    assert bench.add(0, b"c", more=False) == b"abc"
    assert bench.under_test.pending_len == 0
    assert bench.lost() == {}


def test_a_message_of_one_fragment() -> None:
    assert Bench().add(3, b"whole", first=True, more=False) == b"whole"


def test_conduits_do_not_mix() -> None:
    bench = Bench()
    for priority, reliable in ((1, True), (1, False), (7, True)):
        bench.add(1, bytes([priority, reliable]), first=True, priority=priority, reliable=reliable)
    for priority, reliable in ((7, True), (1, True), (1, False)):
        whole = bench.add(2, b"!", more=False, priority=priority, reliable=reliable)
        assert whole == bytes([priority, reliable]) + b"!"


def test_a_missing_piece_costs_the_message_only() -> None:
    bench = Bench()
    bench.add(1, first=True)
    assert bench.add(3) is None
    assert bench.add(4, more=False) is None
    assert bench.lost() == {reassembly.BROKEN: 1, reassembly.HEADLESS: 1}
    bench.add(5, b"x", first=True)
    assert bench.add(6, b"y", more=False) == b"xy"


def test_first_discards_what_was_collected() -> None:
    bench = Bench()
    bench.add(1, b"old", first=True)
    bench.add(2, b"new", first=True)
    assert bench.add(3, more=False) == b"newp"
    assert bench.lost() == {reassembly.BROKEN: 1}
    assert bench.under_test.pending_len == 0


def test_without_first_nothing_begins_under_patch_1() -> None:
    bench = Bench()
    assert bench.add(1, more=False) is None
    assert bench.lost() == {reassembly.HEADLESS: 1}


def test_without_first_anything_begins_under_patch_0() -> None:
    bench = Bench(patch=0)
    assert bench.add(1, b"a") is None
    assert bench.add(2, b"b", more=False) == b"ab"


def test_markers_mean_nothing_under_patch_0() -> None:
    bench = Bench(patch=0)
    bench.add(1, b"a")
    bench.add(2, b"b", first=True, drop=True)
    assert bench.add(3, b"c", more=False) == b"abc"


def test_drop_forgets_the_message_and_its_own_payload() -> None:
    bench = Bench()
    bench.add(1, first=True)
    assert bench.add(2, drop=True, more=False) is None
    assert bench.lost() == {reassembly.ABANDONED: 1}
    assert bench.under_test.pending_len == 0
    assert bench.add(3, drop=True) is None  # nothing to forget
    assert bench.under_test.next_timer_ns() is None


def test_a_message_is_bounded() -> None:
    bench = Bench(limits=replace(DEFAULT_LIMITS, message_len=10))
    bench.add(1, b"12345", first=True)
    assert bench.add(2, b"67890", more=False) == b"1234567890"
    bench.add(3, b"12345", first=True)
    assert bench.add(4, b"678901", more=False) is None
    assert bench.lost() == {reassembly.TOO_LONG: 1}
    assert bench.under_test.pending_len == 0


def test_all_unfinished_messages_together_are_bounded_and_the_oldest_goes() -> None:
    bench = Bench(limits=replace(DEFAULT_LIMITS, fragments_len=10))
    for priority in range(8):
        bench.add(1, b"1234", first=True, priority=priority)
        assert bench.under_test.pending_len <= 10
    assert bench.lost() == {reassembly.CROWDED: 6}
    assert bench.add(2, b"5", more=False, priority=7) == b"12345"
    assert bench.add(2, b"5", more=False, priority=6) == b"12345"
    assert bench.add(2, b"5", more=False, priority=0) is None


def test_the_one_that_grows_past_all_bounds_goes_itself() -> None:
    bench = Bench(limits=replace(DEFAULT_LIMITS, fragments_len=10))
    bench.add(1, b"12345678901", first=True)
    assert bench.under_test.pending_len == 0
    assert bench.lost() == {reassembly.CROWDED: 1}


def test_long_and_short_pieces_keep_their_order() -> None:
    bench = Bench()
    pieces = [bytes([n]) * length for n, length in enumerate((1, 5_000, 2, 3, 4_096, 4_095, 6))]
    bench.add(0, b"", first=True)
    for n, piece in enumerate(pieces):
        whole = bench.add(n + 1, piece, more=n < 6)
    assert whole == b"".join(pieces)


def test_a_message_of_single_octets_costs_little_more_than_its_length() -> None:
    bench = Bench()
    tracemalloc.start()
    try:
        for n in range(20_000):
            bench.add(n & MASK, b"xy", first=n == 0)
        # Threads that other tests have left allocate meanwhile: count what this code holds.
        held = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, file) for file in (reassembly.__file__, __file__)]
        )
    finally:
        tracemalloc.stop()
    cost = sum(trace.size for trace in held.traces)
    assert bench.under_test.pending_len == 40_000
    assert 40_000 <= cost < 2 * 40_000 + 2_000


def test_an_idle_message_dies_and_a_touched_one_does_not() -> None:
    idle_ns = DEFAULT_LIMITS.fragment_idle_ns
    bench = Bench()
    assert bench.under_test.next_timer_ns() is None
    bench.add(1, first=True, priority=1, now_ns=0)
    bench.add(1, first=True, priority=2, now_ns=10)
    bench.add(2, priority=1, now_ns=20)
    assert bench.under_test.next_timer_ns() == idle_ns + 10
    bench.under_test.handle_timer(idle_ns + 9)
    assert bench.lost() == {}
    bench.under_test.handle_timer(idle_ns + 10)
    assert bench.lost() == {reassembly.IDLE: 1}
    assert bench.under_test.next_timer_ns() == idle_ns + 20
    assert bench.add(3, b"e", more=False, priority=1, now_ns=30) == b"ppe"


def test_all_conversations_of_a_node_together_are_bounded_and_the_oldest_goes() -> None:
    pool = FragmentPool(10)
    benches = [Bench(pool=pool) for _ in range(3)]
    for time_ns, bench in enumerate(benches):
        bench.add(1, b"1234", first=True, now_ns=time_ns)
    assert benches[0].lost() == {reassembly.CROWDED_NODE: 1}
    assert [bench.under_test.pending_len for bench in benches] == [0, 4, 4]
    assert (len(pool), pool.pending_len) == (2, 8)
    assert benches[1].add(2, b"5678", more=False) == b"12345678"
    assert (len(pool), pool.pending_len) == (1, 4)
    benches[2].under_test.forget_all()
    assert (len(pool), pool.pending_len) == (0, 0)
    assert benches[2].lost() == {}

"""Repetitions and gaps, against a model that remembers every number."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.store.historian.rig import ALONE

import elea
from elea.limits import DEFAULT_LIMITS
from elea.session.ack import acks_of
from elea.store.log.schema import RowKind
from elea.store.recorder.rows import Row, batch_of, drop_row, gap_row
from elea.store.recorder.spans import Spans, unwrapped
from elea.store.recorder.windows import Gap, Identity, Taken, Windows
from elea.timestamp import NTP64, Timestamp
from elea.wire.data.put import Put

WRAP = 1 << 32


def row(
    sn: int | None, zid: str = "ab", eid: int = 2, key: str = "k", at: int | None = None
) -> Row:
    """A sample; a repeated one has the time it had, and those that follow are newer."""
    if sn is None:
        return Row(key, RowKind.PUT, b"x", 0)
    identity = Identity(zid, eid, sn % WRAP)
    stamp = Timestamp(NTP64.from_value(1 + sn if at is None else at), b"\x01")
    return Row(key, RowKind.PUT, b"x", 0, timestamp=stamp, identity=identity)


def batch(*sns: int | None) -> pa.RecordBatch:
    return batch_of([row(sn) for sn in sns])


def take(windows: Windows, rows: pa.RecordBatch, now_ns: int = 0) -> tuple[pa.RecordBatch, Taken]:
    """As a book does it whose log has every suspect."""
    suspects = windows.suspects(rows)
    left = [place for place in range(rows.num_rows) if place not in suspects]
    rows = rows.take(pa.array(left, pa.int64()))
    return rows, windows.take(rows, now_ns)


def announced(*ids: tuple[str, int, str]) -> Windows:
    """Windows of publishers that say that they number one key."""
    windows = Windows()
    for id in ids or [("ab", 2, "k")]:
        windows.take(batch_of([row(0, *id)]))
        windows.announce(id, 0)
        windows.forget({id: [(0, 1)]})
        windows._windows[id].settled = None
    return windows


def has(windows: Windows, identity: Identity, key: str = "k") -> bool:
    return windows.may_have(identity, key, None)


def sns(rows: pa.RecordBatch) -> list[int | None]:
    found: list[int | None] = rows.column("sn").to_pylist()
    return found


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_a_set_of_numbers(seed: int) -> None:
    rng = random.Random(seed)
    spans, model = Spans(1_000), set[int]()
    for _ in range(200):
        start = rng.randrange(100)
        end = start + rng.randint(1, 8)
        assert spans.meets(start, end) == bool(model & set(range(start, end)))
        if rng.random() < 0.7:
            spans.add(start, end)
            model |= set(range(start, end))
        else:
            spans.remove(start, end)
            model -= set(range(start, end))
        assert {one for low, high in spans for one in range(low, high)} == model
        assert all(low < high for low, high in spans)
        holes = spans.holes(0, 110)
        assert {one for low, high in holes for one in range(low, high)} == set(range(110)) - model
    assert spans.end == max(model) + 1


def test_the_lowest_spans_go_first() -> None:
    spans = Spans(2)
    for start in (10, 20, 30):
        spans.add(start, start + 1)
    assert list(spans) == [(20, 21), (30, 31)]


def test_numbers_go_on_where_32_bits_start_anew() -> None:
    assert unwrapped(3, WRAP - 5) == WRAP + 3
    assert unwrapped(WRAP - 1, WRAP + 3) == WRAP - 1
    windows = Windows()
    kept, _ = take(windows, batch(WRAP - 2, WRAP - 1, WRAP, WRAP + 1))
    assert len(kept) == 4
    kept, _ = take(windows, batch(WRAP - 1, WRAP, WRAP + 2))
    assert sns(kept) == [2]
    assert windows.gaps(0) == []


def test_numbers_that_a_sink_makes_of_rows_were_taken_for_restarts() -> None:
    """They are in no order, and a newer row with a lower number says nothing: only an equal one."""
    rng = random.Random(1)
    windows = Windows()
    eid = 0x8000_0000 + 5
    numbers = rng.sample(range(1 << 31), 500)
    for at, sn in enumerate(numbers, 1):
        assert windows.suspects(batch_of([row(sn, eid=eid, at=at)])) == []
        windows.take(batch_of([row(sn, eid=eid, at=at)]))
    assert windows.restarts_count == 0
    early = [row(sn, eid=eid, at=1) for sn in rng.sample(range(1 << 31), 50)]
    assert windows.suspects(batch_of(early)) == []
    again = [row(sn, eid=eid, at=at) for at, sn in enumerate(numbers, 1)]
    assert windows.suspects(batch_of(again)) == list(range(500))
    windows.take(batch_of([row(numbers[7], eid=eid, at=1_000)]))
    assert windows.restarts_count == 1


@pytest.mark.parametrize("seed", range(30))
def test_each_number_is_taken_once(seed: int) -> None:
    rng = random.Random(seed)
    windows, seen = Windows(), set[Identity]()
    for _ in range(30):
        rows = []
        for _ in range(rng.randint(1, 40)):
            zid, eid = rng.choice(["ab", "cd"]), rng.choice([1, 2])
            run = range(start := rng.randrange(300), start + rng.choice([1, 1, 10]))
            rows += [row(sn, zid, eid) for sn in run]
        if rng.random() < 0.2:
            rows.append(row(None))
        expected = []
        for one in rows:
            if one.identity is None or one.identity not in seen:
                expected.append(one.identity)
            if one.identity is not None:
                seen.add(one.identity)
        kept, taken = take(windows, batch_of(rows))
        found = zip(*(kept.column(name).to_pylist() for name in ("zid", "eid", "sn")), strict=True)
        assert [None if sn is None else (zid, eid, sn) for zid, eid, sn in found] == expected
        if rng.random() < 0.2:  # refused: as if it had never come
            windows.forget(taken)
            for (zid, eid, _), spans in taken.items():
                gone = {Identity(zid, eid, sn) for low, high in spans for sn in range(low, high)}
                seen -= gone
    assert all(has(windows, one) for one in seen)


def test_samples_without_number_are_never_repetitions() -> None:
    windows = Windows()
    for _ in range(2):
        kept, taken = take(windows, batch(None, None))
        assert len(kept) == 2
        assert taken == {}


def test_gaps_are_told_until_they_are_filled_or_settled() -> None:
    windows = announced()
    take(windows, batch(5, 6, 9, 12), now_ns=100)
    first, second = Gap(("ab", 2), "k", 7, 9), Gap(("ab", 2), "k", 10, 12)
    assert windows.gaps(before_ns=99) == []
    assert windows.gaps(before_ns=100) == [first, second]
    take(windows, batch(8, 7))
    assert windows.gaps(100) == [second]
    take(windows, batch(10))
    assert windows.settle(second) == [second._replace(start=11)]
    assert windows.gaps(100) == []
    assert sns(take(windows, batch(11, 10))[0]) == [11]  # late is better than never


def test_a_heartbeat_tells_of_the_last_ones() -> None:
    windows = Windows()
    windows.announce(("cd", 3, "k"), 0, 40)  # nothing of it was ever seen: that is history
    assert windows.gaps(0) == []
    take(windows, batch(1, 2))
    windows.announce(("ab", 2, "k"), 0, 2)
    assert windows.gaps(0) == []
    windows.announce(("ab", 2, "k"), 0, 4)
    assert windows.gaps(0) == [Gap(("ab", 2), "k", 3, 5)]


def test_a_gap_that_was_filled_does_not_age_the_next_one() -> None:
    """A heartbeat overtakes what it tells of, again and again."""
    windows = Windows()
    take(windows, batch(1), now_ns=0)
    windows.announce(("ab", 2, "k"), 100, 2)
    take(windows, batch(2), now_ns=101)
    windows.announce(("ab", 2, "k"), 600, 3)
    assert windows.gaps(before_ns=599) == []
    assert windows.gaps(before_ns=600) == [Gap(("ab", 2), "k", 3, 4)]


def test_what_is_remembered_is_bounded() -> None:
    limits = replace(DEFAULT_LIMITS, record_windows_count=2)
    windows = Windows(limits)
    for zid, sn in (("aa", 1), ("bb", 1), ("aa", 2), ("cc", 1)):
        take(windows, batch_of([row(sn, zid)]))
    assert windows.forgotten_count == 1
    assert has(windows, Identity("aa", 2, 1))
    assert ("bb", 2, "k") not in windows._windows


def test_the_end_of_a_log_is_remembered_without_its_gaps() -> None:
    windows = Windows()
    told = [gap_row(Gap(("ab", 2), "k", 3, 5), 0), drop_row("k/**", 4, 0)]
    windows.remember(batch_of([row(1), row(2), *told, row(5)]))
    windows.tell(("ab", 2, "k"), 3, 2)
    windows.recall(5)
    assert windows.gaps(10) == []
    assert not has(windows, Identity("ab", 2, 3))
    kept, _ = take(windows, batch(2, 3, 8))
    assert sns(kept) == [3, 8]
    assert windows.gaps(10) == [Gap(("ab", 2), "k", 6, 8)]


def test_what_is_missing_at_the_end_of_a_log_and_not_told_is_a_gap_again() -> None:
    windows = Windows()
    windows.remember(batch(1, 2, 5, 8, 9, 12))
    windows.tell(("ab", 2, "k"), 6, 2)
    windows.recall(5)
    windows.announce(("ab", 2, "k"), 5)
    missing = [Gap(("ab", 2), "k", 3, 5), Gap(("ab", 2), "k", 10, 12)]
    assert windows.gaps(4) == []
    assert windows.gaps(5) == missing
    assert sns(take(windows, batch(7))[0]) == [7]  # late is better than never
    assert [windows.settle(gap) for gap in missing] == [[gap] for gap in missing]
    assert windows.gaps(5) == []


def test_what_sessions_number_for_acknowledgements_has_no_gaps() -> None:
    with elea.open(ALONE) as session:
        context = session._context
        acks = acks_of(context)
        source = context.call(lambda: acks.identify(Put(b"")))
    windows = Windows()
    windows.remember(batch_of([row(sn, eid=source.eid) for sn in (1, 5)]))
    windows.recall(0)
    take(windows, batch_of([row(9, eid=source.eid)]))
    assert windows.gaps(0) == []


def test_only_the_second_half_of_a_cut_log_is_judged() -> None:
    """A sample that was filled late stands behind those that follow it."""
    windows = Windows()
    windows.remember(batch(500, 601, 602), is_early=True)  # 501 is before what is read
    windows.remember(batch(550, 603, 606), is_cut=True)
    windows.remember(batch_of([row(1, "cd"), row(5, "cd")]), is_cut=True)
    windows.recall(0)
    for zid in ("ab", "cd"):
        windows.announce((zid, 2, "k"), 0)
    assert windows.gaps(0) == [Gap(("ab", 2), "k", 604, 606)]


def settled(windows: Windows) -> list[Gap]:
    """What rows would say."""
    return [missing for gap in windows.gaps(0) for missing in windows.settle(gap)]


def test_who_numbers_several_keys_has_no_gaps_where_some_are_heard() -> None:
    windows = Windows()
    for sn in range(0, 400, 2):  # the others go to a key that is not recorded
        take(windows, batch(sn))
    assert settled(windows) == []
    windows.take(batch_of([row(sn, "cd", key=f"k/{sn % 3}") for sn in range(300) if sn % 3]))
    assert settled(windows) == []
    assert windows.gaps(10**18) == []  # nobody is asked again


def test_a_gap_waits_until_its_publisher_says_that_it_numbers_one_key() -> None:
    windows = Windows()
    take(windows, batch(1, 2, 5))
    assert settled(windows) == []
    windows.announce(("ab", 2, "k"), 0)
    assert settled(windows) == [Gap(("ab", 2), "k", 3, 5)]
    assert settled(windows) == []


def test_a_long_run_on_one_key_is_as_good_as_a_word() -> None:
    windows = Windows()
    take(windows, batch(*range(40), 45))
    assert settled(windows) == [Gap(("ab", 2), "k", 40, 45)]
    windows = Windows()
    take(windows, batch(*range(40)))
    take(windows, batch_of([row(sn, key="other") for sn in range(40, 45)]))
    take(windows, batch(45))
    assert settled(windows) == []  # they are there


def test_a_claimed_source_neither_makes_nor_hides_gaps_of_another_key() -> None:
    windows = announced(("ab", 2, "k"))
    take(windows, batch(1, 2))
    take(windows, batch_of([row(sn, key="mine") for sn in (3, 4, 900)]))
    windows.announce(("ab", 2, "mine"), 0, 5_000)
    take(windows, batch(5))
    assert {gap for gap in settled(windows) if gap.key == "k"} == {Gap(("ab", 2), "k", 3, 5)}


def test_a_number_with_a_newer_time_is_a_restart() -> None:
    windows = announced()
    take(windows, batch(*range(100)))
    restarted = batch_of([row(sn, at=10_000 + sn) for sn in (0, 1, 4)])
    kept, _ = take(windows, restarted)
    assert sns(kept) == [0, 1, 4]
    assert settled(windows) == [Gap(("ab", 2), "k", 2, 4)]
    assert windows.restarts_count == 1
    assert windows.suspects(batch(50)) == [0]  # of the time before: in the log
    assert windows.suspects(restarted) == [0, 1, 2]


def test_one_number_for_all_samples_hides_none() -> None:
    windows = Windows()
    fixed = batch_of([row(7, at=number) for number in range(1, 11)])
    kept, _ = take(windows, fixed)
    assert kept.num_rows == 10
    assert windows.suspects(fixed) == list(range(10))


def test_an_older_time_of_a_known_number_is_looked_at() -> None:
    windows = Windows()
    take(windows, batch(5, 6, 7))
    assert windows.suspects(batch_of([row(6, at=2)])) == [0]
    assert windows.suspects(batch_of([row(6, at=10**6)])) == []
    assert windows.suspects(batch_of([row(6, key="other", at=2)])) == []


def test_what_was_displaced_is_looked_at() -> None:
    """Sources that somebody invents do not make a repeated put a new one."""
    windows = Windows(replace(DEFAULT_LIMITS, record_windows_count=2))
    windows.take(batch(1_000), wall_bits=5_000)
    assert windows.suspects(batch_of([row(1, "cd")])) == []
    for number in range(3):
        windows.take(batch_of([row(2**40, f"f{number}")]), wall_bits=5_000)
    assert windows.forgotten_count == 2
    assert windows.suspects(batch(1_000)) == [0]
    assert windows.suspects(batch(6_000)) == []  # newer than all that were displaced


def test_ranges_that_were_displaced_are_looked_at() -> None:
    windows = Windows(replace(DEFAULT_LIMITS, record_spans_count=4))
    take(windows, batch(1))
    take(windows, batch_of([row(sn, at=3_000) for sn in range(100, 200, 10)]))
    assert windows.suspects(batch(1)) == [0]


def test_live_samples_without_time_are_always_new() -> None:
    windows = Windows()
    bare = batch_of([row(5)._replace(timestamp=None)])
    windows.take(bare)
    assert windows.suspects(bare) == []
    assert windows.suspects(bare, unstamped=True) == [0]

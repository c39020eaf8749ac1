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
from elea.store.log.single import Single
from elea.store.recorder.rows import Row, batch_of, drop_row, gap_row
from elea.store.recorder.spans import Spans, unwrapped
from elea.store.recorder.windows import Gap, Identity, Windows
from elea.wire.data.put_hot import Put

WRAP = 1 << 32


def row(sn: int | None, zid: str = "ab", eid: int = 2, key: str = "k") -> Row:
    identity = None if sn is None else Identity(zid, eid, sn % WRAP)
    return Row(key, RowKind.PUT, b"x", 0, identity=identity)


def batch(*sns: int | None) -> pa.RecordBatch:
    return batch_of([row(sn) for sn in sns])


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
    kept, _ = windows.take(batch(WRAP - 2, WRAP - 1, WRAP, WRAP + 1))
    assert len(kept) == 4
    kept, _ = windows.take(batch(WRAP - 1, WRAP, WRAP + 2))
    assert sns(kept) == [2]
    assert windows.gaps(0) == []


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
        kept, taken = windows.take(batch_of(rows))
        assert not isinstance(kept, Single)
        found = zip(*(kept.column(name).to_pylist() for name in ("zid", "eid", "sn")), strict=True)
        assert [None if sn is None else (zid, eid, sn) for zid, eid, sn in found] == expected
        if rng.random() < 0.2:  # refused: as if it had never come
            windows.forget(taken)
            for (zid, eid), spans in taken.items():
                gone = {Identity(zid, eid, sn) for low, high in spans for sn in range(low, high)}
                seen -= gone
    assert all(windows.has(one) for one in seen)


def test_samples_without_number_are_never_repetitions() -> None:
    windows = Windows()
    for _ in range(2):
        kept, taken = windows.take(batch(None, None))
        assert len(kept) == 2
        assert taken == {}


def test_gaps_are_told_until_they_are_filled_or_settled() -> None:
    windows = Windows()
    windows.take(batch(5, 6, 9, 12), now_ns=100)
    first, second = Gap(("ab", 2), "k", 7, 9), Gap(("ab", 2), "k", 10, 12)
    assert windows.gaps(before_ns=99) == []
    assert windows.gaps(before_ns=100) == [first, second]
    windows.take(batch(8, 7))
    assert windows.gaps(100) == [second]
    windows.take(batch(10))
    assert windows.settle(second) == [second._replace(start=11)]
    assert windows.gaps(100) == []
    assert sns(windows.take(batch(11, 10))[0]) == [11]  # late is better than never


def test_a_heartbeat_tells_of_the_last_ones() -> None:
    windows = Windows()
    windows.heard(("cd", 3), 40, 0)  # nothing of it was ever seen: that is history
    assert windows.gaps(0) == []
    windows.take(batch(1, 2))
    windows.heard(("ab", 2), 2, 0)
    assert windows.gaps(0) == []
    windows.heard(("ab", 2), 4, 0)
    assert windows.gaps(0) == [Gap(("ab", 2), "k", 3, 5)]


def test_a_gap_that_was_filled_does_not_age_the_next_one() -> None:
    """A heartbeat overtakes what it tells of, again and again."""
    windows = Windows()
    windows.take(batch(1), now_ns=0)
    windows.heard(("ab", 2), 2, 100)
    windows.take(batch(2), now_ns=101)
    windows.heard(("ab", 2), 3, 600)
    assert windows.gaps(before_ns=599) == []
    assert windows.gaps(before_ns=600) == [Gap(("ab", 2), "k", 3, 4)]


def test_who_is_asked_about_has_no_gaps() -> None:
    windows = Windows()
    assert windows.ask(Identity("ab", 2, 5)) is None
    windows.take(batch(5, 9))
    assert windows.gaps(0) == []
    windows.place(Identity("ab", 2, 9), 77)
    assert windows.ask(Identity("ab", 2, 9)) == 77


def test_what_is_remembered_is_bounded() -> None:
    limits = replace(DEFAULT_LIMITS, record_sources_count=2, record_places_count=2)
    windows = Windows(limits)
    for zid in ("aa", "bb", "aa", "cc"):
        windows.take(batch_of([row(1, zid)]))
    assert windows.forgotten_count == 1
    assert windows.has(Identity("aa", 2, 1))
    assert not windows.has(Identity("bb", 2, 1))
    for sn in range(3):
        windows.place(Identity("aa", 2, sn), sn)
    assert [windows.ask(Identity("aa", 2, sn)) for sn in range(3)] == [None, 1, 2]


def test_the_end_of_a_log_is_remembered_without_its_gaps() -> None:
    windows = Windows()
    told = [gap_row(Gap(("ab", 2), "k", 3, 5), 0), drop_row("k/**", 4, 0)]
    windows.remember(batch_of([row(1), row(2), *told, row(5)]))
    windows.tell(("ab", 2), 3, 2)
    windows.recall(5)
    assert windows.gaps(10) == []
    assert not windows.has(Identity("ab", 2, 3))
    kept, _ = windows.take(batch(2, 3, 8))
    assert sns(kept) == [3, 8]
    assert windows.gaps(10) == [Gap(("ab", 2), "k", 6, 8)]


def test_what_is_missing_at_the_end_of_a_log_and_not_told_is_a_gap_again() -> None:
    windows = Windows()
    windows.remember(batch(1, 2, 5, 8, 9, 12))
    windows.tell(("ab", 2), 6, 2)
    windows.recall(5)
    missing = [Gap(("ab", 2), "k", 3, 5), Gap(("ab", 2), "k", 10, 12)]
    assert windows.gaps(4) == []
    assert windows.gaps(5) == missing
    assert sns(windows.take(batch(7))[0]) == [7]  # late is better than never
    assert [windows.settle(gap) for gap in missing] == [[gap] for gap in missing]
    assert windows.gaps(5) == []


def test_numbers_of_several_keys_are_not_judged_after_a_start() -> None:
    windows = Windows()
    windows.remember(batch_of([row(1), row(4, key="other"), row(1, "cd"), row(4, "cd")]))
    windows.remember(batch_of([row(6, "cd", key="other")]))
    windows.recall(0)
    assert windows.gaps(0) == []
    windows.take(batch(8))
    assert windows.gaps(0) == [Gap(("ab", 2), "k", 5, 8)]


def test_what_sessions_number_for_acknowledgements_has_no_gaps() -> None:
    with elea.open(ALONE) as session:
        context = session._context
        acks = acks_of(context)
        source = context.call(lambda: acks.identify(Put(b"")))
    windows = Windows()
    windows.remember(batch_of([row(sn, eid=source.eid) for sn in (1, 5)]))
    windows.recall(0)
    windows.take(batch_of([row(9, eid=source.eid)]))
    assert windows.gaps(0) == []


def test_only_the_second_half_of_a_cut_log_is_judged() -> None:
    """A sample that was filled late stands behind those that follow it."""
    windows = Windows()
    windows.remember(batch(500, 601, 602), is_early=True)  # 501 is before what is read
    windows.remember(batch(550, 603, 606), is_cut=True)
    windows.remember(batch_of([row(1, "cd"), row(5, "cd")]), is_cut=True)
    windows.recall(0)
    assert windows.gaps(0) == [Gap(("ab", 2), "k", 604, 606)]


def test_numbers_of_a_session_itself_are_not_judged_after_a_start() -> None:
    windows = Windows()
    windows.remember(batch_of([row(sn, eid=1) for sn in (1, 4_711)]))
    windows.recall(0)
    assert windows.gaps(0) == []

"""The order of rows over shards and logs, against sorting all of them."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.samples import EPOCH_S, log_of, row

from elea.store.log.reader import LogReader
from elea.store.replay.merge import Choice, Merge, span_of

# Milliseconds by which rows come late, in blocks, in two logs.
LATENESS = st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=5)


def logs_of(root: Path, lateness: list[list[list[int]]], shards_count: int) -> list[Path]:
    """Row n happened n milliseconds after the beginning, less what it came late."""
    found = []
    for number, blocks in enumerate(lateness):
        at = 0
        batches = []
        for block in blocks:
            rows = []
            for late in block:
                at += 1
                when = 1_000 + at - late
                rows.append(row(f"k/{at % 7}", when, b"%d/%d" % (number, at), sn=at))
            batches.append(rows)
        found.append(log_of(root / str(number), *batches, shards_count=shards_count))
    return found


def played(merge: Merge) -> list[tuple[int, bytes]]:
    found = []
    for run in merge:
        times = merge.times_ns(run)
        found += list(zip(times, run.batch.column("payload").to_pylist(), strict=True))
    return found


@given(lateness=st.lists(LATENESS, min_size=1, max_size=2), shards_count=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_all_rows_in_the_order_of_time(lateness: list[list[list[int]]], shards_count: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        readers = [LogReader(one) for one in logs_of(Path(root), lateness, shards_count)]
        # 40 rows late at the most: a window of 41 is enough, whatever the shards are.
        merge = Merge(readers, Choice(), window_rows_count=41)
        found = played(merge)
        rows = [one for reader in readers for one in _rows(reader)]
    assert [time for time, _ in found] == sorted(time for time, _ in rows)
    assert sorted(found) == sorted(rows)
    assert merge.late_count == 0


@given(
    lateness=LATENESS, since=st.integers(960, 1_070), length=st.integers(0, 60), recv=st.booleans()
)
@settings(max_examples=25, deadline=None)
def test_a_span_of_time_and_of_keys(
    lateness: list[list[int]], since: int, length: int, recv: bool
) -> None:
    since_ns, until_ns = ((EPOCH_S * 1_000 + at) * 10**6 for at in (since, since + length))
    keys = ("k/1", "k/2", "k/5")
    with tempfile.TemporaryDirectory() as root:
        [path] = logs_of(Path(root), [lateness], 2)
        choice = Choice(keys, frozenset({0}), recv, since_ns, until_ns)
        found = played(Merge([LogReader(path)], choice))
        rows = _rows(LogReader(path))
    wanted = [
        (time, payload)
        for time, payload in rows
        if since_ns <= time <= until_ns and int(payload.partition(b"/")[2]) % 7 in (1, 2, 5)
    ]
    assert sorted(found) == sorted(wanted)


def test_a_row_that_is_later_than_the_window_is_counted_and_passed_on(tmp_path: Path) -> None:
    blocks = [[row("k", at) for at in range(start, start + 10)] for start in range(100, 200, 10)]
    log_of(tmp_path, *blocks, [row("k", 7, b"late")])
    merge = Merge([LogReader(tmp_path)], Choice(), window_rows_count=10)
    found = played(merge)
    assert len(found) == 101
    assert merge.late_count == 1
    assert found[-11][1] == b"late"  # before the ten that were held back
    assert played(Merge([LogReader(tmp_path)], Choice()))[0][1] == b"late"


def test_octets_bound_the_window(tmp_path: Path) -> None:
    log_of(tmp_path, *([row("k", at, bytes(1_000))] for at in range(50)))
    merge = Merge([LogReader(tmp_path)], Choice(), window_rows_count=10_000, window_len=4_000)
    assert max(len(run) for run in merge) < 10


def test_timestamps_are_ordered_by_all_their_bits(tmp_path: Path) -> None:
    """Four of them lie in one nanosecond."""
    base = row("k", 0)["hlc"]
    log_of(tmp_path, [row("k", 0, b"%d" % tick, hlc=base + tick) for tick in (5, 3, 4, 1, 2, 0)])
    found = played(Merge([LogReader(tmp_path)], Choice()))
    assert [payload for _, payload in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    at_ns = EPOCH_S * 10**9 + 1
    inside = Choice(since_ns=at_ns, until_ns=at_ns)
    only = [payload for _, payload in played(Merge([LogReader(tmp_path)], inside))]
    assert only == [b"1", b"2", b"3", b"4"]


def test_reception_may_be_the_time(tmp_path: Path) -> None:
    second = timedelta(seconds=1)
    rows: list[dict[str, Any]] = [row("k", 5, b"a"), row("k", 6, b"b")]
    rows[0]["recv_ts"] += 3 * second
    rows[1]["recv_ts"] += second
    log_of(tmp_path, rows)
    found = played(Merge([LogReader(tmp_path)], Choice(by_reception=True)))
    begin = EPOCH_S * 10**9
    assert found == [(begin + 1_006_000_000, b"b"), (begin + 3_005_000_000, b"a")]


def test_the_span_of_logs(tmp_path: Path) -> None:
    log_of(tmp_path / "a", [row("k", 5)], [row("k", 9)])
    log_of(tmp_path / "b", [row("k", 2)])
    log_of(tmp_path / "empty")
    readers = [LogReader(tmp_path / one) for one in ("a", "b", "empty")]
    span = span_of(readers)
    assert span is not None
    begin = EPOCH_S * 10**9
    assert (span.first_ns, span.last_ns) == (begin + 2 * 10**6, begin + 9 * 10**6)
    assert span_of(readers[2:]) is None


@pytest.mark.parametrize("since_ns", [-5, 0, 2**63, 2**70])
def test_moments_outside_of_all_time(tmp_path: Path, since_ns: int) -> None:
    log_of(tmp_path, [row("k", 1)])
    found = played(Merge([LogReader(tmp_path)], Choice(since_ns=since_ns)))
    assert len(found) == (1 if since_ns <= 0 else 0)


def _rows(reader: LogReader) -> list[tuple[int, bytes]]:
    """Times as the merge gives them, in the order of the log."""
    found = []
    for batch in reader.select():
        for one in batch.to_pylist():
            found.append((round(one["ts"].timestamp() * 1_000) * 10**6, one["payload"]))
    return found

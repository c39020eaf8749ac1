"""How much of each span of time a log has, by its indexes: sums that are exact."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.historian.rig import at, sample, written

from elea.store.log.density import _divided, density
from elea.store.log.reader import LogReader
from elea.store.log.record import Record

SPANS = st.lists(
    st.tuples(st.integers(0, 1_000), st.integers(0, 1_000), st.integers(1, 50)), max_size=20
)


@given(SPANS, st.integers(1, 40))
def test_every_row_is_in_one_span(blocks: list[tuple[int, int, int]], bins: int) -> None:
    records = [
        (Record(0, count, 0, 0, 0, 0, min(a, b), max(a, b), 0), count) for a, b, count in blocks
    ]
    found = _divided(records, 0, 1_001, bins)
    assert len(found) == bins
    assert min(found) >= 0
    assert sum(found) == sum(count for _, count in records)


def test_rows_of_a_log_by_time(tmp_path: Path) -> None:
    blocks = [[sample("a", n * 10 + m, {"n": n}) for m in range(5)] for n in range(4)]
    reader = LogReader(written(tmp_path / "log", *blocks))
    whole = density(reader, 4)
    assert (sum(whole.rows), whole.lost_count, whole.is_cut) == (20, 0, False)
    assert all(octets > 0 for octets in whole.octets)
    since, until = at(10).time.value, at(20).time.value
    part = density(reader, 10, since, until)
    assert (part.since, part.until) == (since, until)
    assert sum(part.rows) == 5
    assert part.rows[6:] == (0, 0, 0, 0)  # nothing from the 15th second on


def test_an_empty_log_has_nothing_of_any_time(tmp_path: Path) -> None:
    found = density(LogReader(written(tmp_path / "log")), 3)
    assert (found.rows, found.lost_count) == ((0, 0, 0), 0)

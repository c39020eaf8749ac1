"""A log whose writer's clock is set back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.log.rows import numbers_of, rows, stamp

from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Writer


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_rows_of_before_the_clock_was_set_back_are_not_kept_for_ever(
    tmp_path: Path, is_reopened: bool, is_closed: bool
) -> None:
    now = [(stamp(0) >> 32) + 10 * 365 * 86_400]  # ten years ahead
    disk = RealDisk(tmp_path, writable=True)
    minute = 60 * 10**9
    settings = LogSettings(
        segment_age_ns=10 * minute, retain_age_ns=60 * minute, low_water_percent=0
    )

    def opened() -> Writer:
        return Writer(disk, settings, lambda: now[0] * 10**9)

    writer = opened()
    for number in range(3):
        writer.commit([rows(10 * number, 10)])
        if is_closed:
            writer.roll()
    if is_reopened:
        writer.close()
    now[0] = stamp(0) >> 32  # the clock is right again
    if is_reopened:
        writer = opened()
    for number in range(3, 30):  # rows of two hours and a quarter
        writer.commit([rows(10 * number, 10)])
        now[0] += 300
        writer.trim()
    reader = LogReader(disk)
    bounds = reader.bounds(0)
    assert bounds.end == 300
    # An hour, and at most two segments of ten minutes each beside it.
    kept = [number // 10 for number in numbers_of(list(reader.read(0, bounds.first)))]
    assert 29 - 16 <= kept[0] <= 29 - 11
    writer.close()


def test_rows_of_before_a_clock_was_set_back_for_a_while_are_kept(tmp_path: Path) -> None:
    now = [stamp(0) >> 32]
    disk = RealDisk(tmp_path, writable=True)
    settings = LogSettings(segment_len=1, retain_age_ns=60 * 10**9, low_water_percent=0)
    writer = Writer(disk, settings, lambda: now[0] * 10**9)
    right = now[0]
    for moment in (right, 1_000, right + 1, right + 2):  # after a start without the time
        now[0] = moment
        writer.commit([rows(0, 10)])
        assert writer.trim() == []
    writer.close()

"""Windows are counted again from the rows they are made of, and a wrong one is seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from elea.demo.gold import prove_gold, some_rows

START = datetime(2026, 11, 15, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lake_of(path: Path, windows: list[tuple[str, int, int]]) -> Path:
    """Three samples of each of two robots in each of two seconds, and some windows of them."""
    samples = [
        {"robot": robot, "ts": at(second + part / 4)}
        for robot in ("r01", "r02")
        for second in range(2)
        for part in range(3)
    ]
    write_deltalake(path / "imu", pa.Table.from_pylist(samples))
    made = [
        {"robot": robot, "window_start": at(second), "count": count}
        for robot, second, count in windows
    ]
    write_deltalake(path / "imu_1s", pa.Table.from_pylist(made))
    return path


def wrong(lake: Path) -> int:
    [check] = prove_gold(lake, None)
    return check.seen


def test_windows_are_counted_again(tmp_path: Path) -> None:
    assert wrong(lake_of(tmp_path / "right", [("r01", 0, 3), ("r01", 1, 3)])) == 0
    assert wrong(lake_of(tmp_path / "few", [("r01", 0, 2), ("r01", 1, 3)])) == 1
    assert wrong(lake_of(tmp_path / "none", [("r01", 7, 3)])) == 1
    assert wrong(lake_of(tmp_path / "twice", [("r01", 0, 3), ("r01", 0, 3)])) == 1
    # What its cache filled in came too late for the window.
    assert wrong(lake_of(tmp_path / "filled", [("r02", 0, 2)])) == 0


def test_what_is_not_there_is_not_proved(tmp_path: Path) -> None:
    assert prove_gold(tmp_path, 3) == []
    assert some_rows(tmp_path) == {}
    write_deltalake(tmp_path / "online", pa.table({"robot": ["r01", "r02"]}))
    [check] = prove_gold(tmp_path, 3)
    assert (check.seen, check.holds) == (2, False)


def test_some_rows_are_shown(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "hot", pa.table({"robot": ["r05"], "temp": [81.23456]}))
    assert some_rows(tmp_path) == {"hot": [{"robot": "r05", "temp": "81.23"}]}

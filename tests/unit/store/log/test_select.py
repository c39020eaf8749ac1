"""Selections read small blocks in runs, and tell the same rows as block by block."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.log.rows import numbers_of, rows, stamp

from elea.errors import CorruptLogError
from elea.store.log import reader as module
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.segment import DATA, Damage
from elea.store.log.settings import LogSettings

BLOCKS = 60
ROWS = 4  # of a block: keys k/0 to k/6 in turns, so that a key is in some blocks only
KEYS = 7


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with Log(tmp_path, LogSettings(shards_count=1)) as log:
        for number in range(BLOCKS):
            log.store(rows(number * ROWS, ROWS, KEYS))
    return tmp_path


@pytest.mark.parametrize("key_expr", ["k/3", "k/*", "**"])
def test_small_blocks_are_read_in_runs(directory: Path, key_expr: str) -> None:
    found = list(LogReader(directory).select(key_expr, in_runs=True))
    step = KEYS if key_expr == "k/3" else 1
    assert numbers_of(found) == [*range(3 if step > 1 else 0, BLOCKS * ROWS, step)]
    assert len(found) == 1


def test_rows_of_blocks_with_others_between_keep_their_offsets(directory: Path) -> None:
    [batch] = LogReader(directory).select("k/3", position=True, columns=["key", "sn"], in_runs=True)
    assert batch.schema.names == ["key", "sn", "shard", "seq"]
    assert batch["seq"].to_pylist() == batch["sn"].to_pylist() == [*range(3, BLOCKS * ROWS, KEYS)]


def test_a_span_of_time_cuts_a_run(directory: Path) -> None:
    found = list(LogReader(directory).select("**", since=stamp(10), until=stamp(101), in_runs=True))
    assert numbers_of(found) == [*range(10, 101)]


def test_how_much_is_read_at_once_is_bounded(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RUN_ROWS_COUNT", 10)
    found = list(LogReader(directory).select("**", in_runs=True))
    assert numbers_of(found) == [*range(BLOCKS * ROWS)]
    assert {batch.num_rows for batch in found} == {2 * ROWS}
    monkeypatch.setattr(module, "_RUN_LEN", 1)
    assert {one.num_rows for one in LogReader(directory).select("**", in_runs=True)} == {ROWS}


def test_each_block_is_read_for_itself_if_nothing_else_is_said(directory: Path) -> None:
    left = iter([True, True, False])
    found = list(LogReader(directory).select("**", may_read=lambda: next(left)))
    assert [batch.num_rows for batch in found] == [ROWS, ROWS]


def test_a_damaged_block_of_a_run_costs_its_own_rows_only(directory: Path) -> None:
    [segment, *_] = LogReader(directory).blocks(0, 5 * ROWS, 6 * ROWS)
    file = directory / (segment[0].stem + DATA)
    octets = bytearray(file.read_bytes())
    octets[segment[1].end - 9] ^= 1
    file.write_bytes(octets)
    with pytest.raises(CorruptLogError):
        list(LogReader(directory).select("**", in_runs=True))
    told: list[Damage] = []
    found = numbers_of(list(LogReader(directory, told.append).select("**", in_runs=True)))
    assert found == [n for n in range(BLOCKS * ROWS) if n // ROWS != 5]
    assert [(one.first_seq, one.end_seq) for one in told] == [(5 * ROWS, 6 * ROWS)]

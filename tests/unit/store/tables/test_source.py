"""A table as a source: what a log of the same rows says, it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.log.rows import rows, stamp
from tests.unit.store.tables.made import log_at, part_of

from elea.store.log.reader import LogReader
from elea.store.tables.compaction import compact
from elea.store.tables.source import ROWS, TableSource
from elea.store.tables.table import FORMATS, open_table


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    found = []
    for batch in batches:
        assert batch.schema == ROWS
        found += batch["sn"].to_pylist()
    return sorted(found)


@pytest.fixture(scope="module", params=FORMATS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LogReader, TableSource]:
    """A log and a table of its rows: some days, half of them compacted, some without timestamp."""
    root = tmp_path_factory.mktemp("both")
    table = open_table(root / "table", request.param)
    with log_at(root / "log") as log:
        for first in (0, 86_400_000, 172_800_000):
            log.store(rows(first, 200, 5))
        log.store(rows(86_500_000, 50, 5, stamped=False))
        for shard, end in enumerate(log.ends()):
            for first in range(0, end, 60):
                table.commit("c", [part_of(table, log, shard, first, min(first + 60, end))])
    list(compact(table, before="2023-11-16"))
    return LogReader(root / "log"), TableSource(root / "table")


@settings(max_examples=25, deadline=None)
@given(
    key_expr=st.sampled_from(["**", "k/*", "k/1", "k/$*3", "k", "other/**"]),
    since=st.sampled_from([0, 50, 199, 86_400_100, 86_500_010, 172_800_199]),
    length=st.sampled_from([0, 1, 100, 86_400_000, 10**9]),
)
def test_the_same_rows_as_the_log(
    both: tuple[LogReader, TableSource], key_expr: str, since: int, length: int
) -> None:
    log, table = both
    span = (stamp(since), stamp(since + length))
    want = [
        sn
        for batch in log.select(key_expr, since=span[0], until=span[1])
        for sn in batch["sn"].to_pylist()
    ]
    assert numbers(table.select(key_expr, *span)) == sorted(want)


@pytest.mark.parametrize("until", [stamp(100), stamp(86_400_050), stamp(86_500_020), 2**64])
@pytest.mark.parametrize("key_expr", ["**", "k/2", "k/$*3", "none"])
def test_the_latest_rows(both: tuple[LogReader, TableSource], key_expr: str, until: int) -> None:
    log, table = both
    want: dict[str, tuple[int, int]] = {}
    for batch in log.select(key_expr, until=until):
        times = [
            row["hlc"] if row["hlc"] is not None else stamp(row["sn"])
            for row in batch.select(["hlc", "sn"]).to_pylist()
        ]
        for key, time, sn in zip(
            batch["key"].to_pylist(), times, batch["sn"].to_pylist(), strict=True
        ):
            want[key] = max(want.get(key, (0, 0)), (time, sn))
    found = {
        row["key"]: row["sn"]
        for batch in table.latest(key_expr, until)
        for row in batch.to_pylist()
    }
    assert found == {key: sn for key, (_, sn) in want.items()}


def test_a_table_that_is_not_there_is_empty_until_it_is(tmp_path: Path) -> None:
    source = TableSource(tmp_path / "table")
    assert list(source.select("**", 0, 2**64)) == []
    [problem] = source.problems()
    assert "no table" in problem
    table = open_table(tmp_path / "table", "parquet")
    with log_at(tmp_path / "log", shards_count=1) as log:
        log.store(rows(0, 10))
        table.commit("c", [part_of(table, log, 0, 0, 10)])
    assert numbers(source.select("k/*", 0, 2**64)) == list(range(10))
    assert source.problems() == []
    source.settle()

"""The last values of more keys than an answer holds: bounded while gathered, cut, and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.historian.rig import keep, sample, text, written
from tests.unit.store.tables.made import part_of

from elea.limits import Limits
from elea.parameters import Parameters
from elea.store.historian.gather import Gathered, gather
from elea.store.historian.selection import Selection
from elea.store.historian.source import ROWS, LogSource, Source
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings
from elea.store.tables.source import TableSource
from elea.store.tables.table import open_table

FREE = LogSettings(low_water_percent=0)
MIB = 2**20
PROGRAM = """
import json, resource, sys
import pyarrow as pa
from elea.limits import Limits
from elea.parameters import Parameters
from elea.store.historian.gather import gather
from elea.store.historian.selection import Selection
from elea.store.historian.source import LogSource

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

limits = Limits(historian_rows_len=4 * 2**20)
source = LogSource(sys.argv[1])
def ask(key):
    found = gather([source], Selection.of(key, Parameters(""), 0), limits=limits)
    return sum(1 for _ in found), found.cut is not None
ask("k/00000")
before = peak()
count, cut = ask("**")
held = pa.default_memory_pool().max_memory()
print(json.dumps({"count": count, "cut": cut, "grown": peak() - before, "held": held}))
"""


def selected(sources: list[Source], selector: str, limits: Limits) -> Gathered:
    key, _, parameters = selector.partition("?")
    return gather(sources, Selection.of(key, Parameters(parameters), 0), limits=limits)


def followed(sources: list[Source], selector: str, limits: Limits) -> list[str]:
    """All keys, of an answer and those that its cuts name, in order."""
    keys: list[str] = []
    for _ in range(1_000):
        found = selected(sources, selector, limits)
        keys += [row.key for row in found]
        if found.cut is None:
            return keys
        [selector] = found.cut.following
    raise AssertionError("it never ends")


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_the_last_values_of_all_keys_do_not_exceed_the_limit_while_they_are_gathered(
    tmp_path: Path,
) -> None:
    payload = "x" * 8_000
    with Log(tmp_path, FREE) as log:
        for first in range(0, 16_000, 500):  # 128 MB
            keep(log, [sample(f"k/{one:05}", 1, payload) for one in range(first, first + 500)])
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(outcome.stdout)
    assert told["cut"]
    assert 300 < told["count"] <= 4 * MIB // 8_000
    assert told["grown"] < 64 * MIB, told


@pytest.mark.parametrize("parameters", ["", "_time=[..]", "_time=[..];_order=time"])
def test_an_answer_is_not_held_several_times(tmp_path: Path, parameters: str) -> None:
    """What it is made of, what exceeds the limit until it is dropped, and a block that is read."""
    numbers = [one * 7 % 4_000 for one in range(4_000)]
    with Log(tmp_path, FREE) as log:
        for first in range(0, 4_000, 100):  # 32 MB in blocks of 800 kB
            few = numbers[first : first + 100]
            keep(log, [sample(f"k/{one:05}", one, "x" * 8_000) for one in few])
    program = PROGRAM.replace('Parameters("")', f"Parameters({parameters!r})")
    outcome = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True
    )
    told = json.loads(outcome.stdout)
    assert (told["cut"], told["count"] > 300) == (True, True)
    assert told["held"] < 3 * 4 * MIB, told


@pytest.mark.parametrize("limit", [{"historian_rows_count": 7}, {"historian_rows_len": 700}])
@pytest.mark.parametrize("parameters", ["", "_filter=v >= 50", "_kinds=put,delete", "_order=desc"])
def test_a_cut_answer_is_followed_to_its_end_whatever_was_left_out(
    tmp_path: Path, limit: dict[str, int], parameters: str
) -> None:
    blocks = [
        [sample(f"k/{(one * 37) % 100:02}", one, (one * 37) % 100) for one in range(100)],
        [sample(f"k/{one:02}", 200 + one) for one in range(0, 100, 10)],  # deleted
        [sample(f"k/{one:02}", 300 + one, one) for one in range(0, 100, 20)],
    ]
    apart = [
        LogSource(written(tmp_path / str(n), one, settings=FREE)) for n, one in enumerate(blocks)
    ]
    whole = [LogSource(written(tmp_path / "all", *blocks, settings=FREE))]
    for sources in (whole, apart, apart[::-1]):
        found = followed([*sources], f"k/**?{parameters}", Limits(**limit))
        assert found == [row.key for row in selected([*sources], f"k/**?{parameters}", Limits())]
        assert found == sorted(set(found))
    first = [row.key for row in selected([*whole], "k/**?_max=5", Limits(**limit))]
    assert first == [f"k/{one:02}" for one in range(5)]


def test_a_table_remembers_so_many_keys_and_says_so(tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", "parquet")
    with Log(tmp_path / "log", LogSettings(low_water_percent=0, shards_count=1)) as log:
        for first in range(0, 100, 10):
            keep(
                log,
                [sample(f"k/{(one * 37) % 100:02}", one, one) for one in range(first, first + 10)],
            )
            log.flush()
            part = part_of(table, log, 0, first, first + 10)
            table.commit("archive", [part])
    limits = Limits(historian_keys_count=4)
    source = TableSource(tmp_path / "table", limits)
    found = selected([source], "k/**", Limits())
    keys = [f"k/{one:02}" for one in range(100)]
    told = [row.key for row in found]
    assert told == keys[: len(told)]
    assert 4 <= len(told) <= 8
    assert found.cut is not None
    assert f"keys after {told[-1]} are missing" in found.cut.detail
    assert found.cut.following == (f"k/**?_after={told[-1]}",)
    assert followed([source], "k/**", Limits()) == keys
    assert followed([source], "k/**", Limits(historian_rows_count=3)) == keys
    some = selected([source], "k/**?_filter=_key > 'k/90'", Limits())
    assert (list(some), some.cut is not None) == ([], True)


class Endless:
    """A source that searches for ever, unless nobody wants to know."""

    def __init__(self) -> None:
        self.closed = False

    def latest(self, key_expr: str, until: int) -> Generator[pa.RecordBatch, None, None]:
        try:
            while True:
                yield pa.RecordBatch.from_pylist([], schema=ROWS)
        finally:
            self.closed = True

    def select(
        self, key_expr: str, since: int, until: int
    ) -> Generator[pa.RecordBatch, None, None]:
        return self.latest(key_expr, until)

    def settle(self) -> None: ...

    def problems(self) -> list[str]:
        return []


@pytest.mark.parametrize("selector", ["**", "**?_time=[..]"])
def test_a_search_ends_when_nobody_waits_for_it(selector: str) -> None:
    source, looks = Endless(), iter([True] * 10)
    key, _, parameters = selector.partition("?")
    found = gather(
        [source, source],
        Selection.of(key, Parameters(parameters), 0),
        is_wanted=lambda: next(looks, False),
    )
    assert list(found) == []
    assert source.closed


def test_a_log_that_is_searched_can_be_interrupted(tmp_path: Path) -> None:
    blocks = [[sample(f"k/{one}/{number}", one, one) for number in range(9)] for one in range(9)]
    source = LogSource(written(tmp_path, *blocks, settings=FREE))
    looked = 0

    def is_wanted() -> bool:
        nonlocal looked
        looked += 1
        return looked < 5

    found = gather([source], Selection.of("**", Parameters(""), 0), is_wanted=is_wanted)
    assert (list(found), looked) == ([], 5)
    batches = source.latest("**", 2**64)
    assert [next(batches).num_rows for _ in range(9)] == [0] * 9  # before the first row is read


def test_a_table_that_is_scanned_can_be_interrupted(tmp_path: Path) -> None:
    table = open_table(tmp_path / "table", "parquet")
    with Log(tmp_path / "log", LogSettings(low_water_percent=0, shards_count=1)) as log:
        keep(log, [sample(f"k/{one}", one, one) for one in range(10)])
        log.flush()
        table.commit("archive", [part_of(table, log, 0, 0, 10)])
    source = TableSource(tmp_path / "table")
    assert next(source.latest("**", 2**64)).num_rows == 0
    # Also where nothing is found.
    assert [one.num_rows for one in source.latest("*/none", 2**64)] == [0]
    assert [one.num_rows for one in source.select("*/none", 0, 2**64)] == [0]


def test_a_log_without_rows_of_a_span_can_be_interrupted(tmp_path: Path) -> None:
    """Each block has rows before it and after it, so that all blocks are read."""
    blocks = [[sample(f"k/{one}", second, one) for second in (1, 1_000_000)] for one in range(9)]
    settings = LogSettings(low_water_percent=0, shards_count=1)
    source = LogSource(written(tmp_path, *blocks, settings=settings))
    looked = 0

    def is_wanted() -> bool:
        nonlocal looked
        looked += 1
        return True

    span = f"_time=[{text(500)}..{text(1_000)}]"
    found = gather([source], Selection.of("**", Parameters(span), 0), is_wanted=is_wanted)
    assert list(found) == []
    assert looked


@pytest.mark.parametrize("parameters", ["", "_time=[..]"])
def test_row_groups_of_a_table_are_not_held(tmp_path: Path, parameters: str) -> None:
    table = open_table(tmp_path / "table", "parquet")
    with Log(tmp_path / "log", LogSettings(low_water_percent=0, shards_count=1)) as log:
        for first in range(0, 8_000, 1_000):  # 64 MB in eight files
            numbers = range(first, first + 1_000)
            keep(log, [sample(f"k/{one:05}", one, "x" * 8_000) for one in numbers])
            log.flush()
            table.commit("archive", [part_of(table, log, 0, first, first + 1_000)])
    program = (
        PROGRAM.replace('Parameters("")', f"Parameters({parameters!r})")
        .replace("LogSource(", "TableSource(")
        .replace("historian.source import LogSource", "tables.source import TableSource")
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "table")],
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(outcome.stdout)
    assert (told["cut"], told["count"] > 300) == (True, True)
    assert told["held"] < 32 * MIB, told

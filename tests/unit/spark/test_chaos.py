"""What the campaigns with Spark stand on: holds, windows, and a ledger that finds what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chaos.spark_ledger import (
    AFTER_COMMIT,
    AFTER_OFFSETS,
    ARCHIVE,
    BEFORE_OFFSETS,
    IN_SINK,
    WINDOWS,
    Ledger,
)
from chaos.spark_rig import NotReachedError, marked, wait_for
from tests.unit.spark.engine import CrashError
from tests.unit.spark.logs import log_at
from tests.unit.spark.test_archive import query
from tests.unit.spark.test_stream import no_crash
from tests.unit.store.log.rows import rows
from tests.unit.store.tables.made import part_of, position, stored

from elea import crash
from elea.spark.archiving import archive_local, prepared
from elea.store.log.log import Log
from elea.store.tables.table import open_table

POINT = "table.before_commit"
COUNT = 40
STEPS = (  # of the fake engine, in their order
    "before planning",
    "before the offset log",
    "after the offset log",
    "reading",
    "before the commit",
    "after the commit",
    "after the sink",
    "after the batch",
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with log_at(tmp_path / "log") as made:
        made.store(rows(0, COUNT, 8))
        yield made


@pytest.fixture
def ledger(tmp_path: Path, log: Log) -> Ledger:
    """All is acknowledged; nothing is in the table."""
    made = Ledger(tmp_path, ARCHIVE, "cd")
    first = Ledger(tmp_path, replace(ARCHIVE, tables=("first",)), "cd")
    list(archive(first))
    found = first._rows(tmp_path / "first").to_pylist()
    lines = [f"{row['id']} {row['shard']} {row['seq']}\n" for row in found]
    made.acknowledged.write_text("".join(lines))
    open_table(tmp_path / "table", "delta")
    return made


def archive(ledger: Ledger) -> Iterator[int]:
    place = (str(ledger.log), ledger.tables[0], "delta", ARCHIVE.consumer)
    return archive_local(*prepared(*place, None, None))


def test_a_whole_table_has_no_problems(ledger: Ledger) -> None:
    assert not ledger.has_all()
    assert "0 are there" in ledger.problems(whole=True)[0]
    assert ledger.problems(whole=False) == []
    list(archive(ledger))
    assert ledger.has_all()
    assert ledger.problems(whole=True) == []
    assert ledger.rows_count() == COUNT


def test_rows_that_are_double_are_found(ledger: Ledger) -> None:
    list(archive(ledger))
    table = open_table(ledger.tables[0])
    table.commit("somebody else", [part_of(table, ledger.log, 0, 0, 3)])
    shard, samples = ledger.problems(whole=False)
    assert "shard 0" in shard
    assert samples == f"table: {COUNT + 3} rows are of {COUNT} samples"


def test_samples_that_are_missing_are_found(ledger: Ledger) -> None:
    list(archive(ledger))
    with ledger.acknowledged.open("a") as file:
        file.write("777 0 2\n888 0 ")  # the last one is being written
    differs, missing = ledger.problems(whole=True)
    assert f"{COUNT + 1} samples were acknowledged, {COUNT} are there; [777] differ" in differs
    assert missing == "table: sample 777 was acknowledged at 0, 2 and is at None"


def test_rows_that_are_missing_are_found(ledger: Ledger) -> None:
    list(archive(ledger))
    table = open_table(ledger.tables[0])
    [file] = [one for one in table.files() if "/0000-" in one.path]
    table.replace([file], [])
    text = f"table: shard 0: 0 rows, 0 distinct of {file.rows_count}"
    assert text in ledger.problems(whole=False)


def test_windows_are_told_by_what_was_left(ledger: Ledger, log: Log, tmp_path: Path) -> None:
    checkpoint = tmp_path / ARCHIVE.checkpoint

    def window() -> str:
        return ledger.window(0)

    assert window() == BEFORE_OFFSETS
    ends = {str(shard): end for shard, end in enumerate(log.ends())}
    for directory in ("offsets", "commits"):
        (checkpoint / directory).mkdir(parents=True)
    offset = json.dumps({"v": 1, "log": "any", "s": ends})
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{offset}")
    assert window() == AFTER_OFFSETS
    table = open_table(ledger.tables[0])
    for shard, end in ends.items():
        part_of(table, ledger.log, int(shard), 0, end)
    assert window() == IN_SINK
    assert ledger.window(2.0**40) == AFTER_OFFSETS  # files of an earlier life
    list(archive(ledger))
    assert window() == AFTER_COMMIT
    (checkpoint / "commits" / "0").touch()
    assert window() == BEFORE_OFFSETS
    assert len(set(WINDOWS)) == len(WINDOWS) == 4


def test_a_process_is_held_where_that_is_asked_for(tmp_path: Path) -> None:
    """The first one that comes there stops; whoever asked sees which, and may let it go on."""
    program = f"from elea import crash; crash.point({POINT!r}); crash.point({POINT!r}); print('on')"
    (tmp_path / POINT).touch()
    (tmp_path / "table.after_commit").touch()  # where it does not come
    mark = {crash.HOLD: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | mark, stdout=subprocess.PIPE
    ) as process:
        wait_for(lambda: (tmp_path / f"{POINT}.{process.pid}").exists(), "the hold")
        assert marked(f"{crash.HOLD}={tmp_path}") == [process.pid]
        wait_for(lambda: _state(process.pid) == "T", "the stop")
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.read() == b"on\n"  # the file is taken: it is not held again
    assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["table.after_commit", f"{POINT}.{process.pid}"]
    assert POINT in crash.QUERY_POINTS


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_cannot_come_is_not_waited_for() -> None:
    with pytest.raises(NotReachedError, match="a miracle"):
        wait_for(lambda: False, "a miracle", lambda: False)


def test_a_driver_that_is_killed_at_every_step(tmp_path: Path) -> None:
    """One after the other, on one table: each comes to the next step of its batch, and no further.

    Each step is where a first try of a batch dies, and where a second one does.
    """
    table = open_table(tmp_path / "table", "delta")
    with log_at(tmp_path / "log") as log:
        run = query(tmp_path / "log", tmp_path / "table", "30")
        for number, step in enumerate(one for one in STEPS for _ in range(2)):
            log.store(rows(number * 20, 20, 8))
            run.die = lambda point: _die_at(step, point)  # noqa: B023
            with pytest.raises(CrashError, match=step):
                run.run(batches_count=2, crash=run.die)
            assert position(table) == sorted(set(position(table)))
        run.die = no_crash
        run.run(batches_count=10_000, crash=no_crash)
        assert position(table) == stored(log)


def _die_at(step: str, point: str) -> None:
    if point == step:
        raise CrashError(point)

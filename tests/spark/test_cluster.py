"""A real cluster: a master, two workers and a driver, all of them processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from tests.scale import scaled
from tests.spark.listeners import foreign_listeners
from tests.unit.spark.logs import fill, log_at
from tests.unit.store.tables.made import position, stored

from elea.spark.home import spark_home
from elea.spark.java import packaged
from elea.spark.standalone import Standalone
from elea.store.log.log import Log
from elea.store.tables.table import open_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster" / "archive.py"
ROWS = scaled(1_500, 2_400)
BATCH_ROWS = 300
WAIT_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("cluster")
    with Standalone(folder, quick=True, java=packaged()) as made:
        yield made


def until(condition: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    limit_s = time.monotonic() + WAIT_S
    while not condition():
        assert driver.poll() is None, "".join(driver.communicate())
        assert time.monotonic() < limit_s
        time.sleep(0.02)


@pytest.mark.long
def test_an_archive_loses_a_worker_and_no_row(cluster: Standalone, tmp_path: Path) -> None:
    table = tmp_path / "table"
    with log_at(tmp_path / "log") as log:
        fill(log, 0, ROWS)
        command = [spark_home() / "bin" / "spark-submit", EXAMPLE, tmp_path / "log", table]
        driver = subprocess.Popen(
            [*command, "--rows", str(BATCH_ROWS)],
            env=os.environ | cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: (table / "_checkpoints").exists(), driver)
            until(lambda: held_count(table, log) >= BATCH_ROWS, driver)
            assert foreign_listeners() == []
            cluster.kill(0)
            held_then = held_count(table, log)
            output, errors = driver.communicate(timeout=WAIT_S)
        finally:
            driver.kill()
            driver.wait()
        assert driver.returncode == 0, output + errors
        assert f"{ROWS} rows" in output
        assert held_then < ROWS
        assert "Lost executor" in errors
        assert position(open_table(table)) == stored(log)
    files = [str(table / one.path) for one in open_table(table).files("**")]
    query = "SELECT count(*), count(DISTINCT (log, shard, seq)) FROM read_parquet(?)"
    assert duckdb.execute(query, [files]).fetchone() == (ROWS, ROWS)
    assert all(tasks_count(cluster.directory / f"worker-{number}") for number in range(2))


def held_count(table: Path, log: Log) -> int:
    return sum(open_table(table).ends("archive", log.log_id).values())


def tasks_count(work: Path) -> int:
    """Tasks that the executors of a worker ran."""
    texts = [path.read_text() for path in work.glob("app-*/*/stderr")]
    return len(re.findall("Running task", "".join(texts)))

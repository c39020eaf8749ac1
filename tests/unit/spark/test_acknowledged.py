"""Rows of a sink that recorders acknowledge: a router that is killed loses none of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.scale import scaled

from elea.errors import StoreError
from elea.sample import Sample
from elea.session.query import Query
from elea.spark.options import Options, Sink
from elea.spark.sink import Sent, send
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind

ROWS = scaled(3_000, 6_000)
BATCH = 500


def sink(endpoint: str, **more: str) -> Sink:
    return Options({"connect": endpoint, "ack": "stored", **more}).sink()


def batches(
    count: int = ROWS, at: Callable[[int], object] | None = None
) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, BATCH):
        if at is not None:
            at(first)
        numbers = range(first, min(first + BATCH, count))
        yield pa.RecordBatch.from_pydict(
            {
                "key": [f"out/{number % 5}" for number in numbers],
                "payload": [b"%d" % number for number in numbers],
                "kind": pa.array([int(number % 50 == 49) for number in numbers], pa.int8()),
            }
        )


def recorded(log: Path) -> Counter[tuple[bytes, int]]:
    reader = LogReader(log)
    return Counter(
        (row["payload"], row["kind"]) if row["kind"] != RowKind.DELETE else (b"", row["kind"])
        for shard in range(reader.shards_count)
        for batch in reader.read(shard, 0)
        for row in batch.to_pylist()
    )


def expected(count: int = ROWS) -> Counter[tuple[bytes, int]]:
    return Counter(
        (b"", 1) if number % 50 == 49 else (b"%d" % number, 0) for number in range(count)
    )


class Processes:
    """A router and a recorder, each a process of its own."""

    def __init__(self, log: Path) -> None:
        self.endpoint, self.log = free_endpoint(), log
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *args: str) -> None:
        command = [sys.executable, "-m", "elea.cli.main", *args]
        env = {**os.environ, "ELEA_NO_SCOUTING": "1"}
        self._running[name] = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def router(self) -> None:
        self.start("router", "router", "-l", self.endpoint, "--no-multicast-scouting")
        process = self._running["router"]
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()

    def recorder(self) -> None:
        where = ("--to", str(self.log), "--connect", self.endpoint)
        self.start("recorder", "record", "out/**", *where, "--json")
        assert eventually(lambda: self.log.exists() and any(self.log.iterdir()))

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        process.communicate()

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name, signal.SIGTERM if name == "recorder" else signal.SIGKILL)


@contextmanager
def processes(log: Path) -> Iterator[Processes]:
    made = Processes(log)
    try:
        yield made
    finally:
        made.close()


def test_no_row_is_lost_when_the_router_is_killed_and_comes_back(tmp_path: Path) -> None:
    """What the sink says is sent is recorded, and once: also what was on its way then."""
    with processes(tmp_path / "log") as made:
        made.router()
        made.recorder()

        def at(first: int) -> None:
            if first == ROWS // 3:
                made.kill("router")
                made.router()

        assert send(sink(made.endpoint), batches(at=at), "query/0", 0) == Sent(
            ROWS - ROWS // 50, ROWS // 50
        )
        made.kill("recorder", signal.SIGTERM)
        assert recorded(made.log) == expected()


def test_a_recorder_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    with processes(tmp_path / "log") as made:
        made.router()

        def at(first: int) -> None:
            if first == BATCH:
                made.recorder()

        send(sink(made.endpoint), batches(1_000, at), "query/0", 0)
        made.kill("recorder", signal.SIGTERM)
        assert recorded(made.log) == expected(1_000)


def test_rows_that_are_recorded_already_are_acknowledged_again(tmp_path: Path) -> None:
    """A task that is tried again, whole, in another order."""
    with processes(tmp_path / "log") as made:
        made.router()
        made.recorder()
        at_ns = 1_700_000_000 * 10**9
        send(sink(made.endpoint), batches(1_000), "query/0", 0, at_ns=at_ns)
        again = reversed(list(batches(1_000)))
        send(sink(made.endpoint), iter(again), "query/0", 0, at_ns=at_ns)
        made.kill("recorder", signal.SIGTERM)
        assert recorded(made.log) == expected(1_000)


def test_without_a_recorder_the_task_fails_and_says_so() -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "router", listen=endpoint),
        pytest.raises(StoreError, match="50 rows are not acknowledged"),
    ):
        send(sink(endpoint, timeout="1"), batches(50), "query/0", 0)


def test_receipts_of_somebody_who_is_no_recorder_are_not_believed() -> None:
    """Each row is answered at once with a receipt that nobody proves."""
    endpoint = free_endpoint()
    forged = []
    with (
        session(ELEA, "router", listen=endpoint),
        session(ELEA, "client", connect=endpoint) as other,
    ):

        def forge(sample: Sample) -> None:
            assert sample.source_info is not None
            source = sample.source_info.source_id
            receipt = [int(source.eid), sample.source_info.source_sn, 0, 5, "00" * 12]
            text = json.dumps({"log": str(UUID(int=1)), "name": "x", "stored": [receipt]})
            forged.append(text)
            other.put(f"@elea/log/x/stored/{source.zid}", text)

        other.declare_subscriber("out/**", forge)
        with pytest.raises(StoreError, match="50 rows are not acknowledged"):
            send(sink(endpoint, timeout="1"), batches(50), "query/0", 0)
    assert forged


def test_recorders_are_asked_for_receipts_with_the_nonce_that_proves_them() -> None:
    """Without it they send none: each row would be asked about by itself."""
    endpoint = free_endpoint()
    asked: list[str] = []
    with session(ELEA, "router", listen=endpoint) as router:

        def hear(query: Query) -> None:
            asked.append(str(query.parameters))
            query.drop()

        router.declare_queryable("@elea/log/x/put/**", hear)
        with pytest.raises(StoreError, match="50 rows are not acknowledged"):
            send(sink(endpoint, timeout="1"), batches(50), "query/0", 0)
    nonces = {found[1] for one in asked if (found := re.search(r"nonce=([0-9a-f]+)", one))}
    first = [one for one in asked if "wait=1;" in one]
    assert first
    assert all("receipts=true;nonce=" in one for one in first)
    assert len(nonces) == 1, "that of the questions about single rows, too"

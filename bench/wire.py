"""From publishers to a table through Spark, and from a put to a sink of Spark.

`python -m bench.wire`, or `--only wire`, `--only latency`, `--only memory --minutes 30`.

wire: a publisher of Elea in a process of its own sends samples over TCP to a recorder in another,
which makes them durable; an archive of Spark brings them into a Delta table meanwhile. By the
clock, from the first put until the table has the last row. In turn with it what one would write
without Elea: a callback of eclipse-zenoh that fills a queue in a Python source of Spark, rows as
tuples, and Spark's own Parquet sink and checkpoints; what is in the queue is lost when something
falls. It gets a quarter of the rows, from the same publisher.

latency: from a put to a subscriber, through the log, a stream and a sink of Spark, with a batch
every half second.

memory: of the Python process of the driver, while an archive takes a thousand rows a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.recorder import child, node_config, tell

import elea
from elea import spark as elea_spark
from elea import version
from elea.errors import EleaError
from elea.spark.java import packaged
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings
from elea.store.tables.table import open_table

FIGURES = ("wire", "latency", "memory")
POLL_S = 0.02
ASK_TURNS = 50  # between two questions whether a query failed
PATIENCE_S = 300.0
SPARKS_OWN = (  # how checkpoints are written where Elea does not say so
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager",
)
NAIVE_COLUMNS = "key string, kind int, payload binary, encoding string, recv_ts double"


def show(figure: str, **values: object) -> None:
    machine = {
        "compiled": version.COMPILED,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({"bench": "wire", "figure": figure, **values, **machine}), flush=True)


def free_endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp/127.0.0.1:{probe.getsockname()[1]}"


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise SystemExit("it does not come to an end")
        time.sleep(POLL_S)


def until_batch(query: StreamingQuery, checkpoint: Path, is_so: Callable[[int], bool]) -> None:
    """Look after each batch of a query. Spark is asked rarely: answers cost what is measured."""
    seen, turns = -1, itertools.count(1)

    def is_last() -> bool:
        nonlocal seen
        if next(turns) % ASK_TURNS == 0 and (error := query.exception()) is not None:
            raise SystemExit(str(error))
        done = (checkpoint / "commits").glob("[0-9]*")
        number = max((int(one.name) for one in done), default=-1)
        if number == seen:
            return False
        seen = number
        return is_so(number)

    until(is_last)


class NaiveReader(SimpleDataSourceStreamReader):
    """A subscriber of eclipse-zenoh, in the process that Spark runs a simple source in."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._queue: deque[Any] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        if self._queue is None:
            import zenoh

            self._queue = deque()
            self._session = zenoh.open(node_config(zenoh, listen=self._endpoint, connect=None))
            self._subscriber = self._session.declare_subscriber("bench/**", self._queue.append)
        rows = []
        while self._queue:
            sample = self._queue.popleft()
            rows.append(
                (
                    str(sample.key_expr),
                    0,
                    sample.payload.to_bytes(),
                    str(sample.encoding),
                    time.time(),
                )
            )
        return iter(rows), {"n": start["n"] + len(rows)}

    def readBetweenOffsets(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[Any, ...]]:
        if start != end:
            raise EleaError("what was in the queue is lost")
        return iter(())


class NaiveSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "naive"

    def schema(self) -> str:
        return NAIVE_COLUMNS

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return NaiveReader(self.options["endpoint"])


@contextmanager
def publisher(endpoint: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """One that is ready to send, once there is a subscriber."""
    made = child("publish", "elea", endpoint, str(count), "100")
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def by_elea(spark: SparkSession, root: Path, count: int) -> float:
    """Rows per second."""
    endpoint, table = free_endpoint(), root / "bronze"
    recorder = child("receive", "elea", endpoint, str(count), str(root / "log"), "none")

    def rows() -> int:
        return sum(file.rows_count for file in open_table(table).files())

    try:
        tell(recorder)
        archive = elea_spark.archive(spark, log=str(root / "log"), table=table)
        query = archive.start(checkpoint=str(root / "check"))
        with publisher(endpoint, count) as sender:
            started_s = time.perf_counter()
            tell(sender)
            until_batch(query, root / "check", lambda _: rows() >= count)
            taken_s = time.perf_counter() - started_s
        query.stop()
        if rows() != count:
            raise SystemExit(f"{rows()} rows of {count}")
    finally:
        recorder.kill()
        recorder.wait()
    return count / taken_s


def by_queue(spark: SparkSession, root: Path, count: int) -> float:
    """Rows per second."""
    endpoint = free_endpoint()
    spark = spark.newSession()
    spark.conf.set(*SPARKS_OWN)
    spark.dataSource.register(NaiveSource)
    frame = spark.readStream.format("naive").option("endpoint", endpoint).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(root / "check"))
    query = writer.start(str(root / "parquet"))

    def is_last(number: int) -> bool:
        offsets = (root / "check" / "offsets" / str(number)).read_text().splitlines()
        return bool(json.loads(offsets[-1])["n"] >= count)

    with publisher(endpoint, count) as sender:
        started_s = time.perf_counter()
        tell(sender)
        until_batch(query, root / "check", is_last)
        taken_s = time.perf_counter() - started_s
    query.stop()
    return count / taken_s


def wire(spark: SparkSession, args: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {"elea": [], "naive": []}
    for turn in range(args.rounds + 1):  # the first one warms up
        for name, run, count in (
            ("naive", by_queue, args.rows // 4),
            ("elea", by_elea, args.rows),
        ):
            root = Path(tempfile.mkdtemp(prefix="elea-wire-", dir=args.directory))
            try:
                rate = run(spark, root, count if turn else count // 4)
            finally:
                shutil.rmtree(root, ignore_errors=True)
            if turn:
                rates[name].append(rate)
                print(f"{name}: {rate:.0f} rows/s", file=sys.stderr, flush=True)
    ours, theirs = (statistics.median(rates[name]) for name in ("elea", "naive"))
    show(
        "wire to bronze, 100 octets",
        rows_per_s=round(ours),
        naive_rows_per_s=round(theirs),
        ratio=round(ours / theirs, 2),
        rows=args.rows,
        rounds=args.rounds,
    )


@contextmanager
def recorded(root: Path) -> Iterator[tuple[elea.Session, str]]:
    """A router that records what is put below `in`, and where it listens."""
    endpoint = free_endpoint()
    config = node_config(elea, listen=endpoint, connect=None)
    config.insert_json5("mode", '"router"')
    settings = RecordingSettings(
        key_exprs=("in/**",),
        name="bench",
        directory=root / "log",
        log=LogSettings(low_water_percent=0),
    )
    with elea.open(config) as session, Recorder(session, [settings]):
        yield session, endpoint


def latency(spark: SparkSession, args: argparse.Namespace) -> None:
    root = Path(tempfile.mkdtemp(prefix="elea-latency-", dir=args.directory))
    taken: list[float] = []
    with recorded(root) as (session, endpoint):
        session.declare_subscriber(
            "out/**", lambda one: taken.append(time.time() - float(one.payload.to_string()))
        )
        frame = spark.readStream.format("zenoh").option("log", str(root / "log")).load()
        rows = frame.selectExpr("concat('out/', substr(key, 4)) as key", "payload")
        sink = rows.writeStream.format("zenoh").option("connect", endpoint)
        sink = sink.option("checkpointLocation", str(root / "check"))
        query = sink.trigger(processingTime="500 milliseconds").start()
        for number in range(args.puts + args.puts // 4):
            session.put(f"in/{number % 10}", repr(time.time()))
            time.sleep(0.05)
        until(lambda: len(taken) >= args.puts + args.puts // 4)
        query.stop()
    shutil.rmtree(root, ignore_errors=True)
    found = sorted(taken[args.puts // 4 :])  # the first ones wait for Spark
    show(
        "put to a sink of Spark, trigger 0.5 s",
        p50_s=round(statistics.median(found), 3),
        p99_s=round(found[len(found) * 99 // 100], 3),
        puts=args.puts,
    )


def resident_mb() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def memory(spark: SparkSession, args: argparse.Namespace) -> None:
    root = Path(tempfile.mkdtemp(prefix="elea-memory-", dir=args.directory))
    endpoint, ended = free_endpoint(), threading.Event()
    recorder = child("receive", "elea", endpoint, "1000000000", str(root / "log"), "none")
    seen: list[float] = []
    with elea.open(node_config(elea, listen=None, connect=endpoint)) as session:

        def feed() -> None:
            while not ended.wait(0.1):
                for number in range(100):
                    session.put(f"bench/{number}", b"x" * 100)

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            archive = elea_spark.archive(spark, log=str(root / "log"), table=root / "bronze")
            query = archive.start(trigger="1 second")
            end_s = time.monotonic() + args.minutes * 60
            while time.monotonic() < end_s:
                time.sleep(min(10.0, args.minutes * 6))
                seen.append(resident_mb())
                print(f"{seen[-1]:.1f} MB", file=sys.stderr, flush=True)
            query.stop()
        finally:
            ended.set()
            feeder.join()
            recorder.kill()
            recorder.wait()
    shutil.rmtree(root, ignore_errors=True)
    third = max(1, len(seen) // 3)
    middle, last = statistics.mean(seen[third : 2 * third]), statistics.mean(seen[-third:])
    show(
        "memory of the driver's Python process",
        minutes=args.minutes,
        middle_third_mb=round(middle, 1),
        last_third_mb=round(last, 1),
        growth_mb_per_hour=round((last - middle) / (args.minutes / 3 / 60), 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=FIGURES, action="append")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--puts", type=int, default=400)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    spark = elea_spark.session("bench", master="local[2,4]", java=packaged())
    for name in args.only or FIGURES:
        {"wire": wire, "latency": latency, "memory": memory}[name](spark, args)
    spark.stop()


if __name__ == "__main__":
    main()

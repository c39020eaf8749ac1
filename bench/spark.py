"""Logs read by Spark: by file, over Zenoh and Flight, beside a source that only repeats a batch.

`python bench/spark.py`. Prints JSON lines. Rows per second of processor time of all
processes: driver, JVM, Python workers, and the node that serves the log; medians of rounds that are
in turn. Use the ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.log import BATCH, DISTINCT, batch_of

from elea import version
from elea.spark import session
from elea.spark.java import find, packaged
from elea.spark.schema import arrow_schema, plain_rows, sql_schema
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log, pack_log
from elea.store.log.ranges import COLUMNS
from elea.store.log.schema import POSITION
from elea.store.log.settings import LogSettings

SHARDS = 2
PACKED = "packed"  # as logs are ten minutes later
WARM_ROUNDS = 2  # the JVM is still compiling
TICKS = os.sysconf("SC_CLK_TCK")
SERVE = """
import json, sys
import elea
from elea.store.flight.door import Door
from elea.store.flight.settings import FlightSettings
from elea.store.logserver import LogServer
config = elea.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
with elea.open(config) as session:
    door = Door()
    door.open(FlightSettings.read({"location": "grpc://127.0.0.1:0"}))
    server = LogServer(session, "bench", sys.argv[2], door=door)
    print("ready", flush=True)
    sys.stdin.read()
    server.stop()
    door.close()
"""


class Repeating(DataSource):
    """Yields one batch again and again: what any source in Python can reach."""

    @classmethod
    def name(cls) -> str:
        return "repeating"

    def schema(self) -> str:
        return sql_schema(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return Repeater(int(self.options["rows"]), self.options["file"])


class Repeater(DataSourceReader):
    def __init__(self, rows_count: int, file: str) -> None:
        self._rows_count = rows_count
        self._file = file

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(shard) for shard in range(SHARDS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.ipc.open_file(pa.memory_map(self._file)).get_batch(0)
        left = self._rows_count // SHARDS
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def write_batch(file: Path, length: int) -> None:
    """The rows of `Repeating`, as Spark takes them: nothing is left to do but to hand them over."""
    rows = batch_of(length, BATCH * DISTINCT)
    position = [
        pa.array([0] * rows.num_rows, pa.int32()),
        pa.array(range(rows.num_rows), pa.int64()),
    ]
    schema = pa.schema([*rows.schema, *POSITION])
    placed = pa.RecordBatch.from_arrays([*rows.columns, *position], schema=schema)
    batch = plain_rows(placed, arrow_schema(COLUMNS))
    with pa.ipc.new_file(str(file), batch.schema) as writer:
        writer.write_batch(batch)


def processor_s() -> float:
    """Of this process and all below it, those that ended too."""
    times: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            spent = sum(map(int, fields[11:15])) / TICKS
            times[int(entry)] = (int(fields[1]), spent)
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += times[pid][1]
        waiting += [child for child, (parent, _) in times.items() if parent == pid]
    return total


def measured(frame: Callable[[], DataFrame], rows_count: int) -> tuple[float, float]:
    """Rows per second of processor time, and of the clock."""
    before_s, start_s = processor_s(), time.perf_counter()
    made = frame()
    made.write.format("noop").mode("overwrite").save()
    taken_s = time.perf_counter() - start_s
    return rows_count / (processor_s() - before_s), rows_count / taken_s


def write_log(directory: Path, length: int, rows_count: int, compression: str) -> None:
    written = "none" if compression == PACKED else compression
    settings = LogSettings(shards_count=SHARDS, compression=written, low_water_percent=0)
    batches = [batch_of(length, BATCH, seed) for seed in range(DISTINCT)]
    with Log(directory, settings) as log:
        left = rows_count
        while left > 0:
            for batch in batches:
                log.append(batch.slice(0, max(0, min(left, BATCH))))
                left -= BATCH
    if compression == PACKED:
        pack_log(RealDisk(directory, writable=True), "zstd")


def serve(directory: Path, endpoint: str) -> subprocess.Popen[str]:
    config = {
        "mode": "router",
        "listen/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
    }
    served = subprocess.Popen(
        [sys.executable, "-c", SERVE, json.dumps(config), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert served.stdout is not None
    assert served.stdout.readline() == "ready\n"
    return served


def run(spark: SparkSession, args: argparse.Namespace, length: int, compression: str) -> None:
    directory = Path(tempfile.mkdtemp(dir=args.directory))
    endpoint = f"tcp/127.0.0.1:{args.port}"
    write_log(directory, length, args.rows, compression)
    served = serve(directory, endpoint)
    try:
        reader = spark.read.format("zenoh")
        far = {
            scheme: {"log": f"{scheme}:bench", "connect": endpoint}
            for scheme in ("zenoh", "flight")
        }
        write_batch(directory / "batch.arrow", length)
        repeat = {"rows": str(args.rows), "file": str(directory / "batch.arrow")}
        frames: dict[str, Callable[[], DataFrame]] = {
            "repeated": lambda: spark.read.format("repeating").options(**repeat).load(),
            "file": lambda: reader.options(log=str(directory)).load(),
            "zenoh": lambda: spark.read.format("zenoh").options(**far["zenoh"]).load(),
            "flight": lambda: spark.read.format("zenoh").options(**far["flight"]).load(),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in frames}
        for number in range(args.rounds + WARM_ROUNDS):
            for name, frame in frames.items():
                one = measured(frame, args.rows)
                if number >= WARM_ROUNDS:
                    found[name].append(one)
        rates = {
            name: tuple(statistics.median(values) for values in zip(*some, strict=True))
            for name, some in found.items()
        }
        print(
            json.dumps(
                {
                    "bench": "spark",
                    "payload": length,
                    "compression": compression,
                    "rows": args.rows,
                    **{f"{name}_rows_s_core": round(rate) for name, (rate, _) in rates.items()},
                    **{f"{name}_rows_s": round(rate) for name, (_, rate) in rates.items()},
                    "file_to_repeated": round(rates["file"][0] / rates["repeated"][0], 3),
                    "zenoh_cpu_to_file": round(rates["file"][0] / rates["zenoh"][0], 3),
                    "flight_cpu_to_file": round(rates["file"][0] / rates["flight"][0], 3),
                    "python": platform.python_version(),
                    "load": round(os.getloadavg()[0], 1),
                    "compiled": version.COMPILED,
                }
            ),
            flush=True,
        )
    finally:
        served.communicate()
        shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--payloads", type=int, nargs="*", default=[100])
    parser.add_argument("--compressions", nargs="*", default=["none", PACKED])
    parser.add_argument("--port", type=int, default=17_871)
    parser.add_argument("--directory", default=None)
    parser.add_argument("--packaged", action="store_true", help="the packaged Java")
    args = parser.parse_args()
    java = packaged() if args.packaged else find()
    spark = session("bench", master=f"local[{SHARDS},4]", java=java)
    spark.dataSource.register(Repeating)
    try:
        for length in args.payloads:
            for compression in args.compressions:
                run(spark, args, length, compression)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

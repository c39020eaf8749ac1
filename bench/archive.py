"""A log into a table: by tasks that write files, beside Spark's own Parquet sink.

`python bench/archive.py --rows 6000000`. Prints JSON lines. Rows per second of processor time of
all processes: driver, JVM, Python workers. Use the ratios of one run; each figure is the best of
`--repeat` runs, in turn with the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.log import BATCH, DISTINCT, EPOCH_S, batch_of

from elea import spark as elea_spark
from elea.spark.archiving import archive_local, prepared
from elea.spark.java import packaged
from elea.store.log.log import Log
from elea.store.log.schema import TIME
from elea.store.log.settings import LogSettings
from elea.store.tables.compaction import compact
from elea.store.tables.source import TableSource
from elea.store.tables.table import open_table

SHARDS = 2
TICKS = os.sysconf("SC_CLK_TCK")
BATCHES = {"maxRowsPerTrigger": "4000000"}  # as an archive has it by itself


def show(figure: str, **values: object) -> None:
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    print(json.dumps({"bench": "archive", "figure": figure, **values, **machine}), flush=True)


def processor_s() -> float:
    """Of this process and all below it, those that ended too."""
    times: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            times[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])) / TICKS)
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += times[pid][1]
        waiting += [child for child, (parent, _) in times.items() if parent == pid]
    return total


def write_log(directory: Path, length: int, rows_count: int) -> None:
    settings = LogSettings(shards_count=SHARDS, low_water_percent=0)
    batches = [batch_of(length, BATCH, seed) for seed in range(DISTINCT)]
    with Log(directory, settings) as log:
        for number in range(rows_count // BATCH):
            log.append(moved(batches[number % DISTINCT], number * BATCH))


def moved(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """The same rows, numbered from another number on, ten thousand in a second."""
    numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
    received = pc.add(pc.multiply(numbers, 100), EPOCH_S * 1_000_000)
    stamps = pc.add(pc.multiply(numbers, (1 << 32) // 10_000), EPOCH_S << 32)
    changed = {"sn": numbers, "hlc": stamps, "ts": received.view(TIME)}
    changed["recv_ts"] = changed["ts"]
    columns = [changed.get(name, batch.column(name)) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def by_sink(spark: SparkSession, log: Path, root: Path, options: dict[str, str]) -> None:
    frame = spark.readStream.format("zenoh").options(log=str(log), **BATCHES).load()
    writer = frame.writeStream.format("parquet").options(**options)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(root / "table"))
    query.awaitTermination()


def by_tasks(spark: SparkSession, log: Path, root: Path, format: str) -> None:
    archive = elea_spark.archive(
        spark, log=str(log), table=root / "table", format=format, options=BATCHES
    )
    archive.start(trigger="once").awaitTermination()


def without_spark(log: Path, root: Path) -> None:
    target, options = prepared(str(log), root / "table", "delta", "c", None, None)
    for _ in archive_local(target, options):
        pass


def measured(run: Callable[[Path], None], rows_count: int, root: Path) -> tuple[float, float, int]:
    """Rows per second of processor time, by the clock; octets of the table."""
    shutil.rmtree(root, ignore_errors=True)
    before_s, start_s = processor_s(), time.perf_counter()
    run(root)
    taken_s = time.perf_counter() - start_s
    used_s = processor_s() - before_s
    length = sum(
        file.stat().st_size for file in (root / "table").rglob("*.parquet") if file.is_file()
    )
    return rows_count / used_s, rows_count / taken_s, length


def maintenance(log: Path, root: Path, rows_count: int) -> None:
    """Compaction, and what a historian asks afterwards."""
    without_spark(log, root)
    table = open_table(root / "table")
    start_s, cpu_s = time.perf_counter(), time.process_time()
    done = list(compact(table))
    show(
        "compaction",
        rows_per_s=round(rows_count / (time.perf_counter() - start_s)),
        rows_per_cpu_s=round(rows_count / (time.process_time() - cpu_s)),
        files=sum(one.files_count for one in done),
        made=sum(one.made_count for one in done),
        octets_per_row=round(sum(file.octets_count for file in table.files()) / rows_count, 1),
    )
    source = TableSource(root / "table")
    middle = (EPOCH_S + rows_count // 20_000) << 32
    for key_expr, seconds in (("fleet/7/imu/pose", 2), ("fleet/7/imu/pose", 10**6), ("**", 2)):
        taken = []
        for _ in range(7):
            start_s = time.perf_counter()
            batches = source.select(key_expr, middle, middle + (seconds << 32))
            found = sum(batch.num_rows for batch in batches)
            taken.append(time.perf_counter() - start_s)
        show(
            "historian",
            key=key_expr,
            seconds=seconds,
            rows=found,
            table_rows=rows_count,
            best_ms=round(min(taken) * 1_000, 1),
        )


def compared(log: Path, out: Path, rows_count: int, args: argparse.Namespace) -> None:
    """Each way in turn, and their ratios."""
    spark = elea_spark.session("bench", master=f"local[{SHARDS},4]", java=packaged())
    ways: dict[str, Callable[[Path], None]] = {
        "spark parquet sink": lambda at: by_sink(spark, log, at, {}),
        "spark parquet sink, zstd": lambda at: by_sink(spark, log, at, {"compression": "zstd"}),
        "tasks, delta": lambda at: by_tasks(spark, log, at, "delta"),
        "tasks, iceberg": lambda at: by_tasks(spark, log, at, "iceberg"),
        "without spark, delta": lambda at: without_spark(log, at),
    }
    best: dict[str, float] = {}
    for number in range(args.repeat + 1):  # the first one warms the JVM
        for name, way in ways.items():
            per_cpu_s, per_s, length = measured(way, rows_count, out)
            if number == 0:
                continue
            best[name] = max(best.get(name, 0.0), per_cpu_s)
            show(
                name,
                payload=args.payload,
                rows=rows_count,
                rows_per_cpu_s=round(per_cpu_s),
                rows_per_s=round(per_s),
                octets_per_row=round(length / rows_count, 1),
            )
    base = best["spark parquet sink"]
    show("ratio to spark's sink", **{name: round(one / base, 2) for name, one in best.items()})
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--only", choices=("archive", "maintenance"))
    parser.add_argument("--directory", type=Path, default=None)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=args.directory))
    try:
        write_log(root / "log", args.payload, args.rows)
        rows_count = args.rows // BATCH * BATCH
        if args.only != "maintenance":
            compared(root / "log", root / "out", rows_count, args)
        shutil.rmtree(root / "out", ignore_errors=True)
        if args.only != "archive":
            maintenance(root / "log", root / "out", rows_count)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

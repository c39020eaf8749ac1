"""The durable log: appending, reading, acknowledging, asking for one key. Prints JSON lines.

`python bench/log.py --rows 1000000 --directory /var/tmp`. Ratios are of one run on one disk: the
acknowledgement is compared with an fdatasync of as many octets, in turn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from elea.store.log import index
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log, pack_log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA, TIME
from elea.store.log.segment import KEYS, stem_of
from elea.store.log.settings import LogSettings

BATCH = 8_192
DISTINCT = 8  # batches: as many as there are in one block
KEYS_COUNT = 1_000
EPOCH_S = 1_700_000_000


def payloads(length: int, count: int, seed: int) -> list[bytes]:
    """JSON as sensors publish it, filled up; too short for that: numbers."""
    rng = random.Random(seed)
    if length < 50:
        return [rng.randbytes(length) for _ in range(count)]
    found = []
    for number in range(count):
        value = {
            "t": EPOCH_S + number / 100,
            "x": round(rng.gauss(0, 10), 4),
            "y": round(rng.gauss(0, 10), 4),
            "v": round(rng.uniform(0, 3), 3),
            "state": rng.choice(["idle", "moving", "charging"]),
            "battery": round(rng.uniform(0, 100), 1),
        }
        text = json.dumps(value)
        while len(text) < length:
            text = text[:-1] + f', "p{len(text)}": {rng.gauss(0, 1):.6f}}}'
        found.append(text[:length].encode())
    return found


def batch_of(length: int, count: int = BATCH, seed: int = 1) -> pa.RecordBatch:
    """Rows of one recorder: a thousand keys, times that ascend, one publisher."""
    rng = random.Random(seed)
    stamps = [(EPOCH_S << 32) + number * 429_496 + rng.randrange(9_999) for number in range(count)]
    received = pa.array([EPOCH_S * 1_000_000 + number * 100 for number in range(count)], pa.int64())

    def texts(values: list[str]) -> pa.Array:
        return pa.array(values).dictionary_encode()

    return pa.RecordBatch.from_arrays(
        [
            texts([f"fleet/{rng.randrange(KEYS_COUNT)}/imu/pose" for _ in range(count)]),
            pa.array([0] * count, pa.int8()),
            pa.array(payloads(length, count, seed), pa.binary()),
            pa.nulls(count, pa.binary()),
            texts(["application/json"] * count),
            received.view(TIME),
            pa.array(stamps, pa.int64()),
            texts(["1f2e3d4c5b6a79880011223344556677"] * count),
            texts(["a0b1c2d3e4f5061728394a5b6c7d8e9f"] * count),
            pa.array([7] * count, pa.int64()),
            pa.array(range(count), pa.int64()),
            pa.array([5] * count, pa.int8()),
            received.view(TIME),
        ],
        schema=SCHEMA,
    )


def show(figure: str, **values: object) -> None:
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    print(json.dumps({"bench": "log", "figure": figure, **values, **machine}), flush=True)


def append_and_read(root: Path, length: int, rows_count: int, compression: str) -> None:
    """Rows per second to durable, rows per second back, octets on disk."""
    directory = root / f"{compression}-{length}"
    batches = [batch_of(length, seed=seed) for seed in range(DISTINCT)]
    batches_count = max(rows_count // BATCH, 1)
    cpu_s, started = time.process_time(), time.perf_counter()
    with Log(directory, LogSettings(compression=compression)) as log:
        futures = [log.append(batches[one % DISTINCT]) for one in range(batches_count)]
        for future in futures:
            future.result()
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    count = batches_count * BATCH
    named: dict[str, object] = {"payload": length, "compression": compression}
    show("append", **named, **_rates(count, wall_s, cpu_s), **_lengths(directory, count, length))
    _read(directory, count, named)
    if compression == "none":
        named["compression"] = "packed"
        cpu_s, started = time.process_time(), time.perf_counter()
        pack_log(RealDisk(directory, writable=True), "zstd")
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
        show("pack", **named, **_rates(count, wall_s, cpu_s), **_lengths(directory, count, length))
        _read(directory, count, named)
    shutil.rmtree(directory)


def _rates(count: int, wall_s: float, cpu_s: float) -> dict[str, object]:
    return {"rows_per_s": round(count / wall_s), "rows_per_cpu_s": round(count / cpu_s)}


def _lengths(directory: Path, count: int, length: int) -> dict[str, object]:
    octets = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return {
        "disk_len_per_row": round(octets / count, 1),
        "disk_per_payload": round(octets / count / length, 3),
    }


def _read(directory: Path, count: int, named: dict[str, object]) -> None:
    reader = LogReader(directory)
    runs = [(timed(lambda: drain(reader)), time.process_time()) for _ in range(6)]
    cpu_s = min(after - before for (_, before), (_, after) in itertools.pairwise(runs))
    show("read", **named, **_rates(count, min(wall_s for wall_s, _ in runs), cpu_s))


def slow(root: Path, rows_count: int) -> None:
    """Octets on disk where few rows come at a time: as they are written, and packed."""
    for at_once in (1, 10, 100):
        directory = root / f"slow-{at_once}"
        batch = batch_of(100, BATCH)
        count = min(rows_count, BATCH) // at_once * at_once
        with Log(directory, LogSettings()) as log:
            for first in range(0, count, at_once):
                log.store(batch.slice(first, at_once))
        named: dict[str, object] = {"payload": 100, "rows_at_once": at_once}
        show("slow", **named, compression="none", **_lengths(directory, count, 100))
        pack_log(RealDisk(directory, writable=True), "zstd")
        show("slow", **named, compression="packed", **_lengths(directory, count, 100))
        shutil.rmtree(directory)


def drain(reader: LogReader) -> None:
    """Every column of every row, as batches."""
    for batch in reader.read(0, 0):
        assert batch.num_rows


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def acknowledged(root: Path, rounds: int) -> None:
    """One row, appended and waited for, against writing and synchronising as many octets."""
    batch = batch_of(100, 1)
    raw, acks = [], []
    with Log(root / "ack") as log:
        log.append(batch).result()
        block_len = 2_100
        descriptor = os.open(root / "raw", os.O_WRONLY | os.O_CREAT, 0o644)
        octets = os.urandom(block_len)
        for turn in range(rounds):
            raw.append(timed(partial(_raw, descriptor, octets, turn)))
            acks.append(timed(lambda: log.store(batch)))
        os.close(descriptor)
    low, high = statistics.median(raw), statistics.median(acks)
    show(
        "acknowledge",
        raw_fdatasync_p50_us=round(low * 1e6),
        store_p50_us=round(high * 1e6),
        ratio=round(high / low, 2),
    )


def _raw(descriptor: int, octets: bytes, turn: int) -> None:
    os.pwrite(descriptor, octets, turn * len(octets))
    os.fdatasync(descriptor)


def latest(root: Path, keys_count: int, segments_count: int, rounds: int) -> None:
    """The latest value of one key; the lists of keys are real, only a few blocks are.

    Each segment has one real block of usual size with one row of a key that is in no other, and
    its list has all keys: as if it had three rows of each.
    """
    directory = root / "latest"
    settings = LogSettings(segment_len=1, low_water_percent=0)
    with Log(directory, settings) as log:
        for number in range(segments_count + 1):
            log.append(_one_key(number)).result()
    disk = RealDisk(directory, writable=True)
    keys = pa.array(sorted(f"fleet/{number}/imu/pose" for number in range(keys_count)))
    octets = 0
    for number in range(segments_count):
        found = pa.table(
            {
                "key": pa.concat_arrays([keys, pa.array([_own(number)])]),
                "block": pa.repeat(pa.scalar(0, pa.uint32()), keys_count + 1),
                "rows": pa.repeat(pa.scalar(3, pa.int64()), keys_count + 1),
                "time": pa.repeat(pa.scalar(number, pa.uint64()), keys_count + 1),
            }
        )
        index.write(disk, stem_of(0, number), found)
        octets += (directory / (stem_of(0, number) + KEYS)).stat().st_size
    reader = LogReader(directory)
    cold = timed(lambda: reader.latest(_own(0)))
    rng = random.Random(3)
    times = []
    for _ in range(rounds):
        key = _own(rng.randrange(segments_count))
        times.append(timed(partial(reader.latest, key)))
    oldest = statistics.median(timed(lambda: reader.latest(_own(0))) for _ in range(rounds))
    show(
        "latest",
        keys=keys_count,
        rows=3 * keys_count * segments_count,
        segments=segments_count,
        index_len_per_key=round(octets / keys_count / segments_count, 2),
        p50_ms=round(statistics.median(times) * 1e3, 2),
        p99_ms=round(sorted(times)[int(len(times) * 0.99)] * 1e3, 2),
        in_oldest_p50_ms=round(oldest * 1e3, 2),
        first_ms=round(cold * 1e3, 2),
    )


def _own(number: int) -> str:
    return f"robot/{number}/only/here"


def _one_key(number: int) -> pa.RecordBatch:
    """A block of usual size, with one row of the key among those of others."""
    batch = batch_of(100)
    keys = batch.column("key").cast(pa.string()).slice(0, BATCH - 1)
    own = pa.concat_arrays([keys, pa.array([_own(number)])]).dictionary_encode()
    return pa.RecordBatch.from_arrays([own, *batch.columns[1:]], schema=SCHEMA)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--segments", type=int, default=34)
    parser.add_argument("--directory", type=Path, default=None, help="where; the disk to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory, prefix="elea-bench-") as name:
        root = Path(name)
        for compression in ("zstd", "none"):
            for length in (8, 100, 1_000):
                rows_count = args.rows if length < 1_000 else args.rows // 5
                append_and_read(root, length, rows_count, compression)
        slow(root, 10 * args.rounds)
        acknowledged(root, args.rounds)
        latest(root, args.keys, args.segments, args.rounds)


if __name__ == "__main__":
    main()

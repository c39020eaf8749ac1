"""History of one key out of a log with the small blocks of a slow fleet. Prints JSON lines.

`python bench/history.py --minutes 10 --keys 24 --hz 10 --block-rows 16`. The log is not packed: its
blocks are those of a recorder that commits each few milliseconds, where reading block by block
costs most. `select` is the reader alone, `get` the whole query of a client over TCP on loopback.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.historian import EPOCH_S, STEP_US, ask, asked, rows

from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.timestamp import format_rfc3339


def written(directory: Path, count: int, keys_count: int, block_rows: int) -> None:
    """A log of so many rows, the keys in turns."""
    bodies = pa.array([json.dumps({"n": n, "temp": 20 + n % 7}).encode() for n in range(64)])
    with Log(directory) as log:
        for first in range(0, count, block_rows):
            size = min(block_rows, count - first)
            log.store(rows(first, size, lambda n: f"fleet/r{n % keys_count:02d}/imu", bodies))


def selected(reader: LogReader, key_expr: str) -> int:
    """How many rows a selection has."""
    return sum(batch.num_rows for batch in reader.select(key_expr, in_runs=True))


def measured(rounds: int, run: Callable[[], int]) -> dict[str, float]:
    """Seconds of some runs; the first one opens files and is told apart."""
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        count = run()
        times.append(time.perf_counter() - started)
    first, *rest = times
    return {
        "rows": count,
        "first_ms": round(first * 1e3, 1),
        "median_ms": round(statistics.median(rest) * 1e3, 1),
        "worst_ms": round(max(rest) * 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--keys", type=int, default=24)
    parser.add_argument("--hz", type=int, default=10)
    parser.add_argument("--block-rows", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    count = int(args.minutes * 60 * args.hz * args.keys)
    key = f"fleet/r{args.keys // 2:02d}/imu"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        written(directory, count, args.keys, args.block_rows)
        reader = LogReader(directory)
        shape = {"machine": platform.machine(), "log_rows": count, "block_rows": args.block_rows}
        for wanted in (key, "fleet/*/imu"):
            found = measured(args.rounds, partial(selected, reader, wanted))
            print(json.dumps({"bench": "history select", "key": wanted, **shape, **found}))
        with asked(directory) as session:
            span = f"[{format_rfc3339(EPOCH_S * 10**9)};{count * STEP_US // 1_000_000 + 1}s["
            found = measured(args.rounds, lambda: ask(session, f"{key}?_time={span}")[1])
            print(json.dumps({"bench": "history get", "key": key, **shape, **found}))


if __name__ == "__main__":
    main()

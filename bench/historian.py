"""A historian, asked by a client over TCP on loopback. Prints JSON lines.

`python bench/historian.py --rows 6000000 --keys 1000000 --directory /var/tmp`. Each time is that of
a whole query: from `get` to the end of its replies. `cpu_ms` is what both ends spent on it, for
machines that do other things at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import elea
from elea.store.historian.historian import Historian
from elea.store.historian.source import LogSource
from elea.store.log.log import Log
from elea.store.log.schema import SCHEMA, TIME
from elea.timestamp import format_rfc3339

BATCH = 8_192  # rows of a block, as a recorder writes them
EPOCH_S = 1_700_000_000
STEP_US = 100  # between two rows
RANGE_S = 2
RANGE_KEYS = 1_000
PASSES = 2  # over all keys, so that a key has more than one version


def texts(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


def rows(first: int, count: int, key_of: Callable[[int], str], bodies: pa.Array) -> pa.RecordBatch:
    """Rows of one publisher, a step apart."""
    times = [EPOCH_S * 1_000_000 + number * STEP_US for number in range(first, first + count)]
    stamps = [(one << 32) // 1_000_000 for one in times]
    clock = texts(["1f2e3d4c5b6a79880011223344556677"] * count)
    picked = pa.array([number % len(bodies) for number in range(first, first + count)])
    return pa.RecordBatch.from_arrays(
        [
            texts([key_of(number) for number in range(first, first + count)]),
            pa.array([0] * count, pa.int8()),
            bodies.take(picked),
            pa.nulls(count, pa.binary()),
            texts(["application/json"] * count),
            pa.array(times, pa.int64()).view(TIME),
            pa.array(stamps, pa.int64()),
            clock,
            clock,
            pa.array([7] * count, pa.int64()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([5] * count, pa.int8()),
            pa.array(times, pa.int64()).view(TIME),
        ],
        schema=SCHEMA,
    )


def written(directory: Path, rows_count: int, key_of: Callable[[int], str]) -> float:
    """A log of so many rows; how long it took."""
    rng = random.Random(1)
    values = [
        {"x": round(rng.gauss(0, 10), 4), "y": round(rng.gauss(0, 10), 4), "battery": n % 100}
        for n in range(8_192)
    ]
    bodies = pa.array([json.dumps(one).ljust(100).encode() for one in values], pa.binary())
    started = time.perf_counter()
    with Log(directory) as log:
        for first in range(0, rows_count, BATCH):
            log.store(rows(first, min(BATCH, rows_count - first), key_of, bodies))
    return time.perf_counter() - started


@contextmanager
def asked(directory: Path) -> Iterator[elea.Session]:
    """A client of a router whose historian has the log."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    quiet = {"scouting": {"multicast": {"enabled": False}}}
    here = {"mode": "router", "listen": {"endpoints": [endpoint]}, **quiet}
    there = {"mode": "client", "connect": {"endpoints": [endpoint]}, **quiet}
    with elea.open(here) as router, elea.open(there) as client:
        historian = Historian(router, "**", [LogSource(directory)], complete=True)
        try:
            yield client
        finally:
            historian.stop()


def ask(session: elea.Session, selector: str) -> tuple[float, int]:
    """How long a query took, and how many replies it had."""
    started = time.perf_counter()
    found = list(session.get(selector, timeout=600))
    took_s = time.perf_counter() - started
    assert all(one.ok is not None for one in found), found[-1].err
    return took_s, len(found)


def measure(
    session: elea.Session, rounds: int, selector_of: Callable[[], str], replies_count: int
) -> dict[str, float]:
    """Times of queries that have so many replies each."""
    first_s, _ = ask(session, selector_of())  # the reader opens the lists of keys
    times = []
    cpu_s = time.process_time()
    for _ in range(rounds):
        took_s, count = ask(session, selector_of())
        assert count == replies_count, (count, replies_count)
        times.append(took_s)
    return {
        "p50_ms": round(statistics.median(times) * 1e3, 2),
        "p99_ms": round(sorted(times)[int(len(times) * 0.99)] * 1e3, 2),
        "first_ms": round(first_s * 1e3, 2),
        "cpu_ms": round((time.process_time() - cpu_s) / rounds * 1e3, 2),
        "replies": replies_count,
    }


def show(figure: str, **values: object) -> None:
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    print(json.dumps({"bench": "historian", "figure": figure, **values, **machine}), flush=True)


def latest(root: Path, keys_count: int, rounds: int) -> None:
    """The last value of one key among many."""
    directory = root / "latest"
    written(directory, PASSES * keys_count, lambda number: f"fleet/{number % keys_count}/pose")
    rng = random.Random(2)
    with asked(directory) as session:
        found = measure(
            session, rounds, lambda: f"fleet/{rng.randrange(keys_count)}/pose", replies_count=1
        )
    show("latest", keys=keys_count, rows=PASSES * keys_count, **found)


def ranges(root: Path, rows_count: int, rounds: int) -> None:
    """Two seconds of one key; the state of all keys as of a time."""
    directory = root / "range"
    written(directory, rows_count, lambda number: f"fleet/{number % RANGE_KEYS}/pose")
    span_s = rows_count * STEP_US // 1_000_000
    rng = random.Random(3)

    def moment() -> str:
        return format_rfc3339((EPOCH_S + rng.randrange(1, span_s - RANGE_S)) * 1_000_000_000)

    with asked(directory) as session:
        count = RANGE_S * 1_000_000 // STEP_US // RANGE_KEYS
        found = measure(
            session,
            rounds,
            lambda: f"fleet/{rng.randrange(RANGE_KEYS)}/pose?_time=[{moment()};{RANGE_S}s[",
            replies_count=count,
        )
        show("range", rows=rows_count, keys=RANGE_KEYS, seconds=RANGE_S, **found)
        found = measure(
            session, max(rounds // 20, 1), lambda: f"fleet/**?_at={moment()}", RANGE_KEYS
        )
        show("state", rows=rows_count, keys=RANGE_KEYS, **found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--directory", type=Path, default=None, help="where; the disk to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory, prefix="elea-bench-") as name:
        latest(Path(name), args.keys, args.rounds)
        ranges(Path(name), args.rows, args.rounds)


if __name__ == "__main__":
    main()

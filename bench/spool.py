"""How fast a spool is drained: samples that waited on disk or in memory, until a recorder has them.

Samples are put while no recorder is there; then one is started in a process of its own, on the same
machine, over TCP on loopback. Timed is from the first sample that was forwarded to the last. One
JSON line for each number of keys.

`python -m bench.spool --samples 20000 --keys 1 100 20000 --length 100 --directory /var/tmp`
"""

from __future__ import annotations

import argparse
import json
import platform
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.ack import record
from bench.log import payloads
from bench.recorder import node_config

import elea
from elea import version
from elea.store.log.reader import LogReader

DEADLINE_S = 600.0


def measure(root: Path, samples: list[bytes], keys_count: int, *, on_disk: bool) -> float:
    """Samples per second."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    with elea.open(node_config(elea, listen=endpoint, connect=None)) as session:
        where = root / "spool" if on_disk else None
        spool = session.declare_spool(where, max_bytes=1 << 30)
        for number, payload in enumerate(samples):
            session.put(f"bench/{number % keys_count}", payload, ack="stored")
        recorder = subprocess.Popen(
            [sys.executable, "-m", "bench.spool", "--record", str(root / "log"), endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # that it is ready
        )
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not spool.stats().forwarded_count and time.monotonic() < deadline:
                time.sleep(0.001)
            began, first = time.perf_counter(), spool.stats().forwarded_count
            if not spool.drain(DEADLINE_S):
                raise SystemExit(f"not drained after {DEADLINE_S:g} s: {spool.stats()}")
            rate = (len(samples) - first) / (time.perf_counter() - began)
        finally:
            recorder.communicate(b"\n", timeout=60)
    reader = LogReader(root / "log")
    count = sum(batch.num_rows for batch in reader.read(0, 0))
    if count != len(samples):
        raise SystemExit(f"expected {len(samples)} rows, got {count}")
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--memory", action="store_true", help="spool in memory")
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--record", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        record(*args.record, listens=False)
        return
    for keys_count in args.keys:
        with tempfile.TemporaryDirectory(prefix="elea-spool-", dir=args.directory) as root:
            samples = payloads(args.length, args.samples, 1)
            rate = measure(Path(root), samples, keys_count, on_disk=not args.memory)
        line = {
            "figure": "spool drained",
            "samples": args.samples,
            "bytes": args.length,
            "keys": keys_count,
            "on_disk": not args.memory,
            "samples_per_s": round(rate),
            "compiled": version.COMPILED,
            "python": platform.python_version(),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

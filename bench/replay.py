"""Replay as fast as possible beside the eclipse-zenoh wheel's put loop, and logs as files.

`python bench/replay.py --rows 200000 --payload 100 --rounds 5`. Prints JSON lines. Both publish to
an Elea subscriber in another process that counts, over TCP on loopback, and wait until all were
counted; in turn, and the ratio is of the medians. The wheel's loop puts values that are in memory,
with nothing but a payload (`zenoh`), and with what a replay sends too: encoding and timestamp
(`zenoh_whole`). The replay reads them from a log on disk.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from elea.store.exchange.transfer import export_file, export_to, import_file
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.replay import Replay, ReplaySettings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.log import batch_of

BATCH = 8_192
WAIT_S = 120


def config(module: Any, **said: object) -> Any:
    made = module.Config()
    settings = {"scouting/multicast/enabled": False, "scouting/gossip/enabled": False}
    for key, value in {
        **settings,
        **{name.replace("_", "/"): one for name, one in said.items()},
    }.items():
        made.insert_json5(key, json.dumps(value))
    return made


def serve(endpoint: str) -> None:
    """The far end: counts, and says how many when it is asked."""
    import elea

    counted = 0

    def count(_: object) -> None:
        nonlocal counted
        counted += 1

    with elea.open(config(elea, mode="peer", listen_endpoints=[endpoint])) as session:
        kept = [
            session.declare_subscriber("fleet/**", count),
            session.declare_queryable(
                "bench/total", lambda query: query.reply("bench/total", str(counted))
            ),
        ]
        print("ready", flush=True)
        sys.stdin.readline()
        kept.clear()


def total(session: Any) -> int:
    [reply] = session.get("bench/total", timeout=WAIT_S)
    return int(reply.ok.payload.to_bytes())


def timed(session: Any, rows_count: int, publish: Callable[[], None]) -> float:
    """Rows per second until the far end has counted all of them."""
    before = total(session)
    start = time.perf_counter()
    publish()
    while total(session) < before + rows_count:
        if time.perf_counter() - start > WAIT_S:
            raise SystemExit("not all of them arrived")
    return rows_count / (time.perf_counter() - start)


def show(figure: str, **values: object) -> None:
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    print(json.dumps({"bench": "replay", "figure": figure, **values, **machine}), flush=True)


def compare(directory: Path, endpoint: str, rows_count: int, rounds: int, payload: int) -> None:
    import elea

    zenoh = importlib.import_module("zenoh")
    batch = batch_of(payload)
    rows = batch.to_pylist()
    values = [(one["key"], one["payload"]) for one in rows]
    with (
        elea.open(config(elea, mode="client", connect_endpoints=[endpoint])) as ours,
        zenoh.open(config(zenoh, mode="client", connect_endpoints=[endpoint])) as theirs,
    ):
        publishers = {
            key: theirs.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)
            for key in {key for key, _ in values}
        }
        stamp = theirs.new_timestamp()
        encoding = zenoh.Encoding("application/json")

        def put() -> None:
            for _ in range(rows_count // len(values)):
                for key, value in values:
                    publishers[key].put(value)

        def put_whole() -> None:
            for _ in range(rows_count // len(values)):
                for key, value in values:
                    publishers[key].put(value, encoding=encoding, timestamp=stamp)

        def replay() -> None:
            with Replay(ours, directory, ReplaySettings(speed=0)) as running:
                running.wait()

        figures: dict[str, list[float]] = {"elea": [], "zenoh": [], "zenoh_whole": []}
        for _ in range(rounds):
            figures["elea"].append(timed(ours, rows_count, replay))
            figures["zenoh"].append(timed(theirs, rows_count, put))
            figures["zenoh_whole"].append(timed(theirs, rows_count, put_whole))
        medians = {name: statistics.median(rates) for name, rates in figures.items()}
        show(
            "as_fast_as_possible",
            payload=payload,
            rows=rows_count,
            rows_per_s={name: round(rate) for name, rate in medians.items()},
            ratio=round(medians["elea"] / medians["zenoh"], 2),
            ratio_whole=round(medians["elea"] / medians["zenoh_whole"], 2),
        )


def later(batch: pa.RecordBatch, seconds: int) -> pa.RecordBatch:
    """The same rows, so many seconds later."""
    place = batch.schema.get_field_index("hlc")
    return batch.set_column(place, "hlc", pc.add(batch.column("hlc"), seconds << 32))


def files(directory: Path, root: Path, rows_count: int) -> None:
    """Rows per second to and from files, octets per row."""
    for format in ("parquet", "jsonl", "mcap"):
        file = root / f"a.{format}"
        start = time.perf_counter()
        export_file(LogReader(directory), file, format)
        middle = time.perf_counter()
        import_file(file, root / format, format)
        show(
            "files",
            format=format,
            export_rows_per_s=round(rows_count / (middle - start)),
            import_rows_per_s=round(rows_count / (time.perf_counter() - middle)),
            len_per_row=round(file.stat().st_size / rows_count, 1),
        )
    start = time.perf_counter()
    export_to(LogReader(directory), io.BytesIO(), "csv")
    show("files", format="csv", export_rows_per_s=round(rows_count / (time.perf_counter() - start)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--serve", metavar="ENDPOINT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    batches_count = max(args.rows // BATCH, 1)
    rows_count = batches_count * BATCH
    with tempfile.TemporaryDirectory(dir=args.directory) as name:
        root = Path(name)
        with Log(root / "log") as log:
            batch = batch_of(args.payload)
            for future in [log.append(later(batch, number)) for number in range(batches_count)]:
                future.result()
        command = [sys.executable, __file__, "--serve", endpoint]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as far:
            assert far.stdout is not None
            assert far.stdin is not None
            far.stdout.readline()
            try:
                compare(root / "log", endpoint, rows_count, args.rounds, args.payload)
            finally:
                far.stdin.close()
        files(root / "log", root, rows_count)


if __name__ == "__main__":
    main()

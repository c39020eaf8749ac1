"""From the network to the disk: the recorder beside the wheel's callback that fills a list.

The same publisher, in a process of its own, sends so many samples over TCP on loopback to each in
turn: to the recorder, until all rows are durable, and to a subscriber of eclipse-zenoh that appends
samples to a list in memory and never touches a disk. Rows per second of processor time of the
receiving process, and by the clock; JSON lines, and the ratio of the medians.

`python bench/recorder.py --rounds 5 --lengths 8,100,1000 --publisher elea --directory /var/tmp`
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.log import payloads

from elea import version

RECEIVERS = ("elea", "zenoh")
KEYS_COUNT = 16
KEY = "bench/{}/pose"
POLL_S = 0.005
PATIENCE_S = 120.0


def node_config(zenoh: Any, *, listen: str | None, connect: str | None) -> Any:
    config = zenoh.Config()
    for key, value in {
        "mode": "peer",
        "listen/endpoints": [listen] if listen else [],
        "connect/endpoints": [connect] if connect else [],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": False,
    }.items():
        config.insert_json5(key, json.dumps(value))
    return config


def receive(
    implementation: str, endpoint: str, count: int, directory: str, compression: str
) -> None:
    """Take `count` samples, and print what that cost."""
    zenoh = importlib.import_module(implementation)
    session = zenoh.open(node_config(zenoh, listen=endpoint, connect=None))
    samples: list[Any] = []
    if implementation == "elea":
        from elea.store.log.settings import LogSettings
        from elea.store.recorder.recorder import Recorder
        from elea.store.recorder.settings import RecordingSettings

        settings = RecordingSettings(
            key_exprs=("bench/**",),
            name="bench",
            directory=Path(directory),
            log=LogSettings(low_water_percent=0, compression=compression),
        )
        recorder = Recorder(session, [settings])
        counts = recorder.recordings[0].books()[0].counts

        def received() -> int:
            return counts.rows

        def end() -> None:
            recorder.stop()
    else:
        subscriber = session.declare_subscriber("bench/**", samples.append)

        def received() -> int:
            return len(samples)

        def end() -> None:
            subscriber.undeclare()

    print("ready", flush=True)
    sys.stdin.readline()  # the publisher is about to begin
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    deadline_s = start_s + PATIENCE_S
    while received() < count and time.perf_counter() < deadline_s:
        time.sleep(POLL_S)
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    print(json.dumps({"rows": received(), "wall_s": wall_s, "cpu_s": cpu_s}), flush=True)
    sys.stdin.readline()
    end()
    session.close()


def publish(implementation: str, endpoint: str, count: int, length: int) -> None:
    """Send `count` samples, when told to."""
    zenoh = importlib.import_module(implementation)
    session = zenoh.open(node_config(zenoh, listen=None, connect=endpoint))
    block = zenoh.CongestionControl.BLOCK
    publishers = [
        session.declare_publisher(KEY.format(number), congestion_control=block)
        for number in range(KEYS_COUNT)
    ]
    while not all(one.matching_status.matching for one in publishers):
        time.sleep(POLL_S)
    some = payloads(length, 8_192, 1)
    print("ready", flush=True)
    sys.stdin.readline()
    puts = [one.put for one in publishers]
    for number in range(count):
        puts[number % KEYS_COUNT](some[number & 8_191])
    print("sent", flush=True)
    sys.stdin.readline()
    session.close()


def child(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.recorder", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        process.kill()
        raise SystemExit(f"{arguments} did not start")
    return process


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def measure(
    receiver: str, publisher: str, count: int, length: int, root: str, compression: str
) -> dict[str, float]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    directory = tempfile.mkdtemp(prefix="elea-recorder-", dir=root)
    ends: list[subprocess.Popen[str]] = []
    try:
        ends.append(child("receive", receiver, endpoint, str(count), directory, compression))
        ends.append(child("publish", publisher, endpoint, str(count), str(length)))
        for one in ends:
            tell(one)
        assert ends[0].stdout is not None
        told: dict[str, float] = json.loads(ends[0].stdout.readline())
        if told["rows"] != count:
            raise SystemExit(f"{receiver} received {told['rows']} of {count}")
        for one in ends:
            tell(one)
            one.wait(30)
        return told
    finally:
        for one in ends:
            one.kill()
            one.wait()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--lengths", default="8,100,1000")
    parser.add_argument("--publisher", choices=RECEIVERS, default="elea")
    parser.add_argument("--compression", choices=("zstd", "lz4", "none"), default="none")
    parser.add_argument("--directory", default=tempfile.gettempdir())
    args = parser.parse_args()
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    for length in map(int, args.lengths.split(",")):
        found: dict[str, list[dict[str, float]]] = {one: [] for one in RECEIVERS}
        for turn in range(args.rounds):
            for one in RECEIVERS if turn % 2 else reversed(RECEIVERS):
                found[one].append(
                    measure(
                        one, args.publisher, args.rows, length, args.directory, args.compression
                    )
                )
        rates = {
            (one, what): statistics.median(args.rows / told[f"{what}_s"] for told in found[one])
            for one in RECEIVERS
            for what in ("cpu", "wall")
        }
        line = {
            "figure": f"network to durable log, {length} octets",
            **{f"{one}_rows_per_{what}_s": round(rate) for (one, what), rate in rates.items()},
            "ratio_cpu": round(rates["elea", "cpu"] / rates["zenoh", "cpu"], 2),
            "ratio_wall": round(rates["elea", "wall"] / rates["zenoh", "wall"], 2),
            "publisher": args.publisher,
            "compression": args.compression,
            "rows": args.rows,
            "rounds": args.rounds,
            "compiled": version.COMPILED,
            **machine,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["receive"]:
        receive(sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:7])
    elif sys.argv[1:2] == ["publish"]:
        publish(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()

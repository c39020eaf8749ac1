"""An acknowledged put beside a synchronisation of the same disk, in turn.

A recorder in a process of its own; a client that puts one sample after the other over TCP on
loopback and waits for each acknowledgement. In between, the same number of octets is written to a
file on the same disk and synchronised; and a process without Elea is sent them by a plain socket,
writes a block's length, synchronises and answers, which is the least that an acknowledgement from
another process can take (`floor`). Medians, and their ratio, as a JSON line; `--threads` puts at
once, which share synchronisations.

`python bench/ack.py --puts 500 --length 100 --directory /var/tmp`
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.log import payloads
from bench.recorder import node_config

import elea
from elea import version
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

KEY = "bench/pose"
BLOCK_LEN = 2_100  # of a block of one row


def record(directory: str, endpoint: str, *, listens: bool = True) -> None:
    """Record until told to end; it listens there, or connects."""
    listen, connect = (endpoint, None) if listens else (None, endpoint)
    session = elea.open(node_config(elea, listen=listen, connect=connect))
    settings = RecordingSettings(
        key_exprs=("bench/**",),
        name="bench",
        directory=Path(directory),
        log=LogSettings(low_water_percent=0),
    )
    with Recorder(session, [settings]):
        print("ready", flush=True)
        sys.stdin.readline()
    session.close()


def echo(path: str, port: str) -> None:
    """Synchronise what comes, and say so, until nothing comes any more."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with socket.create_connection(("127.0.0.1", int(port))) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while octets := link.recv(65_536):
            os.write(file, octets.ljust(BLOCK_LEN))
            os.fdatasync(file)
            link.send(b"ok")


def told(link: socket.socket, payload: bytes) -> float:
    began = time.perf_counter()
    link.send(payload)
    link.recv(2)
    return time.perf_counter() - began


def child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.ack", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def put(session: elea.Session, payload: bytes) -> float:
    began = time.perf_counter()
    session.put(KEY, payload, ack="stored")
    return time.perf_counter() - began


def synced(file: int, payload: bytes) -> float:
    began = time.perf_counter()
    os.write(file, payload)
    os.fdatasync(file)
    return time.perf_counter() - began


def at_once(session: elea.Session, some: list[bytes], threads_count: int) -> float:
    """Puts per second of so many threads."""
    parts = [some[number::threads_count] for number in range(threads_count)]
    threads = [
        threading.Thread(target=lambda part=part: [put(session, one) for one in part])
        for part in parts
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(some) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puts", type=int, default=500)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--record", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--echo", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        record(*args.record)
        return
    if args.echo:
        echo(*args.echo)
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    some = payloads(args.length, args.puts, 1)
    with (
        tempfile.TemporaryDirectory(prefix="elea-ack-", dir=args.directory) as root,
        socket.create_server(("127.0.0.1", 0)) as door,
    ):
        recorder = child("--record", f"{root}/log", endpoint)
        echoing = child("--echo", f"{root}/echo", str(door.getsockname()[1]))
        link, _ = door.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert recorder.stdout is not None
        recorder.stdout.readline()
        file = os.open(f"{root}/raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with elea.open(node_config(elea, listen=None, connect=endpoint)) as session, link:
            for one in some[:50]:
                put(session, one)
            times = [(put(session, one), synced(file, one), told(link, one)) for one in some]
            rate = at_once(session, some * 4, args.threads)
        os.close(file)
        recorder.communicate("\n", timeout=30)
        echoing.communicate(timeout=30)
    puts, syncs, floors = (sorted(some) for some in zip(*times, strict=True))
    line = {
        "figure": f"acknowledged put, {args.length} octets",
        "put_p50_us": round(statistics.median(puts) * 1e6),
        "put_p99_us": round(puts[len(puts) * 99 // 100] * 1e6),
        "fdatasync_p50_us": round(statistics.median(syncs) * 1e6),
        "floor_p50_us": round(statistics.median(floors) * 1e6),
        "ratio": round(statistics.median(puts) / statistics.median(syncs), 2),
        "floor_ratio": round(statistics.median(floors) / statistics.median(syncs), 2),
        "puts_per_s_at_once": round(rate),
        "threads": args.threads,
        "compiled": version.COMPILED,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

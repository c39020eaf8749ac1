"""Elea's sessions beside the eclipse-zenoh wheel: both ends Python, TCP on loopback, one run.

Each round measures one implementation, then the other; the result is the ratio of the medians.
Prints JSON lines. `python bench/session.py --rounds 5 --figures latency,throughput_8`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

SECONDS = 2.0
PATIENCE = 2.0  # with what was sent and does not arrive
ROWS = 8_192
WARM_UP = 500
IMPLEMENTATIONS = ("elea", "zenoh")


def node_config(zenoh: ModuleType, *, listen: str | None, connect: str | None) -> Any:
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


# The far end: a process that answers pings, counts samples and answers queries.


def serve(implementation: str, port: int) -> None:
    zenoh = importlib.import_module(implementation)
    session = zenoh.open(node_config(zenoh, listen=f"tcp/127.0.0.1:{port}", connect=None))
    pong = session.declare_publisher("bench/pong", express=True)
    counted = 0
    octets = 0
    keys: list[str] = []
    payloads: list[bytes] = []

    def count(sample: Any) -> None:
        nonlocal counted, octets
        counted += 1

    def weigh(sample: Any) -> None:
        nonlocal counted, octets
        counted += 1
        octets += len(sample.payload)

    def gather(sample: Any) -> None:
        """What a program without Arrow delivery does: columns, value by value."""
        nonlocal counted
        keys.append(str(sample.key_expr))
        payloads.append(sample.payload.to_bytes())
        counted += 1
        if len(keys) >= ROWS:
            keys.clear()
            payloads.clear()

    def count_rows(batches: Any) -> None:
        nonlocal counted
        for batch in batches:
            counted += batch.num_rows

    entities = [
        session.declare_subscriber("bench/ping", lambda sample: pong.put(sample.payload)),
        session.declare_subscriber("bench/count", count),
        session.declare_subscriber("bench/weigh", weigh),
        session.declare_queryable(
            "bench/query", lambda query: query.reply("bench/query", b"12345678")
        ),
        session.declare_queryable(
            "bench/total", lambda query: query.reply("bench/total", str(counted).encode())
        ),
    ]
    if implementation == "elea":
        handlers = importlib.import_module("elea.handlers")
        columns = session.declare_subscriber("bench/rows", handlers.ArrowBatches(rows=ROWS, ms=50))
        threading.Thread(target=count_rows, args=(columns.handler,), daemon=True).start()
        entities.append(columns)
    else:
        entities.append(session.declare_subscriber("bench/rows", gather))
    print("ready", flush=True)
    sys.stdin.readline()  # until the parent is done
    del entities
    session.close()


# The near end: one figure each, as a rate or a time.


def latency(zenoh: ModuleType, session: Any) -> float:
    """Round trip of 64 octets, express: median in microseconds."""
    answers = session.declare_subscriber("bench/pong")
    ping = session.declare_publisher("bench/ping", express=True)
    wait_for_match(ping)
    payload = bytes(64)
    times: list[float] = []
    for number in range(WARM_UP + 3_000):
        start = time.perf_counter()
        ping.put(payload)
        answers.recv()
        if number >= WARM_UP:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def throughput(length: int, key: str) -> Callable[[ModuleType, Any], float]:
    """Messages per second that arrive at a callback."""

    def measure(zenoh: ModuleType, session: Any) -> float:
        publisher = session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)
        wait_for_match(publisher)
        payload = bytes(length)
        repeat = max(1, min(1_000, 1_000_000 // (length + 1)))
        put = publisher.put
        many = [payload] * repeat
        before = total(session)
        sent = 0
        start = time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            if key == "bench/rows":
                publisher.put_many(many)
            else:
                for _ in range(repeat):
                    put(payload)
            sent += repeat
        return arrivals(session, before, sent, start)

    return measure


def arrivals(session: Any, before: int, sent: int, start: float) -> float:
    """The rate at which what was sent has arrived; what never comes is not waited for."""
    arrived, changed = 0, time.perf_counter()
    while arrived < sent and time.perf_counter() - changed < PATIENCE:
        now_arrived = total(session) - before
        if now_arrived > arrived:
            arrived, changed = now_arrived, time.perf_counter()
    return arrived / (changed - start)


def queries(zenoh: ModuleType, session: Any) -> float:
    """Queries per second, 32 in flight."""
    done: queue.SimpleQueue[None] = queue.SimpleQueue()
    finished = 0
    start = time.perf_counter()

    class Reply:
        """Callback with an end, as zenoh-python's handlers have."""

        def __call__(self, reply: Any) -> None:
            done.put(None)

    for _ in range(32):
        session.get("bench/query", Reply())
    while time.perf_counter() - start < SECONDS:
        done.get(timeout=10)
        finished += 1
        session.get("bench/query", Reply())
    return finished / (time.perf_counter() - start)


FIGURES: dict[str, tuple[str, Callable[[ModuleType, Any], float]]] = {
    "latency": ("round trip, 64 B, express, p50 us", latency),
    "throughput_8": ("8 B to a callback, messages/s", throughput(8, "bench/count")),
    "throughput_1k": ("1 kB to a callback, messages/s", throughput(1_000, "bench/weigh")),
    "throughput_1m": ("1 MB to a callback, messages/s", throughput(1_000_000, "bench/weigh")),
    "arrow_8": ("8 B to record batches, or to lists, rows/s", throughput(8, "bench/rows")),
    "queries": ("queries/s, 32 in flight", queries),
}


def total(session: Any) -> int:
    """What the far end has counted; asking drains what was sent before."""
    for reply in session.get("bench/total", timeout=30):
        return int(bytes(reply.ok.payload))
    raise RuntimeError("the far end does not answer")


def wait_for_match(publisher: Any) -> None:
    deadline = time.monotonic() + 10
    while not publisher.matching_status.matching:
        if time.monotonic() > deadline:
            raise RuntimeError("no subscriber was found")
        threading.Event().wait(0.01)


def free_port() -> int:
    while True:  # below those that systems give to whoever connects
        port = 12_000 + int.from_bytes(os.urandom(4)) % 20_000
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def measure(implementation: str, figure: str) -> float:
    """One figure of one implementation, in two fresh processes."""
    port = free_port()
    command = [sys.executable, __file__, "--implementation", implementation, "--port", str(port)]
    far = subprocess.Popen(
        [*command, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert far.stdout is not None
        far.stdout.readline()
        if figure == "arrow_8":  # it measures who receives: the fastest sender is the same
            command[3] = "elea"
        near = subprocess.run(
            [*command, "--figure", figure], capture_output=True, text=True, timeout=120, check=False
        )
        if near.returncode:
            raise RuntimeError(near.stderr)
        return float(near.stdout)
    finally:
        far.communicate("\n", timeout=30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--figures", default=",".join(FIGURES))
    parser.add_argument("--implementation", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--figure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.implementation, args.port)
        return 0
    if args.figure:
        zenoh = importlib.import_module(args.implementation)
        address = f"tcp/127.0.0.1:{args.port}"
        session = zenoh.open(node_config(zenoh, listen=None, connect=address))
        print(FIGURES[args.figure][1](zenoh, session))
        session.close()
        return 0
    for figure in args.figures.split(","):
        values: dict[str, list[float]] = {name: [] for name in IMPLEMENTATIONS}
        for number in range(args.rounds):
            for name in IMPLEMENTATIONS:
                print(f"{figure}: round {number + 1}, {name}", file=sys.stderr)
                values[name].append(measure(name, figure))
        medians = {name: statistics.median(values[name]) for name in IMPLEMENTATIONS}
        print(
            json.dumps(
                {
                    "bench": "session",
                    "figure": figure,
                    "what": FIGURES[figure][0],
                    **{name: round(median, 1) for name, median in medians.items()},
                    "ratio": round(medians["elea"] / medians["zenoh"], 2),
                    "rounds": args.rounds,
                    "python": platform.python_version(),
                    "cores": os.cpu_count(),
                }
            ),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Sessions with subscribers come and go under traffic: no thread and no descriptor is left."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, start, until

import elea

THREAT: Final = "sessions that come and go"
RSS_GROWTH: Final = 32 * MIB
SIZES: Final = {"small": 60, "full": 3_000}  # sessions
_KEY: Final = "sessions/churn"


def attack(target: Target, size: int) -> list[Check]:
    settings = json.dumps(target.client_settings())
    process = start([sys.executable, "-m", "attack.sessions", str(size), settings])
    try:
        output, _ = process.communicate(timeout=2 * PATIENCE_S + size / 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [Check("never_ended", 1, 0)]
    left = json.loads(output or '{"threads": -1, "descriptors": -1}')
    print(left, file=sys.stderr)
    return [
        Check("failed", float(left["threads"] < 0), 0),
        Check("threads_left", left["threads"], 0),
        Check("descriptors_left", left["descriptors"], 0),
    ]


def threads() -> list[str]:
    """The threads of sessions in this process."""
    return [one.name for one in threading.enumerate() if one.name.startswith("elea")]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def come_and_go(settings: dict[str, object], size: int) -> None:
    """Open sessions while others publish to them, and close them in the middle of it."""
    stop = threading.Event()

    def publish() -> None:
        with elea.open(settings) as session, session.declare_publisher(_KEY) as publisher:
            while not stop.is_set():
                publisher.put("x")
                stop.wait(0.0005)

    publishers = [threading.Thread(target=publish) for _ in range(2)]
    for publisher in publishers:
        publisher.start()
    try:
        for number in range(size):
            session = elea.open(settings)
            session.declare_subscriber(_KEY, lambda _sample: None)
            session.put(_KEY, "1")
            if number % 2:
                session.get(_KEY, lambda _reply: None)
            session.close()
    finally:
        stop.set()
        for publisher in publishers:
            publisher.join()


def main() -> None:
    size, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    elea.open(settings).close()  # what is opened once for the process is open now
    before = descriptors()
    come_and_go(settings, size)
    gc.collect()
    until(lambda: not threads() and descriptors() <= before)
    print(json.dumps({"threads": len(threads()), "descriptors": descriptors() - before}))


if __name__ == "__main__":
    main()

"""Sessions with subscribers come and go under traffic: no thread and no descriptor is left.

And one session asks again and again with an hour of patience: the timers of answered questions go.
"""

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
_QUESTIONS: Final = 20  # for each session that comes and goes
_TIMERS: Final = 256  # that may wait to be swept


def attack(target: Target, size: int) -> list[Check]:
    settings = json.dumps(target.client_settings())
    process = start([sys.executable, "-m", "attack.sessions", str(size), settings])
    try:
        output, _ = process.communicate(timeout=2 * PATIENCE_S + size / 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [Check("never_ended", 1, 0)]
    left = json.loads(output or '{"threads": -1, "descriptors": -1, "timers": -1}')
    print(left, file=sys.stderr)
    return [
        Check("failed", float(left["threads"] < 0), 0),
        Check("threads_left", left["threads"], 0),
        Check("descriptors_left", left["descriptors"], 0),
        Check("timers_left", left["timers"], _TIMERS),
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


def ask_on(settings: dict[str, object], size: int) -> int:
    """How many timers a session has after so many questions that were answered at once."""
    with elea.open(settings) as session:
        for _ in range(size * _QUESTIONS):
            list(session.get("sessions/nobody", timeout=3_600))
        return len(session._context.core.face._timers._heap)


def main() -> None:
    size, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    elea.open(settings).close()  # what is opened once for the process is open now
    before = descriptors()
    come_and_go(settings, size)
    timers = ask_on(settings, size)
    gc.collect()
    until(lambda: not threads() and descriptors() <= before)
    left = {"threads": len(threads()), "descriptors": descriptors() - before, "timers": timers}
    print(json.dumps(left))


if __name__ == "__main__":
    main()

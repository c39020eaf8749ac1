"""Decoding and encoding a PUSH with a PUT of eight octets, compiled and interpreted.

    python bench/codec.py            a minute or so, JSON lines
    python bench/codec.py --quick    fewer rounds, for a look

Two workers, one per build, take turns on each case, round by round, so that a busy machine slows
both; the best round of each counts. A line holds nanoseconds per message of both builds, their
ratio, and the bars with `holds`. Without compiled modules `compiled` is false, and `compiled_ns`
and `ratio` are null.

`one` is a message by itself, as `decode_one` and `encode_one` see it; `batch` is one of a thousand
in a FRAME, through `BatchDecoder` and one `Writer`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from elea.version import COMPILED
from elea.wire.buffer import Writer
from elea.wire.codec import BatchDecoder, decode_one, encode, encode_one
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.push import Push
from elea.wire.transport.frame import Frame

PAYLOAD: Final = b"8 octets"
TEXT_KEY: Final = "fleet/r17/imu/pose"
BATCH_COUNT: Final = 1_000
ROUND_COUNT: Final = 2_000  # messages per round: short, so that one round fits between disturbances

MESSAGES: Final = {
    "alias key": Push(WireExpr(7), Put(PAYLOAD)),
    "text key": Push(WireExpr(0, TEXT_KEY), Put(PAYLOAD)),
    "alias key, QoS, timestamp": Push(
        WireExpr(7), Put(PAYLOAD, Stamp(7_708_474_911_632_872_624, bytes(range(1, 17)))), 0x19
    ),
}
BARS_NS: Final = {"decode": 350, "encode": 300}
RATIO_BAR: Final = 5
BAR_CASE: Final = "alias key"  # the bars are stated for the plain message


def make_cases() -> dict[str, Callable[[], int]]:
    """Each runs for a round and says how many messages it handled."""
    cases: dict[str, Callable[[], int]] = {}
    for name, message in MESSAGES.items():
        octets = encode_one(message)
        batch = encode_one(Frame(1)) + octets * BATCH_COUNT
        if decode_one(octets) != message:
            raise AssertionError("what is measured does not work")
        cases[f"{name}/decode/one"] = partial(decode_singly, octets)
        cases[f"{name}/encode/one"] = partial(encode_singly, message)
        cases[f"{name}/decode/batch"] = partial(decode_whole, batch)
        cases[f"{name}/encode/batch"] = partial(encode_whole, message)
    return cases


def decode_singly(octets: bytes) -> int:
    for _ in range(ROUND_COUNT):
        decode_one(octets)
    return ROUND_COUNT


def encode_singly(message: Push) -> int:
    for _ in range(ROUND_COUNT):
        encode_one(message)
    return ROUND_COUNT


def decode_whole(batch: bytes) -> int:
    step = BatchDecoder(batch).next
    while step() is not None:
        pass
    return BATCH_COUNT


def encode_whole(message: Push) -> int:
    writer = Writer()
    encode(writer, Frame(1))
    for _ in range(BATCH_COUNT):
        encode(writer, message)
    writer.to_bytes()
    return BATCH_COUNT


def work() -> None:
    """Answer each case named on stdin with the nanoseconds per message of one round."""
    cases = make_cases()
    gc.disable()
    for line in sys.stdin:
        case = cases[line.rstrip("\n")]
        started = time.perf_counter_ns()
        count = case()
        print((time.perf_counter_ns() - started) / count, flush=True)


class Worker:
    """This program again, in one build, waiting for rounds to run."""

    def __init__(self, *, pure: bool) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env={**os.environ, "ELEA_PURE": "1" if pure else "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self, case: str) -> float:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(case + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise SystemExit("a worker ended early; its error is above")
        return float(answer)

    def close(self) -> None:
        self.process.communicate()


def measure(rounds: int) -> None:
    """Print one line per case."""
    interpreted = Worker(pure=True)
    compiled = Worker(pure=False) if COMPILED else None
    machine = describe_machine()
    try:
        for name in make_cases():
            message, operation, way = name.split("/")
            slow = fast = float("inf")
            for _ in range(rounds):
                slow = min(slow, interpreted.round(name))
                if compiled is not None:
                    fast = min(fast, compiled.round(name))
            result: dict[str, object] = {
                "bench": "codec",
                "message": message,
                "operation": operation,
                "way": way,
                "compiled": COMPILED,
                "compiled_ns": round(fast) if COMPILED else None,
                "interpreted_ns": round(slow),
                "ratio": round(slow / fast, 1) if COMPILED else None,
            }
            if message == BAR_CASE:
                bar_ns = BARS_NS[operation]
                result |= {"bar_ns": bar_ns, "bar_ratio": RATIO_BAR}
                result["holds"] = COMPILED and fast <= bar_ns and slow / fast >= RATIO_BAR
            print(json.dumps(result | machine), flush=True)
    finally:
        for worker in (interpreted, compiled):
            if worker is not None:
                worker.close()


def describe_machine() -> dict[str, object]:
    """Where and what was measured."""
    git = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "commit": git.stdout.strip() or None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
    else:
        measure(rounds=30 if args.quick else 300)
    return 0


if __name__ == "__main__":
    sys.exit(main())

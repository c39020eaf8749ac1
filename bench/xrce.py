"""Decoding and encoding StreamData of XRCE, in the build at hand; and whether both codecs agree.

    python bench/xrce.py             some seconds, JSON lines
    python bench/xrce.py --quick     fewer rounds, for a look
    python bench/xrce.py --agree     100 000 random and 100 000 mutated messages through the
                                     generated codec and the interpreter of the schema, half a
                                     minute compiled

A line holds messages per second of the best round; the bar is a million StreamData decoded per
second on one core, by the compiled codec. `octets` is what the protocol adds to a payload.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script: find `tests`

from tests.xrce_codecs import EXAMPLES, INTERPRETER, generated_outcome, interpreted_outcome, octets
from tests.xrce_random import MessageMaker, mutate

from elea.version import COMPILED
from elea.xrce.buffer import Reader
from elea.xrce.decode import read_message
from elea.xrce.encode import encode
from elea.xrce.message_records import StreamData
from elea.xrce.schema.load import schema

BAR_PER_S: Final = 1_000_000
BATCH_COUNT: Final = 1_000
AGREE_COUNT: Final = 100_000
SAMPLES: Final = {
    "2 octets": StreamData(reliable=True, sync=False, sn=100, id=2, payload=b"on"),
    "8 octets": StreamData(reliable=True, sync=False, sn=8_000, id=300, payload=b"8 octets"),
    "1 KiB": StreamData(reliable=True, sync=False, sn=8_000, id=300, payload=bytes(1_024)),
}


def decode_batch(batch: bytes) -> None:
    reader = Reader(batch)
    while not reader.at_end():
        read_message(reader)


def encode_batch(sample: StreamData) -> None:
    for _ in range(BATCH_COUNT):
        encode(sample)


def best_per_s(work: Callable[[], None], rounds: int) -> int:
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter_ns()
        work()
        best = min(best, time.perf_counter_ns() - started)
    return round(BATCH_COUNT * 1e9 / best)


def measure(rounds: int) -> None:
    for name, sample in SAMPLES.items():
        one = encode(sample)
        if read_message(Reader(one)) != sample:
            raise AssertionError("what is measured does not work")
        batch = one * BATCH_COUNT
        decoded = best_per_s(partial(decode_batch, batch), rounds)
        encoded = best_per_s(partial(encode_batch, sample), rounds)
        result = {
            "bench": "xrce",
            "payload": name,
            "compiled": COMPILED,
            "decode_per_s": decoded,
            "encode_per_s": encoded,
            "octets": len(one) - len(sample.payload),
            "bar_per_s": BAR_PER_S,
            "holds": COMPILED and decoded >= BAR_PER_S,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        }
        print(json.dumps(result), flush=True)


def agree() -> None:
    maker = MessageMaker(schema(), seed=1)
    rng = random.Random(2)
    seeds = [octets(example) for example in EXAMPLES]
    outcomes: dict[str, int] = {}
    for number in range(2 * AGREE_COUNT):
        data = INTERPRETER.encode(maker.message())
        if number >= AGREE_COUNT:
            data = mutate(rng.choice(seeds) if number % 2 else data, rng)
        outcome = generated_outcome(data)
        if outcome != interpreted_outcome(data):
            raise SystemExit(f"the codecs disagree on {data.hex(' ')}")
        outcomes[outcome[0]] = outcomes.get(outcome[0], 0) + 1
    result = {"bench": "xrce agree", "random": AGREE_COUNT, "mutated": AGREE_COUNT, **outcomes}
    print(json.dumps(result), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--agree", action="store_true", help="compare the codecs instead")
    args = parser.parse_args()
    if args.agree:
        agree()
    else:
        measure(rounds=30 if args.quick else 300)
    return 0


if __name__ == "__main__":
    sys.exit(main())

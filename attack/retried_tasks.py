"""Tasks of Spark that are tried again: each sends all of its rows once more, in another order."""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pyarrow as pa
from attack.harness import MIB, Check, Target
from attack.users import services

from elea.errors import EleaError
from elea.spark.options import Options, Sink
from elea.spark.sessions import close_all
from elea.spark.sink import send
from elea.store.log.reader import LogReader

THREAT: Final = "retried tasks"
RSS_GROWTH: Final = 128 * MIB
SIZES: Final = {"small": 2_000, "full": 40_000}  # rows of a task
SERVICES: Final = services
_BATCH: Final = 500
_KEYS: Final = 300  # each row that may be known is sought among those of its key
_ATTEMPTS: Final = 3
_MARKS: Final = 20  # keys with a last sample, so that all shards have one
_TIME_NS: Final = 1_700_000_000_000_000_000  # of rows that have none: the same in every attempt


def attack(target: Target, size: int) -> list[Check]:
    """Send the rows of two tasks again and again; the second attempt sends half of them."""
    refused = 0
    expected: set[bytes] = set()
    for ack in ("stored", "router"):
        sink = Options({"connect": target.endpoint, "ack": ack}).sink()
        rows = [(f"fleet/{number % _KEYS}", f"{ack} {number}".encode()) for number in range(size)]
        expected |= {payload for _, payload in rows}
        for attempt in range(_ATTEMPTS):
            random.Random(attempt).shuffle(rows)
            refused += not _sends(sink, rows[: size // 2] if attempt == 1 else rows, ack)
    close_all()
    with target.session() as session:  # what came before is recorded then
        for number in range(_MARKS):
            session.put(f"fleet/{number}", "", ack="stored")
    found = _recorded(target, expected)
    return [
        Check("attempts_refused", refused, 0),
        Check("rows_missing", len(expected - found.keys()), 0),
        Check("rows_twice", sum(count > 1 for count in found.values()), 0),
    ]


def _sends(sink: Sink, rows: list[tuple[str, bytes]], origin: str) -> bool:
    """Send rows as an attempt of a task does; whether it said that it did."""
    batches = (
        pa.RecordBatch.from_pydict(
            {
                "key": [key for key, _ in rows[first : first + _BATCH]],
                "payload": [payload for _, payload in rows[first : first + _BATCH]],
            }
        )
        for first in range(0, len(rows), _BATCH)
    )
    try:
        send(sink, batches, origin, 0, at_ns=_TIME_NS)
    except EleaError:
        return False
    return True


def _recorded(target: Target, payloads: set[bytes]) -> Counter[bytes]:
    """How often each of some payloads is in the log."""
    reader = LogReader(target.folder / "logs" / "all")
    return Counter(
        payload
        for shard in range(reader.shards_count)
        for batch in reader.read(shard, 0)
        for payload in batch.column("payload").to_pylist()
        if payload in payloads
    )

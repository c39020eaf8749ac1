"""Logs to read, and the options to read them with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.unit.store.log.rows import rows

from elea.spark.options import Options
from elea.spark.stream import StreamReader
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings


def log_at(directory: Path, shards_count: int = 2, segment_len: int = 1 << 20) -> Log:
    """A new log; small segments make trimming visible."""
    settings = LogSettings(shards_count=shards_count, segment_len=segment_len, low_water_percent=0)
    return Log(directory, settings)


def fill(log: Log, first: int, count: int, step: int = 50) -> None:
    """Rows `first` and following, in several blocks, of eight keys."""
    for start in range(first, first + count, step):
        log.store(rows(start, min(step, first + count - start), 8))


def fill_long(log: Log, count: int = 8_000) -> None:
    """Rows of 8 000 octets: more than sockets and Flight hold back."""
    for start in range(0, count, 1_000):
        batch = rows(start, 1_000)
        place = batch.schema.names.index("payload")
        payloads = pa.array([bytes(8_000)] * 1_000, pa.binary())
        log.store(batch.set_column(place, batch.schema.field(place), payloads))


def stream(directory: Path, **options: str) -> StreamReader:
    return StreamReader(Options({"log": str(directory), **options}).stream())


def all_rows(log: Log) -> list[tuple[int, int]]:
    return [(shard, seq) for shard, end in enumerate(log.ends()) for seq in range(end)]

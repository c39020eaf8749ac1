"""Logs to read, and the options to read them with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.unit.store.log.rows import rows, stamp

from elea.spark.options import Options, Source
from elea.spark.places import Place
from elea.spark.stream import StreamReader
from elea.store.log.log import Log
from elea.store.log.ranges import COLUMNS
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


# What may be asked of a range beside its bounds; however it is read, the rows are the same.
WISHES: list[dict[str, object]] = [
    {},
    {"columns": ("seq",)},
    {"columns": ("payload", "shard")},
    {"columns": ("sn", "seq"), "key_exprs": ("k/1", "k/2")},
    {"columns": ("payload",), "key_exprs": ("k/**",)},
    {"key_exprs": ("nothing",)},
    {"key_exprs": ("a;b|c",)},
    {"span": (stamp(100), stamp(300))},
    {"span": (stamp(100), stamp(300)), "columns": ("key",), "key_exprs": ("k/1",)},
]


def source(places: str, endpoint: str = "", **more: str) -> Source:
    """Where a log is read from, as options say it."""
    return Options({"log": places, "connect": endpoint, **more}).stream().source


def range_of(
    place: Place, shard: int, low: int, high: int, **more: object
) -> list[dict[str, object]]:
    """Rows of a range, with one of `WISHES`."""
    columns = more.pop("columns", COLUMNS)
    found = place.read(shard, low, high, columns, **more)  # type: ignore[arg-type]
    return [row for _, _, batch in found for row in batch.to_pylist()]


def stream(directory: Path, **options: str) -> StreamReader:
    return StreamReader(Options({"log": str(directory), **options}).stream())


def all_rows(log: Log) -> list[tuple[int, int]]:
    return [(shard, seq) for shard, end in enumerate(log.ends()) for seq in range(end)]

"""Rows of a log as dictionaries, and logs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA
from elea.store.log.settings import LogSettings
from elea.timestamp import NTP64

EPOCH_S = 1_700_000_000
EPOCH = datetime.fromtimestamp(EPOCH_S, UTC)
CLOCK = "1f2e"


def row(key: str, at_ms: int, payload: bytes = b"", **more: Any) -> dict[str, Any]:
    """A put, so many milliseconds after the beginning; `more` says what is different."""
    when = EPOCH + timedelta(milliseconds=at_ms)
    hlc = NTP64(EPOCH_S + at_ms // 1000, at_ms % 1000 * 1_000_000).value
    return {
        **dict.fromkeys(SCHEMA.names),
        "key": key,
        "kind": 0,
        "payload": payload,
        "encoding": "zenoh/bytes",
        "ts": when,
        "hlc": hlc - (1 << 64) if hlc >= 1 << 63 else hlc,
        "hlc_id": CLOCK,
        "qos": 5,
        "recv_ts": when,
        **more,
    }


def batch_of(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as they are appended."""
    return pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def log_of(path: Path, *batches: Sequence[dict[str, Any]], shards_count: int = 1) -> Path:
    """A log of these rows, one block for each batch."""
    with Log(path, LogSettings(shards_count=shards_count, low_water_percent=0)) as log:
        for rows in batches:
            if rows:
                log.append(batch_of(rows)).result()
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    """All rows of a log, shard by shard."""
    return [one for batch in LogReader(path).select() for one in batch.to_pylist()]

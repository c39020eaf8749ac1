"""Tables that gold tables are made of: rows of a log, with columns of payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from elea.spark.pipelines.gold import KINDS, Gold
from elea.store.log.schema import TIME, RowKind
from elea.store.tables.files import Part
from elea.store.tables.layout import COLUMNS, RowWriter
from elea.store.tables.table import open_table
from elea.timestamp import NTP64

LOG = UUID("11111111-2222-3333-4444-555555555555")
START_S = 1_700_000_000
DAY = datetime.fromtimestamp(START_S, UTC).date().isoformat()


class Source:
    """A table that grows: each `add` is a commit, as an archive makes it."""

    def __init__(self, path: Path, fields: Sequence[tuple[str, pa.DataType]] = ()) -> None:
        self.path = path
        self._fields = [pa.field(name, type) for name, type in fields]
        self._ends = [0, 0]
        self._table = open_table(path, "delta")
        if fields:
            self._table.add_columns(self._fields)

    def add(self, *rows: Mapping[str, object], shard: int = 0) -> None:
        """Rows with `at` in seconds, and what is not as usual."""
        schema = pa.schema([*COLUMNS, *self._fields])
        first = self._ends[shard]
        made = [_row(row, schema, seq, shard) for seq, row in enumerate(rows, start=first)]
        batch = pa.RecordBatch.from_pylist(made, schema)
        end = first + len(rows)
        writer = RowWriter(
            self._table.layout, f"{shard:04d}-{first:012d}-{end:012d}-{LOG.hex[:8]}", schema
        )
        writer.add(DAY, None, batch)
        self._table.commit("test", [Part(LOG, shard, first, end, tuple(writer.finish()))])
        self._ends[shard] = end


def us(at_s: float) -> int:
    """A time in microseconds."""
    return START_S * 1_000_000 + round(at_s * 1_000_000)


def time(at_s: float) -> datetime:
    return datetime.fromtimestamp(START_S + at_s, UTC)


def gold_of(kind: str, path: Path, sources: Sequence[Path], **options: object) -> Gold:
    found = KINDS[kind]
    return Gold(found, found.parsed(options), sources, path)


def _row(row: Mapping[str, object], schema: pa.Schema, seq: int, shard: int) -> dict[str, object]:
    at = row.get("at")
    received = row.get("received", at)
    assert isinstance(received, (int, float))
    usual: dict[str, object] = dict.fromkeys(schema.names)
    usual |= {
        "key": "k",
        "kind": int(RowKind.PUT),
        "payload": b"",
        "encoding": "zenoh/bytes",
        "qos": 0,
        "zid": "aa",
        "eid": 1,
        "sn": seq,
        "recv_ts": pa.scalar(us(received), pa.int64()).cast(TIME),
        "shard": shard,
        "seq": seq,
        "log": str(LOG),
    }
    if isinstance(at, (int, float)):
        usual["ts"] = pa.scalar(us(at), pa.int64()).cast(TIME)
        usual["hlc"] = NTP64.from_nanos(us(at) * 1_000).value
    return {name: row.get(name, value) for name, value in usual.items()}

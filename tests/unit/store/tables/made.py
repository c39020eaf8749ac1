"""Tables to test, and ranges of logs to put into them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.dataset as ds
from tests.unit.spark.logs import fill, log_at

from elea.store.log.log import Log
from elea.store.log.ranges import COLUMNS, rows_of
from elea.store.log.reader import LogReader
from elea.store.tables.files import Part
from elea.store.tables.layout import write_part
from elea.store.tables.table import FORMATS, Table, open_table

__all__ = ["FORMATS", "fill", "log_at", "open_table", "part_of", "position", "rows_in", "stored"]


def part_of(table: Table, log: Path | Log, shard: int, first: int, end: int) -> Part:
    """A range of a log, written and not committed."""
    reader = LogReader(log.disk if isinstance(log, Log) else log)
    batches = (batch for _, _, batch in rows_of(reader, shard, first, end, COLUMNS))
    return write_part(table.layout, batches, reader.log_id, shard, first, end)


def rows_in(table: Table) -> pa.Table:
    """All rows of a table, as its files have them."""
    paths = [str(Path(table.layout.root) / file.path) for file in table.files()]
    if not paths:
        return table.layout.schema.empty_table()
    return ds.dataset(paths, format="parquet").to_table()


def position(table: Table) -> list[tuple[int, int]]:
    """The rows of a table, by shard and number."""
    rows = rows_in(table)
    return sorted(zip(rows["shard"].to_pylist(), rows["seq"].to_pylist(), strict=True))


def stored(log: Log) -> list[tuple[int, int]]:
    return [(shard, seq) for shard, end in enumerate(log.ends()) for seq in range(end)]


def one_shard(directory: Path, count: int) -> Iterator[tuple[Log, UUID]]:
    with log_at(directory, shards_count=1) as log:
        fill(log, 0, count)
        yield log, LogReader(directory).log_id

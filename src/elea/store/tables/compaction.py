"""Compaction: the many small files of a day as few, sorted by key and time, without repeats.

A sample that two recorders stored, or that came twice, is there twice: the same publisher, number,
key and payload; or, of a publisher that does not number, the same key, timestamp and payload. The
row with the lowest number in its log stays. Gaps and drops are never repeats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from elea.errors import StoreError
from elea.store.log.schema import RowKind
from elea.store.tables.files import SORTED, DataFile
from elea.store.tables.layout import RowWriter, discard
from elea.store.tables.table import Table

_LOG: Final = logging.getLogger("elea.store")
RANGE_LEN_MAX: Final = 512 << 20  # octets that are sorted in memory at once: one file each
_SAMPLE_ROWS: Final = 1 << 20
_PUBLISHED: Final = ("zid", "eid", "sn")
_STAMPED: Final = ("hlc", "hlc_id")
_SAME: Final = ("key", "kind", "payload")

_Bound = tuple[str, object] | None  # a key and a time; None: no bound


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one partition."""

    date: str
    bucket: str | None
    files_count: int
    made_count: int
    rows_count: int
    repeats_count: int


def compact(
    table: Table, *, before: str | None = None, range_len_max: int = RANGE_LEN_MAX
) -> Iterator[Compacted]:
    """Compact the partitions of a table that have more than what a compaction made.

    Args:
        before: Days before this one only: `2026-11-15`.
        range_len_max: About so many octets are sorted in memory at once.

    What somebody else compacts at the same time is left to them.
    """
    files = sorted(table.files(), key=lambda file: (file.date, file.bucket or "", file.path))
    for (day, bucket), found in groupby(files, lambda file: (file.date, file.bucket)):
        group = list(found)
        if (before is not None and day >= before) or all(file.is_sorted for file in group):
            continue
        new, rows_count = _rewritten(table, group, range_len_max)
        try:
            table.replace(group, new)
        except StoreError as error:
            discard(table.layout.root, new)
            _LOG.warning("%s: %s was not compacted: %s", table.layout.root, day, error)
            continue
        made_count = sum(file.rows_count for file in new)
        yield Compacted(day, bucket, len(group), len(new), made_count, rows_count - made_count)


def _rewritten(
    table: Table, group: Sequence[DataFile], range_len_max: int
) -> tuple[list[DataFile], int]:
    """The rows of a partition in new files, and how many there were."""
    paths = [str(Path(table.layout.root) / file.path) for file in group]
    footers = [pq.read_metadata(path) for path in paths]
    schema = pa.unify_schemas([footer.schema.to_arrow_schema() for footer in footers])
    rows = ds.dataset(paths, schema=schema, format="parquet")
    length = sum(
        footer.row_group(at).total_byte_size
        for footer in footers
        for at in range(footer.num_row_groups)
    )
    writer = RowWriter(table.layout, f"{SORTED}{group[0].date}", schema)
    rows_count = 0
    try:
        for low, high in _ranges(rows, -(-length // range_len_max)):
            found = rows.to_table(filter=_inside(low, high))
            rows_count += found.num_rows
            for batch in _sorted(_without_repeats(found)).to_batches():
                writer.add(group[0].date, group[0].bucket, _encoded(batch))
            writer.cut()
        return writer.finish(), rows_count
    except BaseException:
        writer.abandon()
        raise


def _ranges(rows: ds.Dataset, count: int) -> Iterator[tuple[_Bound, _Bound]]:
    """Ranges of keys and times of about the same length each, by a sample."""
    if count <= 1:
        yield None, None
        return
    step = max(1, rows.count_rows() // _SAMPLE_ROWS)
    samples = []
    columns = {
        "key": pc.field("key"),
        "time": pc.coalesce(pc.field("ts"), pc.field("recv_ts")),
        "length": pc.binary_length(pc.field("payload")),
    }
    for batch in rows.to_batches(columns=columns):
        samples.append(batch.take(pa.array(range(0, batch.num_rows, step), pa.int64())))
    sample = pa.Table.from_batches(samples).sort_by([("key", "ascending"), ("time", "ascending")])
    ends = pc.cumulative_sum(pc.add(sample["length"].cast(pa.int64()), 64)).combine_chunks()
    total = ends[-1].as_py()
    low: _Bound = None
    for part in range(1, count):
        late = pc.greater_equal(ends, total * part // count)
        at = pc.index(late, True).as_py()
        high = (sample["key"][at].as_py(), sample["time"][at])
        if high != low:
            yield low, high
            low = high
    yield low, None


def _inside(low: _Bound, high: _Bound) -> ds.Expression | None:
    key, time = pc.field("key"), pc.coalesce(pc.field("ts"), pc.field("recv_ts"))
    terms = []
    if low is not None:
        terms.append((key > low[0]) | ((key == low[0]) & (time >= low[1])))
    if high is not None:
        terms.append((key < high[0]) | ((key == high[0]) & (time < high[1])))
    if not terms:
        return None
    return terms[0] if len(terms) == 1 else terms[0] & terms[1]


def _without_repeats(rows: pa.Table) -> pa.Table:
    order = pc.sort_indices(
        rows, [("log", "ascending"), ("shard", "ascending"), ("seq", "ascending")]
    )
    names = [*_SAME, *_PUBLISHED, *_STAMPED]
    small = rows.select(names).append_column("row", _numbers(rows)).take(order)
    small = small.filter(pc.field("kind") <= int(RowKind.DELETE))
    numbered = _none_is_null(_PUBLISHED)
    repeats = [
        *_repeats(small.filter(numbered), _PUBLISHED),
        *_repeats(small.filter(~numbered & _none_is_null(_STAMPED)), _STAMPED),
    ]
    if not repeats:
        return rows
    return rows.filter(pc.invert(pc.is_in(_numbers(rows), value_set=pa.array(repeats, pa.int64()))))


def _repeats(rows: pa.Table, by: Sequence[str]) -> list[int]:
    """The numbers of rows that are another one again, which comes before them."""
    names = [*by, *_SAME]
    # Nearly always there are none, which is known without looking at payloads.
    if rows.group_by([*by, "key"]).aggregate([]).num_rows == rows.num_rows:
        return []
    firsts = rows.group_by(names, use_threads=False).aggregate([("row", "first")])["row_first"]
    again = pc.invert(pc.is_in(rows["row"], value_set=firsts.combine_chunks()))
    found: list[int] = rows["row"].filter(again).to_pylist()
    return found


def _none_is_null(names: Sequence[str]) -> ds.Expression:
    found = pc.field(names[0]).is_valid()
    for name in names[1:]:
        found = found & pc.field(name).is_valid()
    return found


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(range(rows.num_rows), pa.int64())


def _sorted(rows: pa.Table) -> pa.Table:
    rows = rows.append_column("time", pc.coalesce(rows["ts"], rows["recv_ts"]))
    order = ["key", "time", "hlc", "log", "shard", "seq"]
    return rows.sort_by([(name, "ascending") for name in order]).drop_columns(["time"])


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Texts as dictionaries, as the writer takes them."""
    columns = [
        column.dictionary_encode()
        if name in ("key", "encoding", "hlc_id", "zid", "log")
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

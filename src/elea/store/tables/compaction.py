"""Compaction: the many small files of a day as few, sorted by key and time, without duplicates.

A sample that two recorders stored, or that came twice, is there twice. Rows are duplicates only if
they agree in everything the publisher said: source id and number, key, timestamp, kind, payload,
encoding and attachment. A restarted publisher counts from 0 again, with newer timestamps: a number
alone identifies nothing. Rows without a timestamp, gaps and drops are never duplicates: rather
twice than never. Of duplicates the row with the lowest offset in its log stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from elea import heap
from elea.errors import EleaError, StoreError
from elea.store.log.schema import RowKind
from elea.store.tables.files import SORTED, DataFile
from elea.store.tables.layout import TEXTS, RowWriter, with_dictionaries
from elea.store.tables.table import Table

_LOG: Final = logging.getLogger("elea.store")
RANGE_LEN_MAX: Final = 512 << 20  # octets that are sorted in memory at once: one file each
_SAMPLE_ROWS: Final = 1 << 20
_STAMPED: Final = ("hlc", "hlc_id")
_IDENTITY: Final = ("zid", "eid", "sn", *_STAMPED, "key", "kind")
_POSITION: Final = ("log", "shard", "seq")
# What the recorder or the link added, or made of `hlc`: two copies of a sample may differ in it.
_NOT_SAID: Final = (*_POSITION, "recv_ts", "ts", "qos")
_MERGED: Final = "merged-"  # how the names of files begin that were put together
MERGE_COUNT: Final = 128  # small files that become one; as many newer ones are left alone
_MERGES_MAX: Final = 64  # after one batch; what is left is merged after a later one
_FRESH: Final[dict[str, int]] = {}  # by table, files that came since it was merged
_TABLES_MAX: Final = 4_096
_MERGE_LEN: Final = 16 << 20  # octets that they have together, which are few times more in memory
# Smaller than in files that were just written: who looks for one key reads one or two of them.
_GROUP_ROWS: Final = 32 * 1024
_FORMAT: Final = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=TEXTS))

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
        range_len_max: About so many bytes are sorted in memory at once.

    What another process compacts at the same time is left to it.

    Raises:
        StoreError: it is a gold table.
    """
    files = sorted(table.files(), key=lambda file: (file.date, file.bucket or "", file.path))
    if files and not files[0].date:
        reason = "expected a table of rows of a log, got a gold table, which keeps its files few"
        raise StoreError(f"{table.layout.root}: {reason}")
    for (day, bucket), found in groupby(files, lambda file: (file.date, file.bucket)):
        group = list(found)
        if (before is not None and day >= before) or all(file.is_sorted for file in group):
            continue
        new: list[DataFile] = []
        try:
            new, rows_count = _rewritten(table, group, range_len_max)
            table.replace(group, new)
        except (StoreError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and _are_listed(table, group):
                raise
            table.discard_unlisted(new)
            _LOG.warning("%s: %s was not compacted: %s", table.layout.root, day, error)
            continue
        made_count = sum(file.rows_count for file in new)
        yield Compacted(day, bucket, len(group), len(new), made_count, rows_count - made_count)


def tidy(table: Table, files_count: int = 1) -> None:
    """After a batch: `merge`, each time about `MERGE_COUNT` small files have come.

    So it is the first time that a process calls this for a table. If it fails, rows are safe.

    Args:
        files_count: How many files the batch brought: one for each shard and day.
    """
    count = _FRESH.pop(table.layout.root, MERGE_COUNT) + files_count
    _FRESH[table.layout.root] = count if count < MERGE_COUNT else 0
    if len(_FRESH) > _TABLES_MAX:
        del _FRESH[next(iter(_FRESH))]
    if count < MERGE_COUNT:
        return
    try:
        for _ in range(_MERGES_MAX):
            if not merge(table):
                break
    except (EleaError, OSError, pa.ArrowException) as error:
        _LOG.warning("%s: its small files stay as they are: %s", table.layout.root, error)
    # Arrow would keep it for the next time, and the C library what commits scattered.
    pa.default_memory_pool().release_unused()
    heap.give_back()


def merge(table: Table, count: int | None = None) -> int:
    """Put small files of a day together, if there are many; returns how many.

    Args:
        count: So many, of twice as many or more; `MERGE_COUNT` if not given.

    To open a table costs time and memory for each of its files, so who commits often calls this now
    and then. Rows stay in their order, and a compaction sorts them later all the same. Nothing is
    done where readers could miss a file, or could not tell rows that they know from new ones.
    """
    if table.format == "parquet" or not set(_POSITION) <= set(table.schema().names):
        return 0
    count = MERGE_COUNT if count is None else count
    files = sorted(table.files(), key=lambda file: (file.date, file.bucket or "", file.path))
    for (day, bucket), found in groupby(files, lambda file: (file.date, file.bucket)):
        small = [file for file in found if _is_small(file, count)]
        if len(small) < 2 * count:
            continue
        group = small[:count]
        _, rows, schema = _opened(table, group)
        writer = RowWriter(table.layout, f"{_MERGED}{day}", schema, group_rows=_GROUP_ROWS)
        try:
            # One after the other: this is beside something else, which wants the memory.
            for batch in rows.to_batches(
                use_threads=False, batch_readahead=1, fragment_readahead=1
            ):
                writer.add(day, bucket, batch)
            new = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        try:
            table.replace(group, new)
        except StoreError as error:
            table.discard_unlisted(new)
            _LOG.info("%s: files of %s are left as they are: %s", table.layout.root, day, error)
            continue
        return len(group)
    return 0


def _is_small(file: DataFile, count: int) -> bool:
    is_made = file.is_sorted or PurePosixPath(file.path).name.startswith(_MERGED)
    return not is_made and file.octets_count <= _MERGE_LEN // count


def _opened(
    table: Table, group: Sequence[DataFile]
) -> tuple[list[pq.FileMetaData], ds.Dataset, pa.Schema]:
    """The footers of files, their rows, and all of their columns."""
    paths = [str(Path(table.layout.root) / file.path) for file in group]
    footers = [pq.read_metadata(path) for path in paths]
    schema = pa.unify_schemas([footer.schema.to_arrow_schema() for footer in footers])
    return footers, ds.dataset(paths, schema=with_dictionaries(schema), format=_FORMAT), schema


def _are_listed(table: Table, group: Sequence[DataFile]) -> bool:
    """Whether a table still has files: one of format `parquet` deletes what was replaced."""
    return {file.path for file in group} <= {file.path for file in table.files()}


def _rewritten(
    table: Table, group: Sequence[DataFile], range_len_max: int
) -> tuple[list[DataFile], int]:
    """The rows of a partition in new files, and how many there were."""
    footers, rows, schema = _opened(table, group)
    length = sum(
        footer.row_group(at).total_byte_size
        for footer in footers
        for at in range(footer.num_row_groups)
    )
    name = f"{SORTED}{group[0].date}"
    writer = RowWriter(table.layout, name, schema, group_rows=_GROUP_ROWS)
    rows_count = 0
    try:
        for low, high in _ranges(rows, -(-length // range_len_max)):
            found = rows.to_table(filter=_inside(low, high)).unify_dictionaries()
            rows_count += found.num_rows
            for batch in _sorted(_without_repeats(found)).to_batches():
                writer.add(group[0].date, group[0].bucket, batch)
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
    # Decoded tables have no payload: their rows count alike.
    has_payload = "payload" in rows.schema.names
    columns = {
        "key": pc.field("key").cast(pa.string()),
        "time": pc.coalesce(pc.field("ts"), pc.field("recv_ts")),
        "length": pc.binary_length(pc.field("payload")) if has_payload else pc.scalar(0),
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
    """Rows without duplicates."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    sampled = pc.less_equal(rows["kind"], int(RowKind.DELETE))
    chosen = pc.and_(sampled, _all_valid(rows, _STAMPED))
    # Nearly always there are none, which columns of numbers tell.
    codes = pa.table({name: _codes(rows[name]) for name in _IDENTITY}).filter(chosen)
    if codes.group_by(list(_IDENTITY)).aggregate([]).num_rows == codes.num_rows:
        return rows
    repeats = _repeats(rows.append_column("row", numbers).filter(chosen))
    return rows.filter(pc.invert(pc.is_in(numbers, value_set=pa.array(repeats, pa.int64()))))


def _repeats(rows: pa.Table) -> list[int]:
    """The numbers of rows that are duplicates of one that comes before them in its log."""
    names = [name for name in rows.column_names if name not in (*_NOT_SAID, "row")]
    small = pa.table({name: _text(rows[name]) for name in (*names, "row", *_POSITION)})
    small = small.sort_by([(name, "ascending") for name in _POSITION])
    firsts = small.group_by(names, use_threads=False).aggregate([("row", "first")])["row_first"]
    again = pc.invert(pc.is_in(small["row"], value_set=firsts.combine_chunks()))
    found: list[int] = small["row"].filter(again).to_pylist()
    return found


def _sorted(rows: pa.Table) -> pa.Table:
    order = {
        "key": _codes(rows["key"]),
        "time": pc.coalesce(rows["ts"], rows["recv_ts"]),
        "hlc": rows["hlc"],
        "log": _codes(rows["log"]),
        "shard": rows["shard"],
        "seq": rows["seq"],
    }
    by = [(name, "ascending") for name in order]
    return rows.take(pc.sort_indices(pa.table(order), sort_keys=by))


def _all_valid(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    found = pc.is_valid(rows[names[0]])
    for name in names[1:]:
        found = pc.and_(found, pc.is_valid(rows[name]))
    return found


def _codes(column: pa.ChunkedArray) -> pa.Array:
    """Texts as numbers in the same order: to compare those is cheaper. Numbers as they are."""
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return array
    return pc.rank(array.dictionary).take(array.indices)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column by whose values Arrow can group: nested ones as text."""
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if pa.types.is_nested(column.type):
        return pa.chunked_array([[repr(value) for value in column.to_pylist()]], pa.string())
    return column

"""TableSource: a table as a source of a historian, without Spark.

Rows that a log still has and a table has already are the same rows, by log, shard and number: who
asks both takes each once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log.ranges import of_keys, of_time
from elea.store.log.schema import POSITION, SCHEMA, TEXTS, TIME, RowKind, times
from elea.store.tables.files import DataFile, microseconds, prefix_of
from elea.store.tables.layout import COLUMNS
from elea.store.tables.table import Table, open_table

_LOG: Final = logging.getLogger("elea.store")

# As sources of a historian give rows.
ROWS: Final = pa.schema([*SCHEMA, *POSITION, pa.field("log", pa.string(), nullable=False)])
_LEFT_OUT: Final = b"elea.left_out"
_NOTHING: Final = pa.RecordBatch.from_pylist([], schema=ROWS)
_SCANNED_ROWS: Final = 64 * 1024
_SCANNED_LEN: Final = 2**20  # of rows that are read at once; one at least
_BUFFER_LEN: Final = 64 * 1024  # of each column of a file that is read
_END: Final = 2**64
_LAST_CHARACTER: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


class TableSource:
    """A table as a historian's source. One that does not exist yet is empty until it does.

    Args:
        path: Its directory.
        limits: How many keys are remembered while their last rows are looked for.
    """

    def __init__(self, path: Path | str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = Path(path)
        self._keys_max = limits.historian_keys_count
        self._table: Table | None = None
        self._problem: str | None = None

    def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
        """All rows of keys that match, from one time to before another; in any order."""
        wanted = str(KeyExpr.of(key_expr))
        files = self._files(wanted, since, until)
        for batch in self._scan(files, wanted, since, until, ROWS.names):
            yield _shaped(batch)

    def latest(self, key_expr: str, until: int) -> Iterator[pa.RecordBatch]:
        """The last put or deletion of each key that matches, before a time; in any order."""
        return self.latest_after(key_expr, until, None)

    def latest_after(
        self, key_expr: str, until: int, after: str | None
    ) -> Iterator[pa.RecordBatch]:
        """The same, of keys behind one.

        The times of all rows of these keys are read; payloads only of what is found. Batches
        without rows come meanwhile. Of more keys than may be, it tells of the first ones.
        """
        wanted = str(KeyExpr.of(key_expr))
        files = sorted(self._files(wanted, 0, until), key=_newest, reverse=True)
        best: dict[str, tuple[int, int, DataFile, int, str]] = {}
        last_key: str | None = None  # keys after it are not remembered
        for file in files:
            if (
                "*" not in wanted
                and wanted in best
                and _newest(file) < microseconds(best[wanted][0])
            ):
                break  # what is older cannot be later
            columns = ["key", "kind", "hlc", "recv_ts", *(one.name for one in POSITION), "log"]
            for batch in self._scan([file], wanted, 0, until, columns):
                yield _NOTHING
                batch = batch.filter(pc.less_equal(batch.column("kind"), int(RowKind.DELETE)))
                rows = pa.table(
                    {
                        "key": batch.column("key").cast(pa.string()),
                        "time": times(batch),
                        "seq": batch.column("seq"),
                        "shard": batch.column("shard"),
                        "log": batch.column("log").cast(pa.string()),
                    }
                ).sort_by([("time", "ascending"), ("seq", "ascending")])
                last = rows.group_by("key", use_threads=False).aggregate(
                    [(name, "last") for name in ("time", "seq", "shard", "log")]
                )
                if last_key is not None:
                    last = last.filter(pc.less_equal(last["key"], last_key))
                if after is not None:
                    last = last.filter(pc.greater(last["key"], after))
                for row in last.to_pylist():
                    found = (row["time_last"], row["seq_last"], file, row["shard_last"])
                    if row["key"] not in best or found[:2] > best[row["key"]][:2]:
                        best[row["key"]] = (*found, row["log_last"])
                if len(best) > 2 * self._keys_max:
                    kept = sorted(best)[: self._keys_max]
                    best, last_key = {key: best[key] for key in kept}, kept[-1]
        if last_key is not None:
            yield _NOTHING.replace_schema_metadata({_LEFT_OUT: last_key.encode()})
        yield from self._fetched(best)

    def settle(self) -> None:
        """What is committed is read; there is nothing to wait for."""

    def problems(self) -> list[str]:
        """What is wrong with it, for operators."""
        return [] if self._problem is None else [self._problem]

    def _fetched(
        self, best: dict[str, tuple[int, int, DataFile, int, str]]
    ) -> Iterator[pa.RecordBatch]:
        """Whole rows, file by file."""
        by_file: dict[DataFile, list[str]] = {}
        for key, found in best.items():
            by_file.setdefault(found[2], []).append(key)
        for file, keys in by_file.items():
            seqs = pa.array([best[key][1] for key in keys], pa.int64())
            where = pc.field("key").isin(keys) & pc.field("seq").isin(seqs)
            wanted = {(key, *best[key][1:2], *best[key][3:]) for key in keys}
            for batch in self._read([file], where, ROWS.names):
                batch = batch.filter(pc.is_in(batch.column("seq"), value_set=seqs))
                names = ("key", "seq", "shard", "log")
                rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
                mask = pa.array([row in wanted for row in rows], pa.bool_())
                yield _shaped(batch.filter(mask))

    def _files(self, key_expr: str, since: int, until: int) -> list[DataFile]:
        try:
            if self._table is None:
                self._table = open_table(self.path)
            found = self._table.files(key_expr, since, until)
        except (EleaError, OSError) as error:
            if self._problem is None:
                _LOG.error("historian: %s: %s", self.path, error)
            self._problem = f"{self.path}: {error}"
            return []
        self._problem = None
        return found

    def _scan(
        self,
        files: Sequence[DataFile],
        key_expr: str,
        since: int,
        until: int,
        columns: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """Rows of keys and times; a batch without rows for each that was read in vain."""
        where = _filter(key_expr, since, until)
        key_exprs = () if key_expr == "**" else (key_expr,)
        for batch in self._read(files, where, columns):
            # Not as dictionaries from the start: Arrow would not skip row groups by key then.
            at = batch.schema.get_field_index("key")
            batch = batch.set_column(at, "key", batch.column(at).dictionary_encode())
            yield of_time(of_keys(batch, key_exprs), (since, until))

    def _read(
        self, files: Sequence[DataFile], where: ds.Expression | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The row groups that may have such rows, a few rows at a time.

        Not by a scanner of Arrow: that holds several row groups at once, each of any length.
        """
        for one in files:
            path = self.path.absolute() / one.path
            [fragment] = ds.dataset(path, schema=COLUMNS, format="parquet").get_fragments()
            pieces = fragment.split_by_row_group(where, COLUMNS)
            groups = [group for piece in pieces for group in piece.row_groups]
            with pq.ParquetFile(path, buffer_size=_BUFFER_LEN, pre_buffer=False) as file:
                names = [name for name in columns if name in file.schema_arrow.names]
                for group in groups:
                    row_len = _row_len(file.metadata.row_group(group.id), names)
                    few = min(_SCANNED_ROWS, _SCANNED_LEN // row_len + 1)
                    for batch in file.iter_batches(few, [group.id], names, use_threads=False):
                        yield _with_all(batch, columns)


def left_out_of(batch: pa.RecordBatch) -> str | None:
    """The last key that a source tells of, if it says with this batch that there are more."""
    found = (batch.schema.metadata or {}).get(_LEFT_OUT)
    return None if found is None else found.decode()


def _row_len(group: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """The bytes of some columns of a row, on average; one at least."""
    columns = [group.column(number) for number in range(group.num_columns)]
    length = sum(one.total_uncompressed_size for one in columns if one.path_in_schema in names)
    return int(max(1, length // max(1, group.num_rows)))


def _with_all(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """A batch with these columns, as tables have them; those that a file lacks are null."""
    fields = [COLUMNS.field(name) for name in names]
    has = set(batch.schema.names)
    columns = [
        batch.column(one.name).cast(one.type)
        if one.name in has
        else pa.nulls(batch.num_rows, one.type)
        for one in fields
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _filter(key_expr: str, since: int, until: int) -> ds.Expression | None:
    """What statistics of row groups can tell; not exact."""
    where = None
    prefix = prefix_of(key_expr)
    if prefix == key_expr:
        where = pc.field("key") == prefix
    elif prefix:
        where = pc.field("key") >= prefix
        if (after := _after(prefix)) is not None:
            where = where & (pc.field("key") < after)
    if since > 0 or until < _END:
        # One more at either end: who wrote `ts` may have rounded otherwise.
        low = pa.scalar(microseconds(since) - 1, pa.int64()).cast(TIME)
        high = pa.scalar(microseconds(min(until, _END - 1)) + 1, pa.int64()).cast(TIME)
        stamped = (pc.field("ts") >= low) & (pc.field("ts") <= high)
        received = (pc.field("recv_ts") >= low) & (pc.field("recv_ts") <= high)
        timed = stamped | (pc.field("hlc").is_null() & received)
        where = timed if where is None else where & timed
    return where


def _after(prefix: str) -> str | None:
    """The first text after all that begin so; None: there is none."""
    last = ord(prefix[-1]) + 1
    if last > _LAST_CHARACTER:
        return None
    return prefix[:-1] + chr(_AFTER_SURROGATES if last == _FIRST_SURROGATE else last)


def _newest(file: DataFile) -> int:
    """A time, in microseconds, that no row of a file is after."""
    stats = file.stats
    if stats.unstamped_count is None or stats.ts_max is None:
        return 2**63
    if stats.unstamped_count and stats.received_max is not None:
        return max(stats.ts_max, stats.received_max) + 1
    return stats.ts_max + 1


def _shaped(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for one in ROWS:
        column = batch.column(one.name)
        if one.type == TEXTS and column.type != TEXTS:
            column = column.dictionary_encode()
        columns.append(column.cast(one.type))
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)

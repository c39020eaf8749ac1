"""KeyIndex: the keys of a closed segment, sorted, each with the blocks that hold it.

Made of the blocks when the segment is closed, and of no importance for what is kept: without it
readers look into every block. It is an Arrow file of chunks of keys; the first key of each chunk is
in its metadata, so that one key costs a search in memory and one chunk.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from elea.errors import CorruptLogError
from elea.keyexpr.match import intersects
from elea.store.log import block
from elea.store.log.checksum import crc32
from elea.store.log.disk import Disk
from elea.store.log.record import FLAG_LOST
from elea.store.log.recovery import replace
from elea.store.log.schema import joined, times
from elea.store.log.segment import KEYS, Segment

_CHUNK_COUNT: Final = 1_024  # keys: small enough to decode for one, large enough to compress
_MAGIC: Final = b"EKEY"
_TAIL_LEN: Final = 8
_FIRSTS: Final = b"elea.firsts"
_RUN_ROWS_COUNT: Final = 65_536  # of blocks that are looked at together, and their octets
_RUN_LEN: Final = 8 * 1024 * 1024
NEEDED: Final = ("key", "hlc", "recv_ts")


class KeyEntry(NamedTuple):
    """Where a key is in a segment; blocks by their place in it."""

    key: str
    rows_count: int
    latest: int  # the block with its latest row
    blocks: list[int]


class KeyIndex:
    """The keys of one segment, as they are on disk.

    Raises:
        FileNotFoundError: nobody has listed them.
        CorruptLogError: the checksum does not hold.
    """

    __slots__ = ("_file", "_firsts")

    def __init__(self, disk: Disk, stem: str) -> None:
        octets = disk.map(stem + KEYS)
        body, tail = octets[:-_TAIL_LEN], octets[-_TAIL_LEN:].to_pybytes()
        if octets.size < _TAIL_LEN or tail != _tail_of(body):
            raise CorruptLogError(stem + KEYS, 0)
        self._file = pa.ipc.open_file(body)
        self._firsts: list[str] = self._file.schema.metadata[_FIRSTS].decode().split("\0")

    def find(self, key: str) -> KeyEntry | None:
        """Where a key is."""
        chunk = bisect.bisect_right(self._firsts, key) - 1
        if chunk < 0 or not self._file.num_record_batches:
            return None
        batch = self._file.get_batch(chunk)
        row = batch.column("key").index(key).as_py()
        return None if row < 0 else _entry(batch, row)

    def matching(self, expression: str) -> Iterator[KeyEntry]:
        """The entries of all keys that a canonical key expression matches, in their order."""
        prefix = literal_prefix(expression)
        first = max(bisect.bisect_right(self._firsts, prefix) - 1, 0)
        for chunk in range(first, self._file.num_record_batches):
            if self._firsts[chunk] > prefix and not self._firsts[chunk].startswith(prefix):
                return
            batch = self._file.get_batch(chunk)
            for row, key in enumerate(batch.column("key").to_pylist()):
                if key.startswith(prefix) and intersects(expression, key):
                    yield _entry(batch, row)


def literal_prefix(expression: str) -> str:
    """What every key that an expression matches begins with."""
    chunks: list[str] = []
    for chunk in expression.split("/"):
        if "*" in chunk:
            return "/".join(chunks)
        chunks.append(chunk)
    return expression


def _entry(batch: pa.RecordBatch, row: int) -> KeyEntry:
    values = [batch.column(name)[row].as_py() for name in ("key", "rows", "latest", "blocks")]
    return KeyEntry(*values)


def build(disk: Disk, segment: Segment) -> None:
    """List the keys of a closed segment. Blocks that are damaged are left out.

    Raises:
        CorruptLogError: its head is.
    """
    _ = segment.head
    write(disk, segment.stem, key_blocks(segment, 0))


def key_blocks(segment: Segment, start: int) -> pa.Table:
    """One row per key and block, from a block on: key, block, rows, time of the latest row."""
    try:
        head = segment.head
    except CorruptLogError:
        return NO_BLOCKS
    tables = []
    number = start
    for run in segment.runs(start, _RUN_ROWS_COUNT, _RUN_LEN):
        found: dict[int, pa.Buffer] = {}
        for place, record in enumerate(run, number):
            if not record.flags & FLAG_LOST:
                with contextlib.suppress(CorruptLogError):
                    found[place] = segment.octets(record)
        number += len(run)
        batches = block.decode_all(list(found.values()), head, NEEDED) if found else []
        tables.append(_listed(list(found), batches))
    return pa.concat_tables(tables) if tables else NO_BLOCKS


def _listed(numbers: list[int], batches: list[pa.RecordBatch]) -> pa.Table:
    if not batches:
        return NO_BLOCKS
    rows = joined(batches)
    blocks = [
        pa.repeat(pa.scalar(number, pa.uint32()), batch.num_rows)
        for number, batch in zip(numbers, batches, strict=True)
    ]
    keys = rows.column("key")
    table = pa.table(
        {
            "id": keys.indices,
            "block": pa.concat_arrays(blocks),
            "time": times(rows),
        }
    )
    grouped = table.group_by(["block", "id"], use_threads=False)
    counted = grouped.aggregate([("time", "max"), ("time", "count")]).sort_by("block")
    return pa.table(
        {
            "key": keys.dictionary.take(counted["id"].combine_chunks()),
            "block": counted["block"],
            "rows": counted["time_count"],
            "time": counted["time_max"],
        }
    )


NO_BLOCKS: Final = pa.table(
    {
        "key": pa.array([], pa.string()),
        "block": pa.array([], pa.uint32()),
        "rows": pa.array([], pa.int64()),
        "time": pa.array([], pa.uint64()),
    }
)


def by_key(found: pa.Table) -> pa.Table:
    """One row per key, in their order, of what `key_blocks` returns."""
    # In one thread the groups keep the order of their rows: blocks ascend, the latest is last.
    grouped = found.group_by("key", use_threads=False)
    listed = grouped.aggregate([("block", "list"), ("rows", "sum")]).sort_by("key")
    latest = (
        found.sort_by([("time", "ascending"), ("block", "ascending")])
        .group_by("key", use_threads=False)
        .aggregate([("block", "last")])
        .sort_by("key")
    )
    return pa.table(
        {
            "key": listed["key"],
            "rows": listed["rows_sum"],
            "latest": latest["block_last"],
            "blocks": listed["block_list"],
        }
    ).combine_chunks()


def entries(found: pa.Table) -> Iterator[KeyEntry]:
    """The keys of what `key_blocks` returns."""
    columns = [column.to_pylist() for column in by_key(found).columns]
    return (KeyEntry(*values) for values in zip(*columns, strict=True))


def write(disk: Disk, stem: str, found: pa.Table) -> None:
    """Write the list of keys of a segment; `found` is what `key_blocks` returns."""
    table = by_key(found)
    firsts = table["key"].take(pa.array(range(0, table.num_rows, _CHUNK_COUNT), pa.int64()))
    schema = table.schema.with_metadata({_FIRSTS: "\0".join(firsts.to_pylist()).encode()})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as file:
        for chunk in table.replace_schema_metadata(schema.metadata).to_batches(_CHUNK_COUNT):
            file.write_batch(chunk)
    body = sink.getvalue()
    replace(disk, stem + KEYS, body.to_pybytes() + _tail_of(body), "log.before_keys_rename")


def _tail_of(body: pa.Buffer) -> bytes:
    return _MAGIC + crc32(body).to_bytes(4, "little")

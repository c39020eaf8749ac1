"""Tail: numbers and timestamps of the last rows of a shard, in memory.

Anybody can make any sample look as if it may be recorded already: by using its number first, with a
timestamp far ahead. So to find out has to be cheap, whatever is in the log. A tail answers without
a look at the disk where the rows of a key with some number and timestamp are; a row is 32 bytes.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from elea.store.log.single import Single

_LONE_COUNT: Final = 512  # rows that came alone, before they are put in a chunk
_PARTS_COUNT: Final = 16  # chunks of the whole length that are forgotten one by one
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_SIGN: Final = 1 << 63
_MICROSECONDS: Final = 1_000_000
_NAMES: Final = ("key", "sn", "hlc", "seq")


class _Lone(NamedTuple):
    key: int  # hash
    sn: int
    hlc: int | None
    seq: int


class _Chunk(NamedTuple):
    rows: pa.RecordBatch
    end_seq: int
    received_us: int  # the latest
    oldest: int  # timestamp, with a sign; after the newest if there is none
    newest: int


class Sought(NamedTuple):
    """A sample that may be in the log: its key, number and timestamp."""

    key: str
    sn: int
    bits: int


class Hits(NamedTuple):
    """The rows that were found, ascending, and how many were looked at."""

    seqs: list[int]
    looked_count: int
    is_cut: bool = False  # there are more


class Tail:
    """The last rows of one shard that have a number. Any thread may call it.

    Args:
        rows_max: So many; the oldest are forgotten past it.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._chunks: list[_Chunk] = []
        self._lone: list[_Lone] = []
        self._lone_us = 0
        self._rows_count = 0
        self.first_seq = 0  # rows before it are not known
        self.floor = 0  # they were received before this time, as the 64 bits of a timestamp

    def begin_at(self, seq: int, received_us: int) -> None:
        """Rows before this one are not known."""
        self.first_seq, self.floor = seq, _bits_of(received_us)

    def add_single(self, row: Single, seq: int) -> None:
        """Remember a row that came alone."""
        if row.sn is None:
            return
        with self._lock:
            self._lone.append(_Lone(hash(row.key), row.sn, row.hlc, seq))
            self._lone_us = max(self._lone_us, row.received_us)
            if len(self._lone) >= _LONE_COUNT:
                self._gather()

    def add(self, rows: pa.RecordBatch, seqs: pa.Array) -> None:
        """Remember rows, of which `key`, `sn`, `hlc` and `recv_ts` are needed."""
        numbers = rows.column("sn")
        if numbers.null_count == len(numbers):
            return
        keys = rows.column("key")
        hashes = pa.array([hash(key) for key in keys.dictionary.to_pylist()], pa.int64())
        columns = [hashes.take(keys.indices), numbers.cast(pa.int64()), rows.column("hlc"), seqs]
        batch = pa.RecordBatch.from_arrays(columns, list(_NAMES))
        if numbers.null_count:
            batch = batch.filter(pc.is_valid(numbers))
        received_us = pc.max(rows.column("recv_ts")).value
        with self._lock:
            self._push(_chunk(batch, seqs[-1].as_py() + 1, received_us))

    def find(self, key: str, numbers: Collection[int]) -> list[int]:
        """The rows of a key with one of these numbers, in their order."""
        with self._lock:
            self._gather()
            chunks = list(self._chunks)
        wanted = hash(key)
        found: set[int] = set()
        sns = pa.array(list(numbers), pa.int64())
        for chunk in chunks:
            rows = chunk.rows
            mask = pc.is_in(rows.column("sn"), value_set=sns)
            mask = pc.and_(mask, pc.equal(rows.column("key"), pa.scalar(wanted, pa.int64())))
            if mask.true_count:
                found.update(rows.column("seq").filter(mask).to_pylist())
        return sorted(found)

    def find_samples(self, samples: Iterable[Sought], count_max: int) -> Hits:
        """The rows that agree with one of some samples in key, number and timestamp.

        Args:
            count_max: No more are looked at one by one.
        """
        wanted = {(hash(one.key), one.sn, _signed(one.bits)) for one in samples}
        keys, sns, stamps = (sorted(set(column)) for column in zip(*wanted, strict=True))
        with self._lock:
            self._gather()
            chunks = list(self._chunks)
        found: set[int] = set()
        looked_count, is_cut = 0, False
        for chunk in chunks:
            low = bisect.bisect_left(stamps, chunk.oldest)
            high = bisect.bisect_right(stamps, chunk.newest)
            rows = chunk.rows
            for name, values in (("hlc", stamps[low:high]), ("sn", sns), ("key", keys)):
                if not values or not rows.num_rows:
                    rows = rows.slice(0, 0)
                    break
                looked_count += rows.num_rows
                rows = rows.filter(_is_one_of(rows.column(name), values))
            is_cut = is_cut or rows.num_rows > count_max
            columns = (rows.column(name).slice(0, count_max).to_pylist() for name in _NAMES)
            for *sample, seq in zip(*columns, strict=True):
                if tuple(sample) in wanted:
                    found.add(seq)
            count_max -= min(count_max, rows.num_rows)
        return Hits(sorted(found), looked_count, is_cut)

    def _gather(self) -> None:
        if self._lone:
            columns = zip(*self._lone, strict=True)
            arrays = [pa.array(column, pa.int64()) for column in columns]
            end = max(one.seq for one in self._lone) + 1
            batch = pa.RecordBatch.from_arrays(arrays, list(_NAMES))
            self._lone = []
            self._push(_chunk(batch, end, self._lone_us))

    def _push(self, chunk: _Chunk) -> None:
        """Chunks grow with age, so that there are few."""
        self._rows_count += chunk.rows.num_rows
        most = max(self._rows_max // _PARTS_COUNT, 1)
        while self._chunks:
            last = self._chunks[-1]
            count = last.rows.num_rows + chunk.rows.num_rows
            if last.rows.num_rows > 2 * chunk.rows.num_rows or count > most:
                break
            self._chunks.pop()
            chunk = _joined(last, chunk)
        self._chunks.append(chunk)
        while self._rows_count - self._chunks[0].rows.num_rows > self._rows_max:
            old = self._chunks.pop(0)
            self._rows_count -= old.rows.num_rows
            self.first_seq = max(self.first_seq, old.end_seq)
            self.floor = max(self.floor, _bits_of(old.received_us))


def _joined(first: _Chunk, second: _Chunk) -> _Chunk:
    columns = [
        pa.concat_arrays([first.rows.column(name), second.rows.column(name)]) for name in _NAMES
    ]
    batch = pa.RecordBatch.from_arrays(columns, list(_NAMES))
    return _Chunk(
        batch,
        max(first.end_seq, second.end_seq),
        max(first.received_us, second.received_us),
        min(first.oldest, second.oldest),
        max(first.newest, second.newest),
    )


def _chunk(rows: pa.RecordBatch, end_seq: int, received_us: int) -> _Chunk:
    bounds = pc.min_max(rows.column("hlc")).as_py()
    is_stamped = bounds["min"] is not None
    oldest, newest = (bounds["min"], bounds["max"]) if is_stamped else (_SIGN, -_SIGN)
    return _Chunk(rows, end_seq, received_us, oldest, newest)


def _is_one_of(column: pa.Array, values: list[int]) -> pa.Array:
    if len(values) == 1:
        return pc.equal(column, pa.scalar(values[0], pa.int64()))
    return pc.is_in(column, value_set=pa.array(values, pa.int64()))


def _signed(bits: int) -> int:
    return ((bits & _MASK) ^ _SIGN) - _SIGN


def _bits_of(received_us: int) -> int:
    return max(received_us << 32, 0) // _MICROSECONDS

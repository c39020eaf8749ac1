"""Rows of several shards and logs, in the order of time.

A shard holds rows in the order they came, which is nearly that of their times. So each shard is
read through a window: so many rows are held back and sorted, and a row that came late by fewer than
that is put where it belongs. One that is later still is passed on when it is met, and counted. Then
shards are merged: whatever is not after the end of every shard's sorted rows can be given away.

What is in memory is bounded by the window, whatever the logs hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.keyexpr.match import intersects
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind, joined, times
from elea.store.replay.moment import Span
from elea.timestamp import NANOS_PER_SECOND, NTP64

WINDOW_ROWS_COUNT: Final = 16_384  # of one shard: late by a second at 16 000 samples a second
WINDOW_LEN: Final = 128 * 1024 * 1024  # octets, of all shards together
_TOKENS: Final = frozenset({int(RowKind.TOKEN_PUT), int(RowKind.TOKEN_DELETE)})
_TIME_MAX: Final = (1 << 64) - 1
_LOW: Final = pa.scalar(0xFFFF_FFFF, pa.uint64())
_HALF: Final = pa.scalar(32, pa.uint64())
_SECOND: Final = pa.scalar(NANOS_PER_SECOND, pa.uint64())


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in the order of time."""

    batch: pa.RecordBatch
    order: pa.Array  # uint64, what they are ordered by

    def slice(self, start: int, count: int) -> Run:
        """Some of them."""
        return Run(self.batch.slice(start, count), self.order.slice(start, count))

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows, and what time they have."""

    key_exprs: Sequence[str] = ("**",)
    kinds: frozenset[int] | None = None  # of RowKind; None: all
    by_reception: bool = False  # their time is when they were received, not their timestamp
    since_ns: int | None = None
    until_ns: int | None = None  # included


class Merge:
    """The rows of logs, merged; an iterator of runs.

    Args:
        readers: The logs.
        choice: Which rows.
        window_rows_count: How many rows of a shard are held back.
        window_len: How many octets of all of them.
    """

    __slots__ = ("_choice", "_last", "_order", "_sources", "late_count")

    def __init__(
        self,
        readers: Sequence[LogReader],
        choice: Choice,
        window_rows_count: int = WINDOW_ROWS_COUNT,
        window_len: int = WINDOW_LEN,
    ) -> None:
        self._choice = choice
        self._last = 0
        self.late_count = 0  # rows that came later than the window is long
        shards = [(reader, shard) for reader in readers for shard in range(reader.shards_count)]
        share_len = window_len // max(len(shards), 1)
        self._order = partial(order_of, by_reception=choice.by_reception)
        self._sources = [
            _sorted(chosen(*one, choice), self._order, window_rows_count, share_len)
            for one in shards
        ]

    def times_ns(self, run: Run) -> list[int]:
        """When rows happened, in nanoseconds since 1970."""
        if self._choice.by_reception:
            found = pc.multiply(run.order, pa.scalar(1_000, pa.uint64()))
        else:
            seconds = pc.multiply(pc.shift_right(run.order, _HALF), _SECOND)
            fraction = pc.multiply(pc.bit_wise_and(run.order, _LOW), _SECOND)
            found = pc.add(seconds, pc.shift_right(pc.add(fraction, _LOW), _HALF))
        listed: list[int] = found.to_pylist()
        return listed

    def __iter__(self) -> Iterator[Run]:
        heads: dict[int, Run] = {}
        for number, source in enumerate(self._sources):
            _refill(heads, number, source)
        while heads:
            bound = min((run.order[-1] for run in heads.values()), key=lambda one: one.as_py())
            parts = []
            for number, run in sorted(heads.items()):
                count = pc.sum(pc.less_equal(run.order, bound)).as_py()
                if count:
                    parts.append(run.slice(0, count))
                if count < len(run):
                    heads[number] = run.slice(count, len(run) - count)
                else:
                    _refill(heads, number, self._sources[number])
            yield self._counted(_put_in_order(parts, self._order))

    def _counted(self, run: Run) -> Run:
        first, last = run.order[0].as_py(), run.order[-1].as_py()
        if first < self._last:
            late = pc.less(run.order, pa.scalar(self._last, pa.uint64()))
            self.late_count += pc.sum(late).as_py()
        self._last = max(self._last, last)
        return run


def span_of(readers: Sequence[LogReader]) -> Span | None:
    """From when to when there are rows, by the indexes; None: there are none."""
    stats = [reader.stat(shard) for reader in readers for shard in range(reader.shards_count)]
    firsts = [one.time_min for one in stats if one.time_min is not None]
    lasts = [one.time_max for one in stats if one.time_max is not None]
    if not firsts:
        return None
    return Span(
        NTP64.from_value(min(firsts)).as_nanos(),
        NTP64.from_value(max(lasts)).as_nanos(),
    )


def tokens_before(readers: Sequence[LogReader], choice: Choice, at_ns: int) -> list[str]:
    """The keys of liveliness tokens that were there right before a moment."""
    earlier = replace(choice, kinds=_TOKENS, since_ns=None, until_ns=at_ns - 1)
    found: dict[str, tuple[int, bool]] = {}
    for reader in readers:
        for shard in range(reader.shards_count):
            for batch in chosen(reader, shard, earlier, ("key", "kind", "hlc", "recv_ts")):
                order = order_of(batch, by_reception=choice.by_reception)
                columns = (batch.column("key"), batch.column("kind"), order)
                for key, kind, time in zip(*(one.to_pylist() for one in columns), strict=True):
                    if time >= found.get(key, (0, False))[0]:
                        found[key] = (time, kind == RowKind.TOKEN_PUT)
    return [key for key, (_, is_there) in found.items() if is_there]


def order_of(batch: pa.RecordBatch, *, by_reception: bool) -> pa.Array:
    """What rows are ordered by: 64 bits of a timestamp, or microseconds."""
    if by_reception:
        return batch.column("recv_ts").view(pa.int64()).cast(pa.uint64())
    return times(batch)


def chosen(
    reader: LogReader, shard: int, choice: Choice, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard that are wanted, in the order they are there."""
    single = choice.key_exprs[0] if len(choice.key_exprs) == 1 else "**"
    since, until = 0, _TIME_MAX + 1
    if not choice.by_reception:
        # Several timestamps lie in a nanosecond: all of the first, and all of the last.
        since = since if choice.since_ns is None else max(_ntp64(choice.since_ns - 1) + 1, 0)
        until = until if choice.until_ns is None else max(_ntp64(choice.until_ns) + 1, 0)
    since = min(since, _TIME_MAX)
    for batch in reader.select(single, since=since, until=until, columns=columns, shard=shard):
        if single == "**" and "**" not in choice.key_exprs:
            batch = _of_keys(batch, choice.key_exprs)
        if choice.by_reception:
            batch = _received(batch, choice)
        if choice.kinds is not None:
            kinds = pa.array(sorted(choice.kinds), pa.int8())
            batch = batch.filter(pc.is_in(batch.column("kind"), value_set=kinds))
        if batch.num_rows:
            yield batch


def _ntp64(ns: int) -> int:
    return min((max(ns, -1) << 32) // NANOS_PER_SECOND, _TIME_MAX)


def _of_keys(batch: pa.RecordBatch, key_exprs: Sequence[str]) -> pa.RecordBatch:
    keys = batch.column("key")
    wanted = [any(intersects(one, key) for one in key_exprs) for key in keys.dictionary.to_pylist()]
    return batch.filter(pa.array(wanted, pa.bool_()).take(keys.indices))


def _received(batch: pa.RecordBatch, choice: Choice) -> pa.RecordBatch:
    received = batch.column("recv_ts").view(pa.int64())
    if choice.since_ns is not None:
        first_us = -(-choice.since_ns // 1_000)
        batch = batch.filter(pc.greater_equal(received, first_us))
        received = batch.column("recv_ts").view(pa.int64())
    if choice.until_ns is not None:
        batch = batch.filter(pc.less_equal(received, choice.until_ns // 1_000))
    return batch


def _sorted(
    batches: Iterator[pa.RecordBatch],
    order_of: Callable[[pa.RecordBatch], pa.Array],
    window_rows_count: int,
    window_len: int,
) -> Iterator[Run]:
    """Rows in runs, each in order; the last ones of each are held back for the next."""
    held: list[Run] = []
    rows_count = held_len = 0
    for batch in batches:
        held.append(Run(batch, order_of(batch)))
        rows_count += batch.num_rows
        held_len += batch.nbytes
        if rows_count < 2 * window_rows_count and held_len < window_len:
            continue
        run = _put_in_order(held, order_of)
        keep_count = min(window_rows_count, rows_count // 2)
        yield run.slice(0, rows_count - keep_count)
        rest = run.slice(rows_count - keep_count, keep_count)
        held, rows_count, held_len = [rest], keep_count, rest.batch.nbytes
    if rows_count:
        yield _put_in_order(held, order_of)


def _put_in_order(runs: list[Run], order_of: Callable[[pa.RecordBatch], pa.Array]) -> Run:
    """All rows of runs as one; of rows of one time, those of earlier runs come first."""
    whole = runs[0]
    if len(runs) > 1:
        batch = joined([run.batch for run in runs])
        whole = Run(batch, order_of(batch))
    order = whole.order
    if len(order) < 2 or pc.all(pc.less_equal(order[:-1], order[1:])).as_py():
        return whole
    places = pc.array_sort_indices(order)  # which is stable
    return Run(whole.batch.take(places), order.take(places))


def _refill(heads: dict[int, Run], number: int, source: Iterator[Run]) -> None:
    run = next(source, None)
    if run is None:
        heads.pop(number, None)
    else:
        heads[number] = run

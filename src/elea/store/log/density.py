"""Density: how many rows and bytes a log has of each span of time, from its indexes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from elea.store.log.reader import LogReader
from elea.store.log.record import Record

BINS_COUNT_MAX: Final = 4_096
BLOCKS_COUNT_MAX: Final = 1_000_000  # that one answer looks at: about a second


@dataclass(frozen=True, slots=True)
class Density:
    """Rows and bytes by span of time.

    Args:
        since: The 64 bits of a timestamp at which the first span begins,
        until: and at which the last one ends.
        rows: Of each span.
        octets: Of each span, as they are on disk.
        lost_count: Rows in no block that can be read: damaged, and found by `elea log verify`.
        is_cut: More blocks than one answer looks at; the newest are left out.
    """

    since: int
    until: int
    rows: tuple[int, ...]
    octets: tuple[int, ...]
    lost_count: int
    is_cut: bool


def density(
    reader: LogReader, bins: int, since: int | None = None, until: int | None = None
) -> Density:
    """Count the rows of a log by time.

    Blocks are not opened: the rows of one that is in several spans are divided between them as if
    they were as far apart as can be.

    Args:
        bins: How many spans.
        since: 64 bits of a timestamp; None: the first row of the log,
        until: and None: the last one.
    """
    records: list[Record] = []
    seen_count = lost_count = 0
    for shard in range(reader.shards_count):
        bounds = reader.bounds(shard)
        lost_count += bounds.end - bounds.first
        for _, record in reader.blocks(shard, bounds.first, bounds.end):
            seen_count += 1
            if seen_count > BLOCKS_COUNT_MAX:
                break
            lost_count -= record.end_seq - max(record.first_seq, bounds.first)
            is_before = since is not None and record.time_max < since
            if not is_before and (until is None or record.time_min < until):
                records.append(record)
    is_cut = seen_count > BLOCKS_COUNT_MAX
    low = min((one.time_min for one in records), default=0) if since is None else since
    high = max((one.time_max for one in records), default=low) + 1 if until is None else until
    high = max(high, low + bins)
    rows = _divided(((one, one.rows_count) for one in records), low, high, bins)
    octets = _divided(((one, one.length) for one in records), low, high, bins)
    return Density(low, high, rows, octets, 0 if is_cut else lost_count, is_cut)


def _divided(
    counts: Iterable[tuple[Record, int]], since: int, until: int, bins: int
) -> tuple[int, ...]:
    """Counts of blocks as counts of spans; what is between two times is in one span or divided."""
    found = [0] * bins
    width = until - since
    for record, count in counts:
        low, span = record.time_min, record.time_max - record.time_min
        first = (low - since) * bins // width
        last = (record.time_max - since) * bins // width
        if first == last:
            if 0 <= first < bins:
                found[first] += count
            continue
        before = 0
        for place in range(first, last + 1):
            end = since + (place + 1) * width // bins
            upto = count if place == last else count * max(0, end - low) // (span + 1)
            if 0 <= place < bins:
                found[place] += upto - before
            before = upto
            if place >= bins:
                break
    return tuple(found)

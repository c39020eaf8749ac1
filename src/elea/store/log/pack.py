"""Packing: a closed segment, written once more with few large blocks, compressed.

Rows that come slowly are many small blocks, each with all that a block needs to be read alone; rows
that come fast are not compressed, so that nobody waits for it. Neither is how rows should rest.
The new files are complete and durable before the first of them has its name; that of the data comes
last, and from then on the segment is the new one. What it was made of goes later: somebody may be
reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from elea import crash
from elea.errors import CorruptLogError
from elea.limits import Limits
from elea.store.log import block, index
from elea.store.log.disk import Disk
from elea.store.log.record import FLAG_LOST
from elea.store.log.schema import joined
from elea.store.log.segment import DATA, INDEX, KEYS, PACKED, Segment, directory_of, stem_of

PACKING: Final = ".packing"  # in the names of files that are being made
_NS: Final = 1_000_000_000
_SUFFIXES: Final = (INDEX, KEYS, DATA)  # the data last: they are what makes it a segment


def pack(
    disk: Disk,
    shard: int,
    first_seq: int,
    seed: int,
    compression: str,
    limits: Limits,
    is_ending: Callable[[], bool] = lambda: False,
) -> bool:
    """Write a closed segment once more; False: it was not finished, because the log is closed.

    Raises:
        CorruptLogError: it is damaged, and stays as it is.
        OSError: of the disk; the segment stays as it is.
        FileNotFoundError: it was trimmed.
    """
    crash.point("log.before_pack")
    plain = stem_of(shard, first_seq)
    fresh = plain + PACKING
    segment = Segment(disk, shard, first_seq, seed, plain)
    try:
        if not _write(disk, segment, fresh, seed, compression, limits, is_ending):
            return False
        index.build(disk, Segment(disk, shard, first_seq, seed, fresh))
        crash.point("log.before_pack_rename")
        for suffix in _SUFFIXES:
            disk.rename(fresh + suffix, plain + PACKED + suffix)
        disk.sync_directory(directory_of(shard))
        crash.point("log.after_pack_rename")
    finally:
        for suffix in _SUFFIXES:
            disk.remove(fresh + suffix)
    return True


def _write(
    disk: Disk,
    segment: Segment,
    fresh: str,
    seed: int,
    compression: str,
    limits: Limits,
    is_ending: Callable[[], bool],
) -> bool:
    """The data and the index of the new segment, durable; False: not to its end."""
    data, entries = disk.open(fresh + DATA), disk.open(fresh + INDEX)
    try:
        for file in (data, entries):
            file.truncate(0)
        head = segment.head.writable()
        data.write(0, head.octets)
        seq, offset, blocks_len = segment.first_seq, len(head), 0
        for rows, epoch, appended_s in _groups(segment, limits):
            if is_ending():
                return False
            octets, record, entry = block.encode(
                *(rows, seq, epoch, offset, seed, compression, head),
                hasty=False,
                appended_s=appended_s,
            )
            data.write(offset, octets)
            block.recycle(octets)
            entries.write(blocks_len, entry)
            seq, offset, blocks_len = record.end_seq, record.end, blocks_len + len(entry)
        if seq != segment.end_seq:
            raise CorruptLogError(segment.stem + DATA, 0)
        for file in (data, entries):
            file.sync()
        crash.point("log.after_pack_data")
    finally:
        data.close()
        entries.close()
    return True


def _groups(segment: Segment, limits: Limits) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The rows of a segment in parts that become blocks; epoch and time of the last one in each.

    In a segment of an older version no block says when it was appended: then it was when the file
    was written last, and that is no later than now.
    """
    written_s = segment.written_ns // _NS
    for run in segment.runs(0, limits.log_block_rows_count, limits.log_block_len):
        for record in run:
            if record.flags & FLAG_LOST:
                raise CorruptLogError(segment.stem + DATA, record.offset)
        octets = [segment.octets(record) for record in run]
        rows = joined(block.decode_as_they_are(octets, segment.head))
        # They may have been compressed: then they are longer than they were on disk.
        step = max(1, rows.num_rows * limits.log_block_len // max(1, rows.nbytes))
        for first in range(0, rows.num_rows, step):
            yield rows.slice(first, step), run[-1].epoch, run[-1].appended_s or written_s

"""Recovery: what a writer does with a log before it appends to it.

The end of the last segment may hold a block that was being written: it is cut. Blocks that are
whole but in no index are written once more before they are believed, because after an error of
fsync the memory of the operating system may hold octets that never reached the disk. Nothing else
is changed: what is damaged is told and left for `repair`, and rows go on in a new segment.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from elea import crash
from elea.store.log.disk import Disk
from elea.store.log.head import HEAD, Head
from elea.store.log.record import Record, parse_index
from elea.store.log.segment import (
    DATA,
    INDEX,
    Damage,
    Examination,
    Segment,
    directory_of,
    first_seqs,
)


@dataclass(slots=True)
class Recovered:
    """Where a shard goes on, and what was found."""

    next_seq: int = 0
    first_seq: int | None = None  # the segment to go on with
    data_len: int = 0
    blocks_count: int = 0
    began_ns: int = 0
    cut_len: int = 0  # octets of a block that was not finished
    damage: list[Damage] = field(default_factory=list)


def recover(
    disk: Disk, shard: int, seed: int, committed: int, end: int = 0, head: Head = HEAD
) -> Recovered:
    """Make a shard ready to be appended to.

    Args:
        head: Of the segments that will be written.
        committed: What consumers have read: the shard had at least so many rows.
        end: What it has acknowledged, as far as that was written down elsewhere.
    """
    found = Recovered()
    seqs = first_seqs(disk, shard)
    headless = lost_segments(disk, shard, seed, seqs)
    for first_seq, next_seq in itertools.pairwise(seqs):
        found.damage += sealed_damage(disk, shard, first_seq, next_seq, seed)
    if seqs:
        _last(disk, shard, seqs[-1], seed, found, head)
    known = [
        *((one.end_seq, one.reason) for one in headless),
        (end, "rows that were acknowledged are gone"),
        (committed, "consumers have read rows that are gone"),
    ]
    for end_seq, reason in known:
        if found.next_seq < end_seq:
            place = (found.data_len, 0, found.next_seq, end_seq)
            found.damage.append(Damage(directory_of(shard), *place, reason))
            found.next_seq, found.first_seq = end_seq, None
            found.data_len = found.blocks_count = 0
    return found


def lost_segments(disk: Disk, shard: int, seed: int, seqs: list[int]) -> list[Damage]:
    """Segments after all others of which only the index is left: their data were deleted.

    Trimming leaves an index, too, of what is before all others, and never takes the last one.
    """
    found = []
    newest = seqs[-1] if seqs else -1
    directory = directory_of(shard)
    for name in disk.names(directory):
        number = name.removesuffix(INDEX)
        if number == name or not number.isdecimal() or int(number) <= newest:
            continue
        records, _ = parse_index(disk.read(f"{directory}/{name}", 0), seed)
        if records:
            span = (int(number), records[-1].end_seq)
            reason = "the data of a segment are gone, and its index is there"
            found.append(Damage(f"{directory}/{number}{DATA}", 0, 0, *span, reason))
    return found


def sealed_damage(disk: Disk, shard: int, first_seq: int, next_seq: int, seed: int) -> list[Damage]:
    """What a look at lengths and numbers tells of a segment that is not the last one."""
    segment = Segment(disk, shard, first_seq, seed)
    name = segment.stem + DATA
    end = segment.records[-1].end if segment.records else 0
    if segment.end_seq == next_seq and disk.size(name) >= end:
        return []
    exam = Examination(disk, shard, first_seq, seed)
    seen = exam.records[-1].end_seq if exam.records else first_seq
    if seen != next_seq:
        reason = "rows are missing before the next segment"
        exam.damage.append(Damage(name, exam.tail, 0, seen, next_seq, reason))
    return exam.damage


def _last(disk: Disk, shard: int, first_seq: int, seed: int, found: Recovered, head: Head) -> None:
    exam = Examination(disk, shard, first_seq, seed)
    name = exam.stem + DATA
    lost = [one for one in exam.damage if one.segment == name]
    if not exam.unindexed and (exam.head is not None or not exam.records):
        # The schema goes to the disk with the first block: without it, that was not finished.
        lost = [one for one in lost if one.offset > 0]
    if (end := exam.lost_end(name, first_seq)) is not None:
        lost.append(end)
    if (gone := exam.lost_index()) is not None:
        found.damage.append(gone)
    found.damage += lost
    if not exam.records and not lost:
        # Nothing was ever acknowledged in it. Its name says where rows go on.
        found.cut_len = exam.data_len if exam.data_len > exam.begin else 0
        found.next_seq = found.first_seq = first_seq
        return
    if lost:
        # Left as it is: `repair` is for that. Numbers that were given are not given again.
        ends = [record.end_seq for record in exam.records]
        found.next_seq = max([*ends, *(one.end_seq for one in lost)])
        return
    found.next_seq = exam.records[-1].end_seq
    found.first_seq = first_seq
    found.data_len = exam.tail
    found.blocks_count = len(exam.records)
    found.began_ns = disk.modified_ns(name)
    found.cut_len = exam.data_len - exam.tail
    _settle(disk, name, exam)
    if not exam.index_whole:
        crash.sometimes("log.index_rebuilt")
        write_index(disk, exam.stem, seed, exam.records)
    if exam.head is None or exam.head.octets != head.octets:
        # Another release wrote it: it is closed as it is, and rows go on in a new one.
        _synchronise(disk, exam.stem + INDEX)
        found.first_seq = None
        found.data_len = found.blocks_count = 0


def _synchronise(disk: Disk, name: str) -> None:
    file = disk.open(name)
    try:
        file.sync()
    finally:
        file.close()


def _settle(disk: Disk, name: str, exam: Examination) -> None:
    """Cut what is no block, and write again what may only be in memory."""
    fresh = exam.records[exam.unindexed :]
    if not fresh and exam.data_len == exam.tail:
        return
    crash.point("log.before_cut")
    start = fresh[0].offset if fresh else exam.tail
    octets = disk.read(name, start)[: exam.tail - start]
    if start == exam.begin and exam.head is not None:
        start, octets = 0, exam.head.octets + octets
    file = disk.open(name)
    try:
        if exam.data_len > exam.tail:
            crash.sometimes("log.tail_cut")
            file.truncate(exam.tail)
        if fresh:
            crash.sometimes("log.tail_rewritten")
            file.write(start, octets)
        file.sync()
    finally:
        file.close()
    crash.point("log.after_cut")


def write_index(disk: Disk, stem: str, seed: int, records: list[Record]) -> None:
    """Put an index in place of what is there, in one step."""
    octets = b"".join(record.to_bytes(seed) for record in records)
    replace(disk, stem + INDEX, octets)


def replace(disk: Disk, name: str, octets: bytes, point: str | None = None) -> None:
    """Put a file in place of what is there; it is the old or the new one after any crash."""
    file = disk.open(name + ".tmp")
    try:
        file.truncate(0)
        file.write(0, octets)
        file.sync()
    finally:
        file.close()
    if point is not None:
        crash.point(point)
    disk.rename(name + ".tmp", name)
    disk.sync_directory(name.rpartition("/")[0])

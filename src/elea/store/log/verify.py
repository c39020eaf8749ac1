"""Verify and repair: look at every octet of a log, and put aside what is damaged.

Repair needs the log to itself. It copies the octets of damaged blocks to `quarantine`, marks their
records, so that readers pass them, and makes indexes again. It never changes a row that holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elea.errors import CorruptLogError, StoreError
from elea.store.log.disk import Disk
from elea.store.log.ends import read_ends
from elea.store.log.head import Head, read_head
from elea.store.log.index import KeyIndex
from elea.store.log.manifest import Manifest, no_log, read_manifest, write_manifest
from elea.store.log.record import FLAG_LOST, Record, seed_of
from elea.store.log.recovery import replace, write_index
from elea.store.log.segment import (
    DATA,
    INDEX,
    KEYS,
    Damage,
    Examination,
    directory_of,
    lost_head,
    stems,
)

QUARANTINE: Final = "quarantine"
_GONE: Final = "rows that were acknowledged are gone"
Progress = Callable[[str, int, int], None]  # segment, octets looked at, octets of all


@dataclass(slots=True)
class Findings:
    """What a log has, and what is wrong with it."""

    rows_count: int = 0
    blocks_count: int = 0
    octets_count: int = 0
    unfinished_len: int = 0  # octets at an end that no commit finished: no damage
    damage: list[Damage] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)

    @property
    def lost_count(self) -> int:
        """Rows that cannot be read."""
        return sum(one.lost_count for one in self.damage)


def verify(disk: Disk, progress: Progress | None = None) -> Findings:
    """Look at every octet of a log, without changing any.

    Raises:
        StoreError: there is no log, or its manifest is gone.
    """
    findings = Findings()
    _each(disk, findings, progress, lambda *_: None)
    return findings


def repair(disk: Disk, progress: Progress | None = None) -> Findings:
    """Put aside what is damaged, and make indexes again.

    Raises:
        StoreError: somebody is writing to the log; or there is none.
    """
    lock = disk.lock()
    if lock is None:
        raise StoreError(f"{disk.lock_holder()} is writing to this log; stop it first")
    try:
        findings = Findings()
        manifest = _manifest(disk)
        write_manifest(disk, manifest)
        disk.make_directory(QUARANTINE)

        def mend(shard: int, first_seq: int, exam: Examination) -> None:
            if exam.records and exam.head is None:
                exam.head = _head_of_others(disk, manifest, shard, exam)
            _mend(disk, findings, first_seq, seed_of(manifest.log_id, shard), exam)

        _each(disk, findings, progress, mend)
    finally:
        lock.close()
    return findings


def _each(
    disk: Disk,
    findings: Findings,
    progress: Progress | None,
    mend: Callable[[int, int, Examination], None],
) -> None:
    manifest = _manifest(disk)
    # Before the segments: a writer may be appending, which notes an end after the rows.
    noted = read_ends(disk, manifest.log_id, manifest.shards_count)
    ends = [max(manifest.end_of(shard), end) for shard, end in enumerate(noted)]
    found = [
        (shard, first_seq, stem)
        for shard in range(manifest.shards_count)
        for first_seq, stem in stems(disk, shard).items()
    ]
    for shard in set(range(manifest.shards_count)) - {shard for shard, _, _ in found}:
        if ends[shard]:  # the newest segment is never trimmed
            findings.damage.append(Damage(directory_of(shard), 0, 0, 0, ends[shard], _GONE))
    total = sum(disk.size(stem + DATA) for _, _, stem in found)
    for place, (shard, first_seq, _) in enumerate(found):
        next_seq = None
        if place + 1 < len(found) and found[place + 1][0] == shard:
            next_seq = found[place + 1][1]
        exam = Examination(disk, shard, first_seq, seed_of(manifest.log_id, shard))
        stem = exam.stem
        _check_end(findings, exam, first_seq, next_seq, ends[shard])
        findings.damage += exam.damage
        findings.damage += _keys_damage(disk, stem, first_seq)
        findings.blocks_count += len(exam.records)
        findings.rows_count += sum(record.rows_count for record in exam.records)
        findings.octets_count += exam.data_len
        if progress is not None:
            progress(stem, findings.octets_count, total)
        mend(shard, first_seq, exam)


def _check_end(
    findings: Findings, exam: Examination, first_seq: int, next_seq: int | None, known_end: int
) -> None:
    """What is after the last block: unfinished in the last segment, damage in all others.

    Args:
        known_end: The number after the last row that the shard is known to have acknowledged.
    """
    stem = exam.stem
    end_seq = exam.records[-1].end_seq if exam.records else first_seq
    rest_len = max(exam.data_len - exam.tail, 0)
    if next_seq is None:
        lost_end = exam.lost_end(stem + DATA, first_seq)
        lost_index = exam.lost_index()
        if lost_end is not None:
            end_seq = max(lost_end.end_seq, known_end)
            exam.damage.append(dataclasses.replace(lost_end, end_seq=end_seq))
        elif end_seq < known_end:
            exam.damage.append(Damage(stem + DATA, exam.tail, rest_len, end_seq, known_end, _GONE))
        else:
            findings.unfinished_len += rest_len
        if lost_index is not None:
            exam.damage.append(lost_index)
        return
    if not exam.index_whole and not any(one.segment == stem + INDEX for one in exam.damage):
        reason = "the index is not whole"
        exam.damage.append(Damage(stem + INDEX, 0, 0, end_seq, end_seq, reason))
    if end_seq != next_seq or rest_len:
        reason = "octets that are no block"
        if end_seq != next_seq:
            reason = "blocks are missing before the next segment"
        exam.damage.append(Damage(stem + DATA, exam.tail, rest_len, end_seq, next_seq, reason))


def _keys_damage(disk: Disk, stem: str, first_seq: int) -> list[Damage]:
    try:
        KeyIndex(disk, stem)
    except FileNotFoundError:
        return []
    except CorruptLogError:
        reason = "the list of keys is damaged"
        return [Damage(stem + KEYS, 0, 0, first_seq, first_seq, reason)]
    return []


def _mend(disk: Disk, findings: Findings, first_seq: int, seed: int, exam: Examination) -> None:
    stem = exam.stem
    lost = {one.offset: one for one in exam.damage if one.segment == stem + DATA and one.lost_count}
    records: list[Record] = []
    seq, offset = first_seq, exam.begin
    for record in exam.records:
        if record.first_seq != seq:
            # Blocks of which not even a record is left: one record stands for all of them.
            gap = lost.pop(offset)
            _put_aside(disk, findings, stem, gap)
            records.append(_lost_record(gap, record.offset - offset))
        if record.offset in lost:
            _put_aside(disk, findings, stem, lost.pop(record.offset))
            record = record._replace(flags=record.flags | FLAG_LOST)
        records.append(record)
        seq, offset = record.end_seq, record.end
    for rest in lost.values():
        _put_aside(disk, findings, stem, rest)
        records.append(_lost_record(rest, rest.length))
    if records != exam.records or not exam.index_whole:
        write_index(disk, stem, seed, records)
        findings.repaired.append(f"{stem}: made the index again")
    _mend_octets(disk, findings, stem, seed, exam)
    if any(one.segment == stem + KEYS for one in findings.damage) or lost:
        disk.remove(stem + KEYS)


def _lost_record(gap: Damage, length: int) -> Record:
    rows_count = gap.lost_count
    return Record(gap.first_seq, rows_count, 0, gap.offset, length, 0, 0, 2**64 - 1, 0, FLAG_LOST)


def _head_of_others(disk: Disk, manifest: Manifest, shard: int, exam: Examination) -> Head | None:
    """The head that the blocks of a segment name, if another segment of the log begins with it."""
    heads = []
    for one in range(manifest.shards_count):
        for stem in stems(disk, one).values():
            head = read_head(disk.map(stem + DATA))
            if head is not None:
                heads.append(head)
    data = disk.map(exam.stem + DATA)
    return lost_head(data, exam.records, seed_of(manifest.log_id, shard), heads)


def _mend_octets(disk: Disk, findings: Findings, stem: str, seed: int, exam: Examination) -> None:
    """Write again what is known to have been there: the schema, and records in blocks."""
    due: list[tuple[int, bytes]] = []
    if not exam.has_schema:
        if exam.head is None:
            findings.repaired.append(
                f"{stem}: the schema stays damaged, because no segment of this log has the same;"
                " repair it with the release that wrote it"
            )
        else:
            due.append((0, exam.head.octets))
    for one in exam.damage:
        if one.segment != stem + DATA or one.lost_count:
            continue
        for record in exam.records:
            if record.offset + record.marker == one.offset:
                text = record._replace(flags=0).to_bytes(seed).hex().encode()
                due.append((one.offset, text))
    if not due:
        return
    file = disk.open(stem + DATA)
    try:
        for offset, octets in due:
            file.write(offset, octets)
            findings.repaired.append(f"{stem}: wrote {len(octets)} octets at {offset} again")
        file.sync()
    finally:
        file.close()


def _put_aside(disk: Disk, findings: Findings, stem: str, damage: Damage) -> None:
    octets = disk.read(stem + DATA, damage.offset)[: damage.length or None]
    name = f"{QUARANTINE}/{stem.replace('/', '-')}-{damage.offset}"
    replace(disk, name, octets)
    findings.repaired.append(f"{damage}; {len(octets)} octets are in {name}")


def _manifest(disk: Disk) -> Manifest:
    try:
        return read_manifest(disk)
    except FileNotFoundError as error:
        raise no_log(error) from error

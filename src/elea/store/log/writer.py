"""Writer: rows in, numbers out, and everything between is on disk. One thread at a time.

`commit` takes what several callers appended, makes one block per shard of it, synchronises once per
shard and returns the numbers. An error of fsync ends the writer: nobody knows what is on the disk,
so it has to be opened again, which looks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea import crash
from elea.errors import StoreError
from elea.limits import Limits
from elea.store.log import consumers as consumer_files
from elea.store.log.disk import Disk, File
from elea.store.log.ends import Ends, read_ends
from elea.store.log.manifest import Manifest, read_manifest, write_manifest
from elea.store.log.pack import pack
from elea.store.log.record import seed_of
from elea.store.log.recovery import recover
from elea.store.log.retention import Kept, Trimmed, is_short_of_room, to_pack, to_trim
from elea.store.log.schema import body_lengths, checked, compact, joined, length_of
from elea.store.log.segment import (
    DATA,
    INDEX,
    KEYS,
    PACKED,
    Damage,
    Segment,
    directory_of,
    first_seqs,
    stems,
)
from elea.store.log.settings import LogSettings
from elea.store.log.shard import ShardWriter, refusal, room
from elea.store.log.single import Rows, Single, batch_of

_READ_ON_NS: Final = 10_000_000_000  # how long a segment stays that was packed: it may be read
_NS: Final = 1_000_000_000
_OWN: Final = re.compile(r"\d{20}(\.packed|\.packing)?\.(arrows|idx|keys)(\.tmp)?\Z")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the rows of one append are: by shard, from the first number to the one after the last.

    They are on disk, in the order in which they were appended.
    """

    ranges: dict[int, tuple[int, int]]
    refused: tuple[int, ...] = ()  # rows of a divisible append for which there was no room
    reason: str = ""  # why those were refused


class DividedError(StoreError):
    """Writing rows failed after others of the same append were refused for want of room."""

    def __init__(self, error: StoreError, refused: tuple[int, ...], reason: str) -> None:
        super().__init__(str(error))
        self.refused = refused
        self.reason = reason


@dataclass(slots=True)
class Report:
    """What opening, writing and trimming found: nothing of it passes in silence."""

    damage: list[Damage] = field(default_factory=list)
    cut_len: int = 0  # bytes after the last whole block: without damage, never acknowledged
    unreadable_consumers: list[str] = field(default_factory=list)
    packed_count: int = 0  # segments that were written once more
    trimmed_count: int = 0  # segments
    unread_count: int = 0  # rows trimmed although a consumer had not read them


class Writer:
    """The one who appends to a log.

    Args:
        disk: Where it is.
        settings: How it is written. An existing log keeps its number of shards.
        wall_ns: Tells the time, in nanoseconds since 1970.
        new_id: Tells the name of a log that does not exist yet.

    Raises:
        StoreError: somebody else is writing to it, or it is not a log.
    """

    __slots__ = (
        "_broken",
        "_closed_segments",
        "_disk",
        "_ends",
        "_leases",
        "_lock",
        "_packing",
        "_replaced",
        "_settings",
        "_shards",
        "_unpackable",
        "_wall_ns",
        "manifest",
        "report",
        "used_len",
    )

    def __init__(
        self,
        disk: Disk,
        settings: LogSettings,
        wall_ns: Callable[[], int],
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        crash.point("log.before_open")
        self._disk = disk
        self._settings = settings
        self._wall_ns = wall_ns
        self._broken: str | None = None
        self._packing: Kept | None = None  # what somebody is packing
        self._unpackable: set[str] = set()  # what could not be; the next writer tries again
        self._replaced: list[tuple[Kept, int]] = []  # what was, and when that was
        self._leases = consumer_files.Leases()
        self.report = Report()
        lock = disk.lock()
        if lock is None:
            raise StoreError(
                f"{disk.lock_holder()} is writing to this log; stop it, or write elsewhere"
            )
        self._lock: File = lock
        crash.point("log.after_lock")
        try:
            self.manifest = self._begin_epoch(new_id)
            self._shards = self._recover()
            self._ends = Ends(disk, self.manifest.log_id)
        except BaseException:
            lock.close()
            raise
        self._closed_segments = self._find_closed()
        self.used_len = self._count()

    @property
    def broken(self) -> str | None:
        """Why nothing can be appended any more."""
        return self._broken

    def commit(self, batches: Sequence[Rows]) -> list[Stored]:
        """Make rows durable, all of these together, and return where they are.

        Raises:
            StoreError: they are not kept, or, if the writer is broken now, nobody knows.
        """
        self._check_broken()
        if len(batches) == 1 and isinstance(batches[0], Single):  # somebody waits for it
            return [self._commit_single(batches[0])]
        parts = [_split(rows, len(self._shards)) for rows in batches]
        blocks = {
            shard: _joined([part[shard] for part in parts if shard in part])
            for shard in range(len(self._shards))
            if any(shard in part for part in parts)
        }
        self._check_room(sum(_length_of(rows) for rows in blocks.values()))
        return self._commit_parts(parts, blocks)

    def commit_fitting(self, batch: pa.RecordBatch) -> Stored:
        """Make those rows durable for which there is room, first come first served.

        Raises:
            StoreError: there is room for none of them.
            DividedError: writing those that fit failed.
        """
        self._check_broken()
        lengths = body_lengths(batch)
        space, used_len = self._disk.space(), self.used_len
        used_len += batch.nbytes - sum(lengths)  # all but payloads and attachments
        left = room(used_len, space, self._settings)
        fitting: list[int] = []
        refused: list[int] = []
        for row, length in enumerate(lengths):
            (fitting if length <= left else refused).append(row)
            left -= length if length <= left else 0
        reason = None
        if refused:
            kept_len = sum(lengths[row] for row in fitting)
            reason = refusal(used_len + kept_len, lengths[refused[0]], space, self._settings)
        if reason is not None and not fitting:
            raise reason
        part = _split(batch.take(pa.array(fitting, pa.int64())), len(self._shards))
        try:
            [stored] = self._commit_parts([part], part)
        except StoreError as error:
            raise DividedError(error, tuple(refused), str(reason)) from error
        return Stored(stored.ranges, tuple(refused), str(reason))

    def _commit_parts(
        self, parts: list[dict[int, Rows]], blocks: Mapping[int, Rows]
    ) -> list[Stored]:
        firsts = {shard: self._shards[shard].next_seq for shard in blocks}
        self._write([(self._shards[shard], rows) for shard, rows in blocks.items()])
        return _stored(parts, firsts)

    def _commit_single(self, row: Single) -> Stored:
        number = shard_of(row.key, len(self._shards))
        self._check_room(row.length)
        first = self._shards[number].next_seq
        self._write([(self._shards[number], row)])
        return Stored({number: (first, first + 1)})

    def trim(self) -> list[Trimmed]:
        """Let go of what is not retained; what consumers lose by it is in the report."""
        now = self._wall_ns()
        if not self._has_lock():
            return []  # another writer may be appending; the next commit says so
        for shard in self._shards:
            if shard.is_due(now):
                shard.seal()
        self._closed_segments += self._newly_closed()
        self.used_len = self._count()
        stay_ns = 0 if self._is_short_of_room() else _READ_ON_NS
        for replaced in [one for one in self._replaced if abs(now - one[1]) >= stay_ns]:
            self._remove_replaced(replaced)
        known = consumer_files.load(self._disk, self.manifest.log_id)
        self.report.unreadable_consumers = known.unreadable
        live = self._leases.live(known.consumers, now)
        due = to_trim(self._untrimmed(), self.used_len, live, self._settings, now)
        due = list(itertools.takewhile(lambda one: one.segment != self._packing, due))
        for one in due:
            self._remove(one.segment)
            self.report.trimmed_count += 1
            self.report.unread_count += max((rows for _, rows in one.unread), default=0)
        return due

    def roll(self) -> None:
        """Close the segments that are written to, and begin the next ones."""
        for shard in self._shards:
            shard.roll(self._wall_ns())

    def ends(self) -> list[int]:
        """The number of the next row, by shard."""
        return [shard.next_seq for shard in self._shards]

    def unlisted(self) -> Iterator[Segment]:
        """Closed segments that have no list of their keys yet."""
        for shard in self._shards:
            names = set(self._disk.names(directory_of(shard.shard)))
            seed = seed_of(self.manifest.log_id, shard.shard)
            for first_seq, stem in stems(self._disk, shard.shard).items():
                if first_seq < shard.first_seq and (stem + KEYS).rpartition("/")[2] not in names:
                    yield Segment(self._disk, shard.shard, first_seq, seed, stem)

    def begin_packing(self) -> Kept | None:
        """A segment that is to be packed now, if there is one. It stays until `end_packing`."""
        if not self._has_lock():
            return None
        known = [one for one in self._untrimmed() if one.stem not in self._unpackable]
        age_ns = 0 if self._is_short_of_room() else self._settings.pack_age_ns
        self._packing = to_pack(known, self._settings, self._wall_ns(), age_ns)
        return self._packing

    def pack(
        self, segment: Kept, limits: Limits, is_ending: Callable[[], bool] = lambda: False
    ) -> bool:
        """Pack it: `pack.pack`. Others may use the writer meanwhile."""
        where = (segment.shard, segment.first_seq, seed_of(self.manifest.log_id, segment.shard))
        return pack(self._disk, *where, self._settings.packing, limits, is_ending)

    def end_packing(self, *, done: bool) -> None:
        """It was packed; or it could not be, and is not tried again."""
        was, self._packing = self._packing, None
        assert was is not None
        if not done:
            self._unpackable.add(was.stem)
            return
        now = self._kept(was.shard, was.first_seq)
        self._closed_segments[self._closed_segments.index(was)] = now
        self._replaced.append((was, self._wall_ns()))
        self.used_len += now.length
        self.report.packed_count += 1

    def packable_count(self) -> int:
        """How many segments are to be packed still, sooner or later."""
        return sum(not one.packed for one in self._untrimmed())

    def _is_short_of_room(self) -> bool:
        return is_short_of_room(self.used_len, self._disk.space(), self._settings)

    def _untrimmed(self) -> list[Kept]:
        """Closed segments without the newest of a shard: its name says where rows go on."""
        newest = {shard.shard: shard.newest_seq for shard in self._shards}
        return [one for one in self._closed_segments if one.first_seq < newest[one.shard]]

    def close(self) -> None:
        """Give the log to the next writer."""
        is_owner = self._has_lock()
        for shard in self._shards:
            shard.close(is_owner=is_owner)
        if self._broken is None and is_owner:
            with contextlib.suppress(OSError):  # the next writer does it
                for replaced in list(self._replaced):
                    self._remove_replaced(replaced)
                self._note_ends()
        self._ends.close()
        self._lock.close()
        self._broken = self._broken or "it was closed"

    def _write(self, blocks: Sequence[tuple[ShardWriter, Rows]]) -> None:
        self._check_lock()
        now = self._wall_ns()
        try:
            for shard, rows in blocks:
                shard.write(rows, now)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise self._end(f"writing failed: {error}") from error
            try:
                for shard, _ in blocks:
                    shard.withdraw()
            except OSError as second:
                raise self._end(f"taking rows back failed: {second}") from second
            raise StoreError(f"no room for rows: {error}; none of them was kept") from error
        try:
            for shard, _ in blocks:
                shard.sync()
                shard.check_linked()
            self._check_lock()
            for shard, _ in blocks:
                record = shard.publish()
                self._ends.note(shard.shard, record.end_seq)
                self.used_len += record.length
        except OSError as error:
            raise self._end(f"synchronising failed: {error}") from error

    def _check_lock(self) -> None:
        """Whether nobody else can be writing, and the directory is there.

        Raises:
            StoreError: the file `lock` is not the one that was locked.
        """
        if not self._has_lock():
            raise self._end(
                "its directory or its file `lock` was deleted, renamed or replaced, so that the log"
                " may be gone or have another writer; see that one recorder writes to it, and"
                " restore the directory under its name"
            )

    def _has_lock(self) -> bool:
        return self._disk.has_file("lock", self._lock)

    def _end(self, reason: str) -> StoreError:
        self._broken = reason
        return StoreError(f"{reason}; what was appended may be on disk or not: open the log again")

    def _check_broken(self) -> None:
        if self._broken is not None:
            raise StoreError(f"this log is not written to any more: {self._broken}; open it again")

    def _check_room(self, more: int) -> None:
        reason = refusal(self.used_len, more, self._disk.space(), self._settings)
        if reason is not None:
            raise reason

    def _begin_epoch(self, new_id: Callable[[], uuid.UUID]) -> Manifest:
        """Read what the log says of itself, and say that it is opened once more."""
        try:
            old = read_manifest(self._disk)
            new = Manifest(
                *(old.log_id, old.shards_count, old.epoch + 1, old.ends, old.written_format)
            )
        except FileNotFoundError:
            new = Manifest(new_id(), self._settings.shards_count, 1)
        for shard in range(new.shards_count):
            self._disk.make_directory(directory_of(shard))
        self._disk.make_directory(consumer_files.DIRECTORY)
        self._disk.sync_directory("")
        write_manifest(self._disk, new)
        crash.point("log.after_epoch")
        return new

    def _note_ends(self) -> None:
        """Write down how far the shards go: what is missing later was there."""
        ends = tuple(self.ends())
        if ends != self.manifest.ends:
            self.manifest = dataclasses.replace(self.manifest, ends=ends)
            write_manifest(self._disk, self.manifest)

    def _recover(self) -> list[ShardWriter]:
        known = consumer_files.load(self._disk, self.manifest.log_id)
        self.report.unreadable_consumers = known.unreadable
        ends = read_ends(self._disk, self.manifest.log_id, self.manifest.shards_count)
        shards = []
        for number in range(self.manifest.shards_count):
            seed = seed_of(self.manifest.log_id, number)
            committed = max((one.offsets.get(number, 0) for one in known.consumers), default=0)
            end = max(self.manifest.end_of(number), ends[number])
            found = recover(self._disk, number, seed, committed, end, self.manifest.head)
            self._clean(number)
            self.report.damage += found.damage
            self.report.cut_len += found.cut_len
            shards.append(
                ShardWriter(
                    *(self._disk, number, seed, self.manifest.epoch, self._settings),
                    next_seq=found.next_seq,
                    first_seq=found.first_seq,
                    data_len=found.data_len,
                    blocks_count=found.blocks_count,
                    began_ns=found.began_ns,
                    head=self.manifest.head,
                )
            )
        return shards

    def _clean(self, shard: int) -> None:
        """Remove what a crash left of files that were being made or removed; no others."""
        directory = directory_of(shard)
        current = set(stems(self._disk, shard).values())
        names = [one for one in self._disk.names(directory) if _OWN.match(one)]
        gone = [one for one in names if f"{directory}/{one.rpartition('.')[0]}" not in current]
        gone.sort(key=lambda one: not one.endswith(DATA))
        if gone:  # what was packed has its name for good before what it was made of goes
            self._disk.sync_directory(directory)
        for name in gone:
            self._disk.remove(f"{directory}/{name}")

    def _find_closed(self) -> list[Kept]:
        found = []
        for shard in self._shards:
            seqs = [one for one in first_seqs(self._disk, shard.shard) if one < shard.first_seq]
            for first_seq, end_seq in itertools.pairwise([*seqs, shard.first_seq]):
                found.append(self._kept(shard.shard, first_seq, end_seq))
        return found

    def _count(self) -> int:
        """The octets of the log."""
        known = [*self._closed_segments, *(one for one, _ in self._replaced)]
        return sum(one.length for one in known) + sum(one.data_len for one in self._shards)

    def _newly_closed(self) -> list[Kept]:
        found = []
        for shard in self._shards:
            found += [self._kept(shard.shard, first_seq) for first_seq in shard.sealed]
            shard.sealed.clear()
        return found

    def _kept(self, shard: int, first_seq: int, end_seq: int | None = None) -> Kept:
        segment = Segment(self._disk, shard, first_seq, seed_of(self.manifest.log_id, shard))
        if end_seq is not None and segment.end_seq != end_seq:  # the index is not whole
            segment.rebuild(indexed_only=False)
        length = 0
        for suffix in (DATA, INDEX, KEYS):
            try:
                length += self._disk.size(segment.stem + suffix)
            except FileNotFoundError:
                continue
        written_ns = segment.written_ns
        return Kept(
            *(shard, first_seq, segment.end_seq, segment.appended_s * _NS or written_ns, length),
            blocks_count=len(segment.records),
            closed_ns=written_ns,
            packed=segment.stem.endswith(PACKED),
        )

    def _remove(self, segment: Kept) -> None:
        for replaced in self._replaced:  # or it would come back
            if replaced[0].first_seq == segment.first_seq and replaced[0].shard == segment.shard:
                self._remove_replaced(replaced)
                break
        crash.point("log.before_trim")
        self._remove_files(segment)
        self._closed_segments.remove(segment)

    def _remove_replaced(self, replaced: tuple[Kept, int]) -> None:
        crash.point("log.before_unpacked_removed")
        self._remove_files(replaced[0])
        self._replaced.remove(replaced)

    def _remove_files(self, segment: Kept) -> None:
        """The data first: what is left without them is removed by the next writer."""
        self._disk.remove(segment.stem + DATA)
        # Before anything newer goes: a power loss must not make a hole.
        self._disk.sync_directory(directory_of(segment.shard))
        crash.point("log.after_trim_data")
        self._disk.remove(segment.stem + INDEX)
        self._disk.remove(segment.stem + KEYS)
        self.used_len -= segment.length


def shard_of(key: str, shards_count: int) -> int:
    """The shard of a key."""
    return zlib.crc32(key.encode()) % shards_count


def _split(rows: Rows, shards_count: int) -> dict[int, Rows]:
    """Rows by shard."""
    if isinstance(rows, Single):
        return {shard_of(rows.key, shards_count): rows}
    batch = checked(rows)
    if not batch.num_rows:
        return {}
    keys = batch.column("key")
    if shards_count == 1:
        return {0: compact(batch) if len(keys.dictionary) > batch.num_rows else batch}
    of_key = pa.array([shard_of(key, shards_count) for key in keys.dictionary.to_pylist()])
    of_row = of_key.take(keys.indices)
    return {
        shard: compact(batch.filter(pc.equal(of_row, pa.scalar(shard, of_row.type))))
        for shard in sorted(of_row.unique().to_pylist())
    }


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else joined([batch_of(rows) for rows in parts])


def _length_of(rows: Rows) -> int:
    return rows.length if isinstance(rows, Single) else length_of(rows)


def _stored(parts: list[dict[int, Rows]], firsts: dict[int, int]) -> list[Stored]:
    next_seq = dict(firsts)
    stored = []
    for part in parts:
        ranges = {}
        for shard, batch in part.items():
            ranges[shard] = (next_seq[shard], next_seq[shard] + batch.num_rows)
            next_seq[shard] += batch.num_rows
        stored.append(Stored(ranges))
    return stored

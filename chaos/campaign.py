"""One life of a log on a disk that fails, by a seed; and the laws that hold through all of it.

I1   what was acknowledged is there, once, whole, where it was said to be; the rest at most once
I13  a log opens after any crash, and without damage to the disk none is found
I14  a number that was ever read gives the same row for as long as it is retained
"""

from __future__ import annotations

import random
import uuid

from chaos.disk import FaultDisk, MemoryPlatter, PowerLossError
from tests.unit.store.log.rows import numbers_of, rows

from elea import crash
from elea.errors import StoreError
from elea.limits import Limits
from elea.store.log import consumers, index
from elea.store.log.pack import pack
from elea.store.log.reader import LogReader
from elea.store.log.record import seed_of
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Stored, Writer

LIMITS = Limits(log_block_rows_count=50)
GRACE_NS = 20_000_000_000  # after so long a time the files are gone that were packed


class BrokenLawError(AssertionError):
    """What must not happen did."""


class Life:
    """A log from its first row, through crashes, to its last."""

    def __init__(self, seed: int, *, lies: bool = False) -> None:
        self.rng = random.Random(seed)
        self.platter = MemoryPlatter()
        self.lies = lies
        self.settings = LogSettings(
            shards_count=self.rng.choice([1, 1, 3]),
            segment_len=self.rng.choice([1, 8_000, 40_000]),
            compression=self.rng.choice(["zstd", "none"]),
            packing=self.rng.choice(["zstd", "none"]),
            pack_age_ns=0,
            retain_len=self.rng.choice([None, 30_000]),
            low_water_percent=0,
        )
        self.next_number = 0
        self.now_ns = 0
        # By shard and number of the row: which row was acknowledged or seen there.
        self.fixed: dict[tuple[int, int], int] = {}
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.first: dict[int, int] = {}
        self.crashes_count = 0

    def live(self, crashes_count: int) -> None:
        """Open, append, crash; again and again. Then look once more."""
        for _ in range(crashes_count):
            disk = FaultDisk(self.platter, self.rng)
            disk.lies = self.lies
            disk.steps_left = self.rng.randint(1, 120)
            try:
                self._work(disk)
                disk.lose_power()
            except PowerLossError:
                pass
            self.crashes_count += 1
        disk = FaultDisk(self.platter, self.rng)
        self._open(disk).close()

    def _open(self, disk: FaultDisk) -> Writer:
        writer = Writer(disk, self.settings, lambda: self.now_ns, lambda: uuid.UUID(int=7))
        if writer.report.damage:
            raise BrokenLawError(f"I13: {writer.report.damage[0]}")
        self._check(disk, writer.ends())
        return writer

    def _work(self, disk: FaultDisk) -> None:
        writer = self._open(disk)
        for _ in range(self.rng.randint(1, 20)):
            what = self.rng.random()
            if what < 0.05:
                disk.sync_errors = 1
            elif what < 0.1:
                disk.free_len = self.rng.randint(0, 3_000)
            elif what < 0.2:
                self._trim(writer)
            elif what < 0.25:
                self._list_keys(disk, writer)
            elif what < 0.4:
                disk.free_len = self.rng.choice([1 << 40, 1 << 40, 3_000])
                self._trim(writer)
                self._pack(disk, writer)
                disk.free_len = 1 << 40
                self.now_ns += self.rng.choice([0, GRACE_NS])
            elif what < 0.45:
                log_id = writer.manifest.log_id
                offsets = dict(enumerate(writer.ends()))
                consumers.commit(disk, "reader", log_id, offsets, now_ns=0)
            self._append(writer)
            disk.free_len = 1 << 40
            if writer.broken is not None:
                return
            if self.rng.random() < 0.2:
                self._check(disk, writer.ends())

    def _append(self, writer: Writer) -> None:
        batches = []
        for _ in range(self.rng.randint(1, 3)):
            count = self.rng.choice([1, 1, 2, 5, 40])
            batches.append((self.next_number, count))
            self.next_number += count
        try:
            stored = writer.commit([rows(*one, keys_count=5) for one in batches])
        except StoreError:
            if writer.broken is None:  # refused: not kept, and never to appear
                self.refused |= {n for first, count in batches for n in range(first, first + count)}
            return
        for (first, count), where in zip(batches, stored, strict=True):
            self._acknowledge(first, count, where)

    def _acknowledge(self, first: int, count: int, where: Stored) -> None:
        numbers = set(range(first, first + count))
        self.acknowledged |= numbers
        if self.settings.shards_count == 1:
            [(low, high)] = where.ranges.values()
            if high - low != count:
                raise BrokenLawError(f"I1: {count} rows were given the numbers {low} to {high}")
            for number in range(count):
                self.fixed[0, low + number] = first + number

    def _trim(self, writer: Writer) -> None:
        for one in writer.trim():
            self.first[one.segment.shard] = one.segment.end_seq

    def _list_keys(self, disk: FaultDisk, writer: Writer) -> None:
        for segment in writer.unlisted():
            index.build(disk, segment)

    def _pack(self, disk: FaultDisk, writer: Writer) -> None:
        segment = writer.begin_packing()
        if segment is None:
            return
        seed = seed_of(writer.manifest.log_id, segment.shard)
        done = False
        try:
            done = pack(
                *(disk, segment.shard, segment.first_seq, seed), self.settings.packing, LIMITS
            )
        except OSError:
            crash.sometimes("log.not_packed")
        writer.end_packing(done=done)
        crash.sometimes("log.packed")

    def _check(self, disk: FaultDisk, ends: list[int]) -> None:
        reader = LogReader(disk)
        seen: set[int] = set()
        trimmed = False
        for shard, end in enumerate(ends):
            bounds = reader.bounds(shard)
            trimmed = trimmed or bounds.first > 0
            if bounds.end != end and not (bounds.end == 0 and end == 0):
                raise BrokenLawError(f"I13: readers see {bounds}, the writer {end}")
            numbers = numbers_of(list(reader.read(shard, bounds.first)))
            if len(numbers) != end - bounds.first:
                raise BrokenLawError(f"I1: {len(numbers)} rows from {bounds.first} to {end}")
            for seq, number in enumerate(numbers, bounds.first):
                if self.fixed.setdefault((shard, seq), number) != number:
                    raise BrokenLawError(f"I14: row {seq} of shard {shard} changed to {number}")
            if seen & set(numbers) or len(set(numbers)) != len(numbers):
                raise BrokenLawError(f"I1: a row of shard {shard} is there twice")
            seen |= set(numbers)
            lost = [
                seq
                for (which, seq), _ in self.fixed.items()
                if which == shard and bounds.first <= seq and seq >= end
            ]
            if lost:
                raise BrokenLawError(f"I14: row {lost[0]} of shard {shard} is gone")
        if self.refused & seen:
            raise BrokenLawError(f"I1: {len(self.refused & seen)} refused rows are there")
        if not trimmed and self.acknowledged - seen:
            raise BrokenLawError(f"I1: {len(self.acknowledged - seen)} acknowledged rows are gone")

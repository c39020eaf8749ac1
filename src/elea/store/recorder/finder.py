"""Finder: where samples are that are recorded already, by memory or in the log itself.

The places of samples that were acknowledged lately are remembered. Of the last rows of each shard
the numbers and timestamps are (`tail.py`), so that few rows are read to compare a sample. Rows
before those are found by key and time, if they can be that old.

What live rows may cost has a bound, as anybody can make rows look as if they were recorded already.
It is counted in rows of a tail that are looked at, to which all else is compared.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import EleaError
from elea.limits import Limits
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.single import Rows, Single
from elea.store.log.writer import shard_of
from elea.store.recorder.counts import Counts
from elea.store.recorder.flight import AMBIGUOUS, Flight, Place, Put, Refusal, samples_of
from elea.store.recorder.marks import (
    MARKED,
    Mark,
    Question,
    SampleId,
    mark_of,
    repeated_rows,
    without_rows,
)
from elea.store.recorder.tail import Sought, Tail
from elea.store.recorder.windows import Identity, Windows
from elea.timestamp import Timestamp

_NS: Final = 1_000_000_000
_NEAR: Final = 10 << 32  # rows so near in time are looked up together: ten seconds
_CANDIDATES_COUNT: Final = 64  # rows with one key, number and timestamp that are compared
_TOGETHER_COUNT: Final = 64  # rows between two that are read together
_OLD_BLOCKS_COUNT: Final = 256  # blocks before the tail that are read for one look
# What else costs, in rows of a tail.
_MARK_COST: Final = 4_096  # the digest of a row
_READ_COST: Final = 16_384  # to begin to read some rows,
_ROW_COST: Final = 16  # and for each of them
_SAME_COUNT: Final = 8  # samples of one number and key whose places are remembered
_DELETE: Final = pa.scalar(int(RowKind.DELETE), pa.int8())
_BY_KEY_AND_TIME: Final = operator.attrgetter("key", "bits")


class Found(NamedTuple):
    """A sample, and where it is."""

    mark: Mark
    shard: int
    seq: int


class Looked(NamedTuple):
    """What a look for some samples found, and which of them were under way at that time."""

    found: dict[SampleId, Found]
    under_way: set[SampleId]


class Finder:
    """What is recorded in one log.

    Args:
        log: It.
        limits: How much is remembered and looked through.
        counts: Where looks that compared less than there was are counted.
    """

    def __init__(self, log: Log, limits: Limits, counts: Counts) -> None:
        self._limits = limits
        self._lock = threading.Lock()  # of the reader: whoever looks
        self._reader = LogReader(log.disk, lambda _: None)
        self.tails = [Tail(limits.record_tail_rows_count) for _ in range(self._reader.shards_count)]
        self._places: dict[tuple[Identity, str], list[Found]] = {}  # the newest is the last
        self._counts = counts
        self._cost = 0  # of looks in this second
        self._second = -1

    # Memory: changed under the book's lock.

    def remember(self, mark: Mark, shard: int, seq: int) -> None:
        """Where a sample is from now on."""
        id = (mark.identity, mark.key)
        known = self._places.setdefault(id, [])
        if any((one.shard, one.seq) == (shard, seq) for one in known):
            return
        known.append(Found(mark, shard, seq))
        del known[:-_SAME_COUNT]
        if len(self._places) > self._limits.record_places_count:
            del self._places[next(iter(self._places))]

    def noted(self, found: Found | Refusal | None) -> Place | Refusal | None:
        """What was found, as an answer; and remembered.

        Whoever asks again, as it took too long, is answered from memory: else a host that is too
        slow for all questions would answer none of them in time.
        """
        if not isinstance(found, Found):
            return found
        self.remember(*found)
        return Place(found.shard, found.seq, duplicate=False)

    def add_rows(self, rows: Rows, ranges: dict[int, tuple[int, int]]) -> None:
        """Rows are in the log, at these offsets of their shards."""
        if isinstance(rows, Single):
            for shard, (start, _) in ranges.items():
                self.tails[shard].add_single(rows, start)
            return
        shards = None
        if len(ranges) > 1:
            keys = rows.column("key")
            of_key = [shard_of(key, len(self.tails)) for key in keys.dictionary.to_pylist()]
            shards = pa.array(of_key, pa.int64()).take(keys.indices)
        for shard, (start, end) in ranges.items():
            part = rows
            if shards is not None:
                part = rows.filter(pc.equal(shards, pa.scalar(shard, pa.int64())))
            self.tails[shard].add(part, pa.array(range(start, end), pa.int64()))

    def recollect(self, identity: Identity, key: str) -> Sequence[Found]:
        """What is remembered of a number on a key."""
        return tuple(self._places.get((identity, key), ()))

    def fitting(self, question: Question) -> list[Found]:
        """What is remembered of the samples that a question may mean."""
        found = self.recollect(question.identity, question.key)
        return [one for one in found if question.fits(one.mark)]

    def without_known(
        self,
        batch: Rows,
        suspects: Sequence[int],
        flights: Iterable[Flight],
        now_ns: int | None,
    ) -> tuple[Rows, list[Found]]:
        """Rows without those of some suspects that are under way or recorded: duplicates.

        Args:
            now_ns: The time, for live rows: what exceeds the bound of a second stays; None: nothing
                does.

        Returns:
            The rows, and the duplicates that are on disk.
        """
        marks: dict[int, Mark] = {}
        known: dict[SampleId, Found | None] = {}
        step = self._limits.record_suspects_count
        for start in range(0, len(suspects), step):
            is_free = now_ns is None or self._may_look(now_ns)
            if not is_free and start:
                self._counts.unchecked += len(suspects) - start
                break
            rows = suspects[start : start + step]
            some = {row: mark for row in rows if (mark := mark_of(batch, row)) is not None}
            found, unknown_count = self._known(some.values(), flights, may_look=is_free)
            self._counts.unchecked += len(rows) - len(some) + unknown_count
            known |= found
            marks |= some
        duplicates = {row for row, mark in marks.items() if mark.sample in known}
        duplicates |= repeated_rows(batch, marks)
        self._counts.duplicates += len(duplicates)
        stored = [one for one in known.values() if one is not None]
        return without_rows(batch, duplicates), stored

    def _known(
        self, marks: Collection[Mark], flights: Iterable[Flight], *, may_look: bool
    ) -> tuple[dict[SampleId, Found | None], int]:
        """Those samples that are recorded or, None, under way; and how many were not looked up.

        No lock of the book is held: what is remembered meanwhile is in the log, too.
        """
        self._cost += _MARK_COST * len(marks)
        known: dict[SampleId, Found | None] = dict.fromkeys(samples_of(flights, marks))
        for mark in marks:
            place = self.remembered(mark)
            if place is not None:
                known[mark.sample] = place
        unknown = [mark for mark in marks if mark.sample not in known]
        if not may_look:
            return known, len(unknown)
        return known | self.find(unknown), 0

    def suspects(
        self, puts: Sequence[Put], marks: Sequence[Mark | None], windows: Windows
    ) -> list[Mark]:
        """Under the book's lock: samples with a timestamp that have to be looked for."""
        return [
            mark
            for put, mark in zip(puts, marks, strict=True)
            if mark is not None
            and put.is_stamped
            and (windows.has_forgotten or windows.may_have(mark.identity, mark.key, mark.bits))
            and self.remembered(mark) is None
        ]

    def look(self, marks: Sequence[Mark], flights: Iterable[Flight]) -> Looked:
        """Look for samples, all at once."""
        under_way = samples_of(flights, marks)
        return Looked(self.find(one for one in marks if one.sample not in under_way), under_way)

    def found(self, mark: Mark, looked: Looked) -> list[Found]:
        """Where a sample is that was looked for, and is not under way now."""
        if mark.sample in looked.under_way:  # it became durable meanwhile
            return list(self.find([mark]).values())
        return [looked.found[mark.sample]] if mark.sample in looked.found else []

    def remembered(self, mark: Mark) -> Found | None:
        """The place of a sample, if it is remembered."""
        places = self.recollect(mark.identity, mark.key)
        return next((one for one in places if one.mark.is_same(mark)), None)

    def _may_look(self, now_ns: int) -> bool:
        """Whether to look into the log for live rows: looks in one second may cost so much."""
        if now_ns // _NS != self._second:
            self._second, self._cost = now_ns // _NS, 0
        return self._cost < self._limits.record_looked_rows_count

    # The log: no lock of the book is held. What cannot be read is not found, and recorded again.

    def has_stamp(self, key: str, stamp: Timestamp) -> bool:
        """Whether there is a row of a key with a timestamp."""
        bits = stamp.time.value
        columns = ["key", "hlc", "hlc_id", "recv_ts"]
        with self._lock, suppress(EleaError, OSError):
            found = self._reader.select(key, since=bits, until=bits + 1, columns=columns)
            return any(str(stamp.id) in batch.column("hlc_id").to_pylist() for batch in found)
        return False

    def find(self, marks: Iterable[Mark]) -> dict[SampleId, Found]:
        """Those of these samples that are in the log."""
        by_shard: dict[int, list[Mark]] = {}
        for mark in marks:
            by_shard.setdefault(self._shard_of(mark.key), []).append(mark)
        found: dict[SampleId, Found] = {}
        for shard, some in by_shard.items():
            wanted = {mark.sample for mark in some}
            for one in self._candidates(shard, some):
                if one.mark.sample in wanted:
                    found.setdefault(one.mark.sample, one)
        return found

    def find_body(self, mark: Mark, fits: Callable[[Mark], bool]) -> list[Found]:
        """The last sample that agrees but for the timestamp, if it came lately."""
        since_us = mark.received_us - self._limits.record_retry_ns // 1_000
        for one in self._last(mark.identity, mark.key, since_us):
            if fits(one.mark):
                return [one]
        return []

    def answer(self, question: Question) -> Found | Refusal | None:
        """The sample that a question means; None: it is nowhere."""
        if question.bits is None:
            found = self._last(question.identity, question.key)
        else:
            sought = Sought(question.key, question.identity.sn, question.bits)
            found = self._at(self._shard_of(question.key), [sought])
        meant = [one for one in found if question.fits(one.mark)]
        if not meant:
            return None
        first = meant[0]
        is_one = all(one.mark.digest == first.mark.digest for one in meant)
        return first if is_one else AMBIGUOUS

    def _candidates(self, shard: int, marks: Sequence[Mark]) -> Iterator[Found]:
        """Rows of a shard with the keys, numbers and timestamps of samples."""
        sought = [
            Sought(mark.key, mark.identity.sn, mark.bits) for mark in marks if mark.bits is not None
        ]
        yield from self._at(shard, sought)
        for mark in marks:
            if mark.bits is None:
                yield from self._last(mark.identity, mark.key)

    def _at(self, shard: int, sought: Sequence[Sought]) -> Iterator[Found]:
        """Rows of a shard that agree in key, number and timestamp."""
        if not sought:
            return
        tail = self.tails[shard]
        hits = tail.find_samples(sought, _CANDIDATES_COUNT * len(sought))
        self._cost += hits.looked_count
        self._counts.unchecked += hits.is_cut
        yield from self._rows(shard, hits.seqs, {one.sn for one in sought})
        if not tail.first_seq:
            return
        # What was received before the tail has no newer timestamp, but for clocks that are ahead.
        old = [one for one in sought if one.bits <= tail.floor + _NEAR]
        old.sort(key=_BY_KEY_AND_TIME)
        start = 0
        for end in range(1, len(old) + 1):
            is_apart = end == len(old) or old[end].key != old[start].key
            if is_apart or old[end].bits - old[end - 1].bits > _NEAR:
                some = old[start:end]
                numbers = {one.sn for one in some}
                yield from self._before(tail, some[0].key, some[0].bits, some[-1].bits, numbers)
                start = end

    def _shard_of(self, key: str) -> int:
        return shard_of(key, self._reader.shards_count)

    def _before(
        self, tail: Tail, key: str, first: int, last: int, numbers: set[int]
    ) -> Iterator[Found]:
        """Rows before the tail, of a key and a span of time."""
        left = itertools.count(1)
        with self._lock, suppress(EleaError, OSError):
            batches = self._reader.select(
                key,
                since=first,
                until=last + 1,
                columns=MARKED,
                position=True,
                end=tail.first_seq,
                may_read=lambda: next(left) <= _OLD_BLOCKS_COUNT,
            )
            for batch in batches:
                self._cost += _ROW_COST * batch.num_rows
                yield from _found(batch, numbers)
        blocks_count = next(left) - 1
        self._cost += _READ_COST * (1 + blocks_count)
        self._cut(blocks_count, _OLD_BLOCKS_COUNT)

    def _last(self, identity: Identity, key: str, since_us: int = 0) -> Iterator[Found]:
        """Rows of a number on a key, the last ones first, of those in the tail.

        Args:
            since_us: When they were received, at least.
        """
        shard = self._shard_of(key)
        seqs = self.tails[shard].find(key, [identity.sn])
        self._cut(len(seqs), _CANDIDATES_COUNT)
        for one in reversed(list(self._rows(shard, seqs[-_CANDIDATES_COUNT:], {identity.sn}))):
            if one.mark.received_us < since_us:
                return
            if one.mark.identity == identity and one.mark.key == key:
                yield one

    def _rows(self, shard: int, seqs: list[int], numbers: set[int]) -> Iterator[Found]:
        """Rows by their offsets, ascending. Those that are near each other are read together."""
        start = 0
        for end in range(1, len(seqs) + 1):
            if end < len(seqs) and seqs[end] - seqs[end - 1] <= _TOGETHER_COUNT:
                continue
            wanted = pa.array(seqs[start:end], pa.int64())
            span = (seqs[start], seqs[end - 1] + 1)
            self._cost += _READ_COST + _ROW_COST * (span[1] - span[0]) + _MARK_COST * (end - start)
            start = end
            with self._lock, suppress(EleaError, OSError):
                for batch in self._reader.read(shard, *span, columns=MARKED, position=True):
                    is_wanted = pc.is_in(batch.column("seq"), value_set=wanted)
                    yield from _found(batch.filter(is_wanted), numbers)

    def _cut(self, count: int, most: int) -> None:
        """Count a look that compares less than there is: its sample may be recorded again."""
        self._counts.unchecked += count > most


def _found(batch: pa.RecordBatch, numbers: set[int]) -> Iterator[Found]:
    known = pc.is_in(batch.column("sn"), value_set=pa.array(list(numbers), pa.int64()))
    known = pc.and_(known, pc.less_equal(batch.column("kind"), _DELETE))
    for row in pc.indices_nonzero(known).to_pylist():
        mark = mark_of(batch, row)
        if mark is not None:
            shard, seq = (batch.column(name)[row].as_py() for name in ("shard", "seq"))
            yield Found(mark, shard, seq)

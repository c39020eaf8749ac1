"""Finder: where samples are that are recorded already, by memory or in the log itself.

The places of samples that were acknowledged lately are remembered. All others are in the log: those
with a timestamp are found by key and time, those without among the last rows of their shard.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import EleaError
from elea.limits import Limits
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.writer import shard_of
from elea.store.recorder.flight import AMBIGUOUS, Place, Refusal
from elea.store.recorder.marks import MARKED, Mark, Question, mark_of
from elea.store.recorder.windows import Identity
from elea.timestamp import Timestamp

_NS: Final = 1_000_000_000
_NEAR: Final = 10 << 32  # rows so near in time are looked up together: ten seconds
_LOOK_ROWS: Final = 65_536  # rows that are looked through at once, from the end on
_SAME_COUNT: Final = 8  # samples of one number and key whose places are remembered
_DELETE: Final = pa.scalar(int(RowKind.DELETE), pa.int8())
_NUMBERED: Final = ("key", "zid", "eid", "sn", "recv_ts")


class Found(NamedTuple):
    """A sample, and where it is."""

    mark: Mark
    shard: int
    seq: int


class Finder:
    """What is recorded in one log.

    Args:
        log: It.
        limits: How much is remembered and looked through.
    """

    def __init__(self, log: Log, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()  # of the reader: whoever looks
        self._reader = LogReader(log.disk, lambda _: None)
        self._places: dict[tuple[Identity, str], list[Found]] = {}  # the newest is the last
        self._left_count = 0  # looks for live rows in this second
        self._second = -1

    # Memory: under the book's lock.

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

    def recollect(self, identity: Identity, key: str) -> Sequence[Found]:
        """What is remembered of a number on a key."""
        return self._places.get((identity, key), ())

    def remembered(self, marks: Iterable[Mark]) -> set[bytes]:
        """The digests of those samples whose places are remembered."""
        return {
            mark.digest
            for mark in marks
            if any(one.mark.is_same(mark) for one in self.recollect(mark.identity, mark.key))
        }

    def may_look(self, now_ns: int) -> bool:
        """Whether to look into the log for a live row: so many times a second."""
        if now_ns // _NS != self._second:
            self._second, self._left_count = now_ns // _NS, self._limits.record_lookups_count
        self._left_count -= 1
        return self._left_count >= 0

    # The log: no lock of the book is held. What cannot be read is not found, and recorded again.

    def has_stamp(self, key: str, stamp: Timestamp) -> bool:
        """Whether there is a row of a key with a timestamp."""
        bits = stamp.time.value
        columns = ["key", "hlc", "hlc_id", "recv_ts"]
        with self._lock, suppress(EleaError, OSError):
            found = self._reader.select(key, since=bits, until=bits + 1, columns=columns)
            return any(str(stamp.id) in batch.column("hlc_id").to_pylist() for batch in found)
        return False

    def find(self, marks: Iterable[Mark]) -> dict[bytes, Found]:
        """Those of these samples that are in the log, by digest."""
        by_key: dict[str, list[Mark]] = {}
        for mark in marks:
            by_key.setdefault(mark.key, []).append(mark)
        found: dict[bytes, Found] = {}
        for some in by_key.values():
            wanted = {mark.digest: mark for mark in some}
            for one in self._candidates(some):
                same = wanted.get(one.mark.digest)
                if same is not None and same.is_same(one.mark):
                    found.setdefault(same.digest, one)
        return found

    def find_body(self, mark: Mark) -> list[Found]:
        """The last sample that agrees but for the timestamp, if it came lately."""
        since_us = mark.received_us - self._limits.record_retry_ns // 1_000
        for one in self._last(mark.identity, mark.key, since_us):
            if one.mark.is_body(mark):
                return [one]
        return []

    def answer(self, question: Question) -> Found | Refusal | None:
        """The sample that a question means; None: it is nowhere."""
        if question.bits is None:
            found = self._last(question.identity, question.key)
        else:
            found = self._at(question.key, [question.bits], {question.identity.sn})
        meant = [one for one in found if question.fits(one.mark)]
        if not meant:
            return None
        first = meant[0]
        is_one = all(one.mark.is_same(first.mark) for one in meant)
        return first if is_one else AMBIGUOUS

    def _candidates(self, marks: list[Mark]) -> Iterator[Found]:
        """Rows of one key with the timestamps and numbers of samples."""
        stamped = sorted((mark for mark in marks if mark.bits is not None), key=_bits)
        start = 0
        for end in range(1, len(stamped) + 1):
            if end == len(stamped) or _bits(stamped[end]) - _bits(stamped[end - 1]) > _NEAR:
                some = stamped[start:end]
                numbers = {mark.identity.sn for mark in some}
                yield from self._at(some[0].key, [_bits(mark) for mark in some], numbers)
                start = end
        for mark in marks:
            if mark.bits is None:
                yield from self._last(mark.identity, mark.key)

    def _at(self, key: str, bits: list[int], numbers: set[int]) -> Iterator[Found]:
        span = {"since": bits[0], "until": bits[-1] + 1}
        with self._lock, suppress(EleaError, OSError):
            for batch in self._reader.select(key, **span, columns=MARKED, position=True):
                yield from _found(batch, numbers)

    def _last(self, identity: Identity, key: str, since_us: int = 0) -> Iterator[Found]:
        """Rows of a number on a key, the last ones first, of those that are looked through.

        Args:
            since_us: When they were received, at least.
        """
        shard = shard_of(key, self._reader.shards_count)
        with self._lock, suppress(EleaError, OSError):
            bounds = self._reader.bounds(shard)
            first = max(bounds.first, bounds.end - self._limits.record_tail_rows_count)
            for end in range(bounds.end, first, -_LOOK_ROWS):
                start = max(end - _LOOK_ROWS, first)
                seqs: list[int] = []
                newest_us = 0
                for batch in self._reader.read(shard, start, end, columns=_NUMBERED, position=True):
                    seqs += _seqs(batch, identity, key)
                    newest_us = max(newest_us, pc.max(batch.column("recv_ts")).value)
                if newest_us < since_us:
                    return
                for seq in reversed(seqs):
                    for batch in self._reader.read(
                        shard, seq, seq + 1, columns=MARKED, position=True
                    ):
                        found = _found(batch, {identity.sn})
                        yield from (one for one in found if one.mark.received_us >= since_us)


def _bits(mark: Mark) -> int:
    assert mark.bits is not None
    return mark.bits


def _found(batch: pa.RecordBatch, numbers: set[int]) -> Iterator[Found]:
    known = pc.is_in(batch.column("sn"), value_set=pa.array(list(numbers), pa.int64()))
    known = pc.and_(known, pc.less_equal(batch.column("kind"), _DELETE))
    for row in pc.indices_nonzero(known).to_pylist():
        mark = mark_of(batch, row)
        if mark is not None:
            shard, seq = (batch.column(name)[row].as_py() for name in ("shard", "seq"))
            yield Found(mark, shard, seq)


def _seqs(batch: pa.RecordBatch, identity: Identity, key: str) -> list[int]:
    mask = pc.equal(batch.column("sn"), pa.scalar(identity.sn, pa.int64()))
    mask = pc.and_(mask, pc.equal(batch.column("eid"), pa.scalar(identity.eid, pa.int64())))
    for name, text in (("zid", identity.zid), ("key", key)):
        column = batch.column(name)
        index = column.dictionary.index(text)
        if index.as_py() < 0:
            return []
        mask = pc.and_(mask, pc.equal(column.indices, index))
    found: list[int] = batch.column("seq").filter(mask).to_pylist()
    return found

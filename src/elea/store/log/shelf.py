"""Shelf: the segments of one shard, kept open by a reader; and where keys are in them."""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import CorruptLogError, OffsetError
from elea.keyexpr.match import intersects
from elea.store.log.disk import Disk
from elea.store.log.head import Head, read_head
from elea.store.log.index import NO_BLOCKS, KeyEntry, KeyIndex, entries, key_blocks
from elea.store.log.segment import DATA, Segment, stem_on, stems

_RUN_COUNT: Final = 262_144  # keys of blocks that are sorted together
_STEP_COUNT: Final = 1_024  # of those, looked at for one key


class Shelf:
    """The segments of one shard, as one reader knows them; by the names of their files."""

    __slots__ = (
        "_disk",
        "_firsts",
        "_heads",
        "_indexes",
        "_recent",
        "_seed",
        "_segments",
        "_stems",
        "number",
    )

    def __init__(self, disk: Disk, number: int, seed: int) -> None:
        self._disk = disk
        self._seed = seed
        self.number = number
        self._stems: dict[int, str] = {}
        self._firsts: list[int] = []
        self._segments: dict[str, Segment] = {}
        self._indexes: dict[str, KeyIndex] = {}
        self._recent: dict[str, _Recent] = {}
        self._heads: dict[str, Head | None] = {}

    def refresh(self) -> tuple[int, int]:
        """Look at the directory, and at what was appended; the first row, and the one after all."""
        self._stems = stems(self._disk, self.number)
        self._firsts = list(self._stems)
        current = set(self._stems.values())
        for known in (self._segments, self._indexes, self._recent, self._heads):
            for gone in [one for one in known if one not in current]:
                del known[gone]
        if not self._firsts:
            return 0, 0
        last = self._segment(self._firsts[-1])
        last.refresh()
        return self._firsts[0], last.end_seq

    def segments(self) -> list[Segment]:
        """All of them, whole."""
        found = []
        for first, limit in itertools.zip_longest(self._firsts, self._firsts[1:]):
            with contextlib.suppress(FileNotFoundError):  # trimmed meanwhile
                found.append(self._whole(first, limit))
        return found

    def others(self) -> list[pa.Field]:
        """The columns of segments that this release does not know."""
        for stem in self._stems.values():
            if self._heads.get(stem) is None:
                with contextlib.suppress(FileNotFoundError):  # trimmed meanwhile
                    self._heads[stem] = read_head(self._disk.map(stem + DATA))
        return [field for head in self._heads.values() if head for field in head.others]

    def segment_of(self, seq: int, end: int) -> tuple[Segment, int]:
        """The segment that has a row, and the number at which the next one begins, or `end`."""
        place = bisect.bisect_right(self._firsts, seq) - 1
        if place < 0:
            first = self._firsts[0] if self._firsts else end
            raise OffsetError(self.number, seq, first, end)
        limit = self._firsts[place + 1] if place + 1 < len(self._firsts) else None
        return self._whole(self._firsts[place], limit), end if limit is None else min(limit, end)

    def index(self, segment: Segment) -> KeyIndex | None:
        """The list of its keys, if somebody made one."""
        found = self._indexes.get(segment.stem)
        if found is None and segment.first_seq != self._firsts[-1]:
            try:
                found = self._indexes[segment.stem] = KeyIndex(self._disk, segment.stem)
                self._recent.pop(segment.stem, None)
            except (FileNotFoundError, CorruptLogError):
                return None
        return found

    def entry(self, segment: Segment, key: str) -> KeyEntry | None:
        """Where a key is in a segment."""
        index = self.index(segment)
        return self._listed(segment).find(key) if index is None else index.find(key)

    def entries(self, segment: Segment, wanted: str) -> Iterator[KeyEntry]:
        """Where the keys that match an expression are in a segment."""
        index = self.index(segment)
        found = self._listed(segment) if index is None else index
        return found.matching(wanted)

    def _listed(self, segment: Segment) -> _Recent:
        recent = self._recent.setdefault(segment.stem, _Recent())
        recent.take(segment)
        return recent

    def _segment(self, first: int) -> Segment:
        stem = self._stems[first]
        found = self._segments.get(stem)
        if found is None:
            found = Segment(self._disk, self.number, first, self._seed, stem)
            self._segments[stem] = found
        return found

    def _whole(self, first: int, limit: int | None) -> Segment:
        """A segment; one that is closed has all rows to the next one, or is made whole again."""
        if limit is None:
            return self._segment(first)
        try:
            return self._held(first, limit)
        except FileNotFoundError:  # trimmed, or packed since we looked
            self._stems[first] = stem_on(self._disk, self.number, first)
            return self._held(first, limit)

    def _held(self, first: int, limit: int) -> Segment:
        segment = self._segment(first)
        if segment.end_seq != limit:
            segment.refresh()
            if segment.end_seq != limit:
                segment.rebuild(indexed_only=False)
        segment.hold()
        return segment


class _Recent:
    """The keys of a segment whose list is not made yet, read from its blocks."""

    __slots__ = ("_blocks_count", "_runs", "_tail")

    def __init__(self) -> None:
        self._blocks_count = 0
        self._runs: list[_Run] = []
        self._tail: pa.Table = NO_BLOCKS

    def take(self, segment: Segment) -> None:
        """Read what was appended since."""
        if self._blocks_count == len(segment.records):
            return
        self._tail = pa.concat_tables([self._tail, key_blocks(segment, self._blocks_count)])
        self._blocks_count = len(segment.records)
        if self._tail.num_rows >= _RUN_COUNT:
            self._runs.append(_Run(self._tail))
            self._tail = NO_BLOCKS

    def find(self, key: str) -> KeyEntry | None:
        wanted = pa.scalar(key, pa.string())
        parts = [*(run.near(key) for run in self._runs), self._tail]
        found = [part.filter(pc.equal(part.column("key"), wanted)) for part in parts]
        return next(entries(pa.concat_tables(found)), None)

    def matching(self, wanted: str) -> Iterator[KeyEntry]:
        rows = pa.concat_tables([*(run.rows for run in self._runs), self._tail])
        known = pc.unique(rows.column("key")).to_pylist()
        listed = pa.array([key for key in known if intersects(wanted, key)], pa.string())
        return entries(rows.filter(pc.is_in(rows.column("key"), value_set=listed)))


class _Run:
    """Keys and blocks, sorted, so that a key is found without looking at all of them."""

    __slots__ = ("_firsts", "rows")

    def __init__(self, rows: pa.Table) -> None:
        order = [("key", "ascending"), ("block", "ascending")]
        self.rows: pa.Table = rows.sort_by(order).combine_chunks()
        places = pa.array(range(0, self.rows.num_rows, _STEP_COUNT), pa.int64())
        self._firsts: list[str] = self.rows.column("key").take(places).to_pylist()

    def near(self, key: str) -> pa.Table:
        """Some rows, all of a key among them."""
        first = max(bisect.bisect_left(self._firsts, key) - 1, 0)
        end = bisect.bisect_right(self._firsts, key)
        return self.rows.slice(first * _STEP_COUNT, (end - first) * _STEP_COUNT)

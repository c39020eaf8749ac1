"""Windows: what was received of each publisher that numbers its samples, bounded.

A sample whose number was seen is a repetition, and dropped; numbers in between that were not seen
are a gap. Samples without a number are never repetitions. What is no longer in the window is taken
as new: twice rather than never. Batches go through as columns; rows are looked at one by one only
where numbers repeat.

After a start the windows are as the end of the log tells them (`recall.py`): what is missing in it,
and no row says so, is a gap again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log.schema import SCHEMA, RowKind
from elea.store.log.single import Rows, Single
from elea.store.recorder.spans import Span, Spans, unwrapped

_ONE: Final = pa.scalar(1, pa.int64())
NO_ROWS: Final = pa.RecordBatch.from_pylist([], SCHEMA)
_DELETE: Final = pa.scalar(int(RowKind.DELETE), pa.int8())
_SESSION_EID: Final = 1  # a session's own: what a program numbers there is its affair
ANY_KEY_EID: Final = 0x8000_0000  # from here on: sessions number acknowledged puts to any key

SourceId: TypeAlias = tuple[str, int]  # zid, eid
Taken: TypeAlias = dict[SourceId, list[Span]]


class Identity(NamedTuple):
    """Which sample of which publisher."""

    zid: str
    eid: int
    sn: int

    @property
    def source(self) -> SourceId:
        """Its publisher."""
        return self.zid, self.eid


class Gap(NamedTuple):
    """Numbers of a publisher that are missing."""

    source: SourceId
    key: str  # of a sample near it
    start: int
    end: int


@dataclass(slots=True)
class _Source:
    spans: Spans
    key: str = ""
    expected_end: int = 0  # what the publisher itself says
    settled: int | None = None  # numbers below are no gap any more
    is_asked: bool = False  # it numbers what it puts to any key: what is not here is no gap
    told: Spans | None = None  # numbers that are missing, and a row says so
    places: dict[int, int] = field(default_factory=dict)  # of those that are asked about


class Windows:
    """The publishers of one log. One thread at a time."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._sources: dict[SourceId, _Source] = {}  # the one seen last is the last
        self._gapped: dict[SourceId, int] = {}  # since when, for those that may have gaps
        self._unjudged: set[SourceId] = (
            set()
        )  # nobody knows what is missing among what was recalled
        self.forgotten_count = 0  # publishers for which there was no room any more

    def take(self, batch: Rows, now_ns: int = 0) -> tuple[Rows, Taken]:
        """The rows that are no repetition, and the numbers that were new."""
        if isinstance(batch, Single):
            return self._take_single(batch, now_ns)
        taken: Taken = {}
        refused: list[int] = []
        for id, rows in _by_source(batch):
            source = self._source(id)
            numbers = batch.column("sn") if rows is None else batch.column("sn").take(rows)
            twice = self._take(source, numbers, taken.setdefault(id, []))
            refused += [place if rows is None else rows[place].as_py() for place in twice]
            first = 0 if rows is None else rows[0].as_py()
            source.key = batch.column("key")[first].as_py()
            self._watch(id, source, now_ns)
        if refused:
            legal = pa.array(sorted(set(range(batch.num_rows)) - set(refused)), pa.int64())
            batch = batch.take(legal)
        return batch, {id: spans for id, spans in taken.items() if spans}

    def _take_single(self, row: Single, now_ns: int) -> tuple[Rows, Taken]:
        if row.sn is None or row.zid is None or row.eid is None:
            return row, {}
        id = row.zid, row.eid
        source = self._source(id)
        number = unwrapped(row.sn, source.spans.end)
        is_new = number not in source.spans
        if is_new:
            source.spans.add(number, number + 1)
        source.key = row.key
        self._watch(id, source, now_ns)
        return (row, {id: [(number, number + 1)]}) if is_new else (NO_ROWS, {})

    def remember(
        self, batch: pa.RecordBatch, *, is_cut: bool = False, is_early: bool = False
    ) -> None:
        """Rows that are in the log already.

        Args:
            is_cut: Rows of the same shard that are before these were not looked at.
            is_early: They were right before these: what is missing here may be there.
        """
        samples = batch.filter(pc.less_equal(batch.column("kind"), _DELETE))
        for id, keys in _keys_of(samples).items():
            known = self._sources.get(id)
            if known is not None and known.key:
                keys.add(known.key)
            if len(keys) > 1 or id[1] <= _SESSION_EID or (is_cut and known is None):
                self._unjudged.add(id)
        for id in self.take(samples)[1]:
            if is_early:
                source = self._sources[id]
                source.settled = source.spans.end

    def tell(self, id: SourceId, start_sn: int, count: int) -> None:
        """A row that is in the log, or will be, says that these are missing."""
        source = self._source(id)
        if source.told is None:
            source.told = Spans(self._limits.record_spans_count)
        start = unwrapped(start_sn, source.spans.end)
        source.told.add(start, start + count)

    def recall(self, now_ns: int, before: Windows | None = None) -> None:
        """All rows were remembered: what is missing among them is a gap, since now.

        Unless a publisher numbers what it puts to several keys, of which some may not be here, or
        a program numbers as it likes.

        Args:
            before: The windows that these take the place of.
        """
        for id, source in self._sources.items():
            old = None if before is None else before._sources.get(id)
            source.is_asked = old is not None and old.is_asked
            if id in self._unjudged:
                source.settled = source.spans.end
            self._gapped.pop(id, None)
            self._watch(id, source, now_ns)
        self._unjudged.clear()

    def forget(self, taken: Taken) -> None:
        """These were not recorded after all."""
        for id, spans in taken.items():
            source = self._sources.get(id)
            for span in spans if source is not None else ():
                assert source is not None
                source.spans.remove(*span)

    def has(self, identity: Identity) -> bool:
        """Whether a sample was seen."""
        source = self._sources.get(identity.source)
        return source is not None and unwrapped(identity.sn, source.spans.end) in source.spans

    def ask(self, identity: Identity) -> int | None:
        """Where a sample is, if that is known; from now on it is known of its publisher."""
        source = self._source(identity.source)
        source.is_asked = True
        self._gapped.pop(identity.source, None)
        return source.places.get(identity.sn)

    def is_asked(self, id: SourceId) -> bool:
        """Whether somebody asks where the samples of a publisher are."""
        source = self._sources.get(id)
        return source is not None and source.is_asked

    def place(self, identity: Identity, seq: int) -> None:
        """Remember where a sample is."""
        places = self._source(identity.source).places
        places[identity.sn] = seq
        if len(places) > self._limits.record_places_count:
            del places[next(iter(places))]

    def heard(self, id: SourceId, last_sn: int, now_ns: int) -> None:
        """A publisher says which number it gave last."""
        known = id in self._sources
        source = self._source(id)
        end = unwrapped(last_sn, source.spans.end) + 1
        if not known and source.settled is None:
            source.settled = end  # what was before is history
        source.expected_end = max(source.expected_end, end)
        self._watch(id, source, now_ns)

    def gaps(self, before_ns: int) -> list[Gap]:
        """What has been missing since a time."""
        found = []
        for id, since_ns in list(self._gapped.items()):
            source = self._sources.get(id)
            if source is None:
                del self._gapped[id]
            elif since_ns <= before_ns:
                holes = _holes(source)
                if not holes:
                    del self._gapped[id]
                found += [Gap(id, source.key, *hole) for hole in holes]
        return found

    def settle(self, gap: Gap) -> list[Gap]:
        """Look for a gap no more; returns what of it is still missing, without what is there."""
        source = self._sources.get(gap.source)
        if source is None:
            return []
        missing = _untold(source, gap.start, gap.end)
        source.settled = gap.end if source.settled is None else max(source.settled, gap.end)
        if source.is_asked:
            return []
        return [gap._replace(start=start, end=end) for start, end in missing]

    def _source(self, id: SourceId) -> _Source:
        source = self._sources.pop(id, None)
        if source is None:
            source = _Source(Spans(self._limits.record_spans_count))
            if len(self._sources) >= self._limits.record_sources_count:
                del self._sources[next(iter(self._sources))]
                self.forgotten_count += 1
        self._sources[id] = source
        return source

    def _watch(self, id: SourceId, source: _Source, now_ns: int) -> None:
        is_sparse = source.is_asked or id[1] >= ANY_KEY_EID
        if is_sparse or not (source.spans or source.expected_end):
            return
        if source.settled is None:
            source.settled = next(iter(source.spans))[0]
        if _holes(source):
            self._gapped.setdefault(id, now_ns)
        else:
            self._gapped.pop(id, None)  # the next one is waited for as long as this one was

    def _take(self, source: _Source, numbers: pa.Array, taken: list[Span]) -> list[int]:
        """Put numbers in; returns the places of those that were there."""
        twice: list[int] = []
        for place, start, end in _runs(numbers, source.spans.end):
            if not source.spans.meets(start, end):
                source.spans.add(start, end)
                taken.append((start, end))
                continue
            for number in range(start, end):
                if number in source.spans:
                    twice.append(place + number - start)
                else:
                    source.spans.add(number, number + 1)
                    taken.append((number, number + 1))
        return twice


def _holes(source: _Source) -> list[Span]:
    end = max(source.spans.end, source.expected_end)
    return _untold(source, end if source.settled is None else source.settled, end)


def _untold(source: _Source, start: int, end: int) -> list[Span]:
    """What is missing between two numbers, and no row says so."""
    holes = source.spans.holes(start, end)
    if source.told is None:
        return holes
    return [piece for hole in holes for piece in source.told.holes(*hole)]


def _by_source(batch: pa.RecordBatch) -> list[tuple[SourceId, pa.Array | None]]:
    """The publishers in a batch, and the rows of each; None: all rows."""
    numbers, zids, eids = batch.column("sn"), batch.column("zid"), batch.column("eid")
    if numbers.null_count == len(numbers):
        return []
    if len(numbers) == 1:  # a call of a kernel costs more than a row
        return [((zids[0].as_py(), eids[0].as_py()), None)]
    bounds = pc.min_max(eids).as_py()
    if len(zids.dictionary) == 1 and not zids.null_count and bounds["min"] == bounds["max"]:
        return [((zids.dictionary[0].as_py(), bounds["min"]), None)]
    rows = pa.array(range(batch.num_rows), pa.int64())
    table = pa.table({"zid": zids.indices, "eid": eids, "row": rows}).filter(pc.is_valid(numbers))
    groups = table.group_by(["zid", "eid"], use_threads=False).aggregate([("row", "list")])
    texts = zids.dictionary.to_pylist()
    return [
        ((texts[zid], eid), pa.array(places, pa.int64()))
        for zid, eid, places in zip(
            *(groups.column(name).to_pylist() for name in ("zid", "eid", "row_list")), strict=True
        )
    ]


def _keys_of(batch: pa.RecordBatch) -> dict[SourceId, set[str]]:
    """The keys of each publisher in a batch."""
    keys, zids = batch.column("key"), batch.column("zid")
    columns = {"key": keys.indices, "zid": zids.indices, "eid": batch.column("eid")}
    table = pa.table(columns).filter(pc.is_valid(batch.column("sn")))
    groups = table.group_by(list(columns), use_threads=False).aggregate([])
    key_texts, zid_texts = keys.dictionary.to_pylist(), zids.dictionary.to_pylist()
    found: dict[SourceId, set[str]] = {}
    for row in groups.to_pylist():
        found.setdefault((zid_texts[row["zid"]], row["eid"]), set()).add(key_texts[row["key"]])
    return found


def _runs(numbers: pa.Array, near: int) -> list[tuple[int, int, int]]:
    """Numbers as runs of which each is one more than that before: place, from, and before."""
    if len(numbers) == 1:
        start = unwrapped(numbers[0].as_py(), near)
        return [(0, start, start + 1)]
    steps = pc.subtract(numbers[1:], numbers[:-1])
    breaks = pc.indices_nonzero(pc.not_equal(steps, _ONE)).to_pylist()
    places = [0, *(place + 1 for place in breaks), len(numbers)]
    runs = []
    for place, next_place in itertools.pairwise(places):
        start = unwrapped(numbers[place].as_py(), near)
        end = start + next_place - place
        near = max(near, end)
        runs.append((place, start, end))
    return runs

"""Windows: which numbers of a publisher were recorded on a key, and what may be a duplicate.

A window belongs to (zid, eid, key). Anybody may claim the zid and eid of another publisher, so a
number proves nothing by itself: the same number with a newer timestamp is a restart, or a program
that does not count. A row is a *suspect* if its number was seen, or may have been forgotten, and
its timestamp is not newer than all of its window. The book compares suspects with what is recorded;
only a row whose key, timestamp and payload agree is a duplicate. Twice rather than never.

Numbers that were not seen are a gap only where it is known that the publisher numbers one key: it
announced itself (`KEY/@adv/pub/ZID/EID/_`, a cache answered), or a long run of its numbers came on
this key and none on another. What another source does on another key changes nothing here.

After a start the windows are as the end of the log tells them (`recall.py`). Batches are looked at
as columns; rows one by one only where numbers repeat.
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
_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF
_SESSION_EID: Final = 1  # a session's own: what a program numbers there is its affair
ANY_KEY_EID: Final = 0x8000_0000  # from here on: sessions number acknowledged puts to any key

SourceId: TypeAlias = tuple[str, int]  # zid, eid
WindowId: TypeAlias = tuple[str, int, str]  # zid, eid, key
Taken: TypeAlias = dict[WindowId, list[Span]]


class Identity(NamedTuple):
    """A number of a publisher."""

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
    key: str
    start: int
    end: int

    @property
    def window(self) -> WindowId:
        """Of which window."""
        return (*self.source, self.key)


@dataclass(slots=True)
class _Window:
    spans: Spans
    floor: int  # rows that are not newer may have been forgotten
    is_of_any_key: bool  # its publisher numbers samples of any key, in any order
    latest: int = 0  # the newest timestamp, as its 64 bits
    expected_end: int = 0  # what the publisher itself says
    settled: int | None = None  # numbers below are no gap any more
    numbers_one_key: bool = False  # it announced itself
    is_unasked: bool = False  # gaps wait until it announces itself
    told: Spans | None = None  # numbers that are missing, and a row says so

    @property
    def is_sparse(self) -> bool:
        """Whether the order of its numbers says nothing."""
        return self.is_of_any_key and not self.numbers_one_key


@dataclass(slots=True)
class _Group:
    """The rows of one window in a batch."""

    id: WindowId
    rows: list[int] | None  # None: all of the batch
    numbers: pa.Array
    stamps: pa.Array  # hlc, as 64 bits without sign
    runs: list[tuple[int, int, int]] = field(default_factory=list)  # place, first number, end

    def row(self, place: int) -> int:
        """The row of the batch."""
        return place if self.rows is None else self.rows[place]

    def bounds(self, place: int, count: int) -> tuple[int, int] | None:
        """The oldest and the newest timestamp of a run; None: a row has none."""
        part = self.stamps.slice(place, count)
        if part.null_count:
            return None
        if count == 1:
            bits = part[0].as_py()
            return bits, bits
        found = pc.min_max(part).as_py()
        return found["min"], found["max"]


class Windows:
    """The publishers of one log. One thread at a time.

    Args:
        limits: How many windows are remembered, and how many ranges of each.
        floor: Rows that are not newer may be in the log and not be known here.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, floor: int = 0) -> None:
        self._limits = limits
        self._windows: dict[WindowId, _Window] = {}  # the one seen last is the last
        self._keys: dict[SourceId, set[str]] = {}
        self._gapped: dict[WindowId, int] = {}  # since when, for those that may have gaps
        self._unjudged: set[WindowId] = set()  # rows before those that were recalled are unknown
        self._floor = floor
        self.forgotten_count = 0  # windows for which there was no room any more
        self.restarts_count = 0  # times that numbers began anew

    @property
    def has_forgotten(self) -> bool:
        """Whether rows may be in the log that no window knows of."""
        return self._floor > 0

    # Rows that come.

    def suspects(self, rows: Rows, *, unstamped: bool = False) -> list[int]:
        """Rows that may be recorded already.

        Args:
            unstamped: Also those without a timestamp whose number was seen. Live ones are always
                new: nothing tells a restart from a repeat.
        """
        if isinstance(rows, Single):
            return self._single_suspects(rows, unstamped=unstamped)
        found: list[int] = []
        for group in _groups(rows):
            window = self._windows.get(group.id)
            near = 0 if window is None else window.spans.end
            group.runs = _runs(group.numbers, near)
            found += self._suspects_of(group, window, unstamped=unstamped)
        return sorted(found)

    def may_have(self, identity: Identity, key: str, bits: int | None) -> bool:
        """Whether a sample may be recorded: its number was seen on this key, or is forgotten."""
        window = self._windows.get((*identity.source, key))
        if window is None:
            return self._floor > 0 and (bits is None or bits <= self._floor)
        if unwrapped(identity.sn, window.spans.end) in window.spans:
            return bits is None or bits <= window.latest
        return bits is not None and bits <= window.floor

    def take(self, rows: Rows, now_ns: int = 0, *, wall_bits: int = _BITS) -> Taken:
        """Remember rows that are about to be recorded; returns the numbers that were new.

        Args:
            wall_bits: The time of day: what is forgotten from now on may be so new.
        """
        taken: Taken = {}
        if isinstance(rows, Single):
            if rows.sn is not None and rows.zid is not None and rows.eid is not None:
                id = (rows.zid, rows.eid, rows.key)
                window = self._window(id, wall_bits)
                start = unwrapped(rows.sn, window.spans.end)
                bits = None if rows.hlc is None else (rows.hlc & _BITS,) * 2
                taken[id] = []
                self._add(window, start, start + 1, bits, taken[id], wall_bits)
                self._watch(id, window, now_ns)
            return taken
        for group in _groups(rows):
            window = self._window(group.id, wall_bits)
            spans = taken.setdefault(group.id, [])
            for place, start, end in _runs(group.numbers, window.spans.end):
                bounds = group.bounds(place, end - start)
                self._add(window, start, end, bounds, spans, wall_bits)
            self._watch(group.id, window, now_ns)
        return taken

    def forget(self, taken: Taken) -> None:
        """These were not recorded after all."""
        for id, spans in taken.items():
            window = self._windows.get(id)
            if window is not None:
                for span in spans:
                    window.spans.remove(*span)

    # Rows that are in the log.

    def remember(
        self, batch: pa.RecordBatch, *, is_cut: bool = False, is_early: bool = False
    ) -> None:
        """Rows that are in the log already.

        Args:
            is_cut: Rows of the same shard that are before these were not looked at.
            is_early: They were right before these: what is missing here may be there.
        """
        samples = batch.filter(pc.less_equal(batch.column("kind"), _DELETE))
        known = set(self._windows) if is_cut else set()
        for id in self.take(samples):
            if is_cut and id not in known:
                self._unjudged.add(id)
            if is_early:
                window = self._windows[id]
                window.settled = window.spans.end

    def tell(self, id: WindowId, start_sn: int, count: int) -> None:
        """A row that is in the log, or will be, says that these are missing."""
        window = self._window(id, _BITS)
        window.numbers_one_key = True  # or nobody had said so
        if window.told is None:
            window.told = Spans(self._limits.record_spans_count)
        start = unwrapped(start_sn, window.spans.end)
        window.told.add(start, start + count)

    def recall(self, now_ns: int, before: Windows | None = None) -> None:
        """All rows were remembered: what is missing among them is a gap, since now.

        Args:
            before: The windows that these take the place of.
        """
        for id, window in self._windows.items():
            old = None if before is None else before._windows.get(id)
            if old is not None and old.numbers_one_key:
                window.numbers_one_key = True
            if id in self._unjudged:
                window.settled = window.spans.end
            self._gapped.pop(id, None)
            self._watch(id, window, now_ns)
        self._unjudged.clear()

    # Gaps.

    def announce(self, id: WindowId, now_ns: int, last_sn: int | None = None) -> None:
        """A publisher says that it numbers one key, and perhaps which number it gave last."""
        is_known = id in self._windows
        if not is_known and last_sn is None:
            return  # by its first sample
        window = self._window(id, _BITS)
        window.numbers_one_key, window.is_unasked = True, False
        if last_sn is not None:
            end = unwrapped(last_sn, window.spans.end) + 1
            if not is_known and window.settled is None:
                window.settled = end  # what was before is history
            window.expected_end = max(window.expected_end, end)
        self._watch(id, window, now_ns)

    def gaps(self, before_ns: int) -> list[Gap]:
        """What has been missing since a time."""
        found = []
        for id, since_ns in list(self._gapped.items()):
            window = self._windows.get(id)
            if window is None or window.is_unasked:
                del self._gapped[id]
            elif since_ns <= before_ns:
                holes = _holes(window)
                if not holes:
                    del self._gapped[id]
                found += [Gap(id[:2], id[2], *hole) for hole in holes]
        return found

    def settle(self, gap: Gap) -> list[Gap]:
        """Look for a gap no more; returns what of it is known to be missing.

        Nothing, where it is not known that the publisher numbers this key alone: the gap waits
        until the publisher says so.
        """
        window = self._windows.get(gap.window)
        if window is None:
            return []
        missing = _untold(window, gap.start, gap.end)
        if not window.numbers_one_key:
            if not self._seems_to_number_one_key(gap.window, window):
                window.is_unasked = True
                self._gapped.pop(gap.window, None)
                return []
            missing = self._not_elsewhere(gap, missing)
        window.settled = gap.end if window.settled is None else max(window.settled, gap.end)
        return [gap._replace(start=start, end=end) for start, end in missing]

    # Within.

    def _window(self, id: WindowId, wall_bits: int) -> _Window:
        window = self._windows.pop(id, None)
        if window is None:
            spans = Spans(self._limits.record_spans_count)
            window = _Window(spans, self._floor, id[1] >= ANY_KEY_EID)
            if len(self._windows) >= self._limits.record_windows_count:
                self._evict(wall_bits)
            self._keys.setdefault(id[:2], set()).add(id[2])
        self._windows[id] = window
        return window

    def _evict(self, wall_bits: int) -> None:
        id = next(iter(self._windows))
        window = self._windows.pop(id)
        keys = self._keys[id[:2]]
        keys.discard(id[2])
        if not keys:
            del self._keys[id[:2]]
        # A forged time far ahead does not make everything else a suspect.
        self._floor = max(self._floor, min(window.latest, wall_bits))
        self.forgotten_count += 1

    def _single_suspects(self, row: Single, *, unstamped: bool) -> list[int]:
        if row.sn is None or row.zid is None or row.eid is None:
            return []
        if row.hlc is None and not unstamped:
            return []
        bits = None if row.hlc is None else row.hlc & _BITS
        return [0] if self.may_have(Identity(row.zid, row.eid, row.sn), row.key, bits) else []

    def _suspects_of(self, group: _Group, window: _Window | None, *, unstamped: bool) -> list[int]:
        latest, floor = (0, self._floor) if window is None else (window.latest, window.floor)
        seen = Spans(len(group.runs) + 1)
        found = []
        for place, start, end in group.runs:
            bounds = group.bounds(place, end - start)
            meets = seen.meets(start, end)
            meets = meets or (window is not None and window.spans.meets(start, end))
            is_newer = bounds is not None and bounds[0] > (latest if meets else floor)
            if not is_newer and (meets or floor or bounds is None):
                for number, bits in enumerate(
                    group.stamps.slice(place, end - start).to_pylist(), start
                ):
                    is_seen = number in seen or (window is not None and number in window.spans)
                    if bits is None:
                        is_suspect = unstamped and is_seen
                    else:
                        is_suspect = bits <= (latest if is_seen else floor)
                    if is_suspect:
                        found.append(group.row(place + number - start))
            if len(group.runs) > 1:
                seen.add(start, end)
            if bounds is not None:
                latest = max(latest, bounds[1])
        return found

    def _add(
        self,
        window: _Window,
        start: int,
        end: int,
        bounds: tuple[int, int] | None,
        taken: list[Span],
        wall_bits: int,
    ) -> None:
        """Put a run of numbers in, with its oldest and newest timestamp."""
        spans = window.spans
        meets = spans.meets(start, end)
        is_newer = bounds is not None and bounds[0] > window.latest
        is_before = start < spans.start and not window.is_sparse
        if is_newer and spans and (meets or is_before):  # the publisher counts anew
            self.restarts_count += 1
            window.spans = spans = Spans(self._limits.record_spans_count)
            window.settled, window.told, window.expected_end = start, None, 0
            # What was recorded of before is not newer than what is known.
            window.floor = max(window.floor, min(window.latest, wall_bits))
            meets = False
        if bounds is not None:
            window.latest = max(window.latest, bounds[1])
        taken += spans.holes(start, end) if meets else [(start, end)]
        if not spans.add(start, end):  # the lowest range had to go
            window.floor = max(window.floor, min(window.latest, wall_bits))

    def _watch(self, id: WindowId, window: _Window, now_ns: int) -> None:
        if window.is_sparse or window.is_unasked or not (window.spans or window.expected_end):
            return
        if window.settled is None:
            window.settled = window.spans.start if window.spans else window.expected_end
        if _holes(window):
            self._gapped.setdefault(id, now_ns)
        else:
            self._gapped.pop(id, None)  # the next one is waited for as long as this one was

    def _seems_to_number_one_key(self, id: WindowId, window: _Window) -> bool:
        is_entity = _SESSION_EID < id[1] < ANY_KEY_EID
        is_alone = len(self._keys.get(id[:2], ())) == 1
        return is_entity and is_alone and window.spans.longest >= self._limits.record_run_count

    def _not_elsewhere(self, gap: Gap, missing: list[Span]) -> list[Span]:
        """What of a gap came on no other key of the publisher."""
        for key in self._keys.get(gap.source, ()):
            other = self._windows.get((*gap.source, key))
            if other is not None and key != gap.key:
                missing = [piece for hole in missing for piece in other.spans.holes(*hole)]
        return missing


def _holes(window: _Window) -> list[Span]:
    end = max(window.spans.end, window.expected_end)
    return _untold(window, end if window.settled is None else window.settled, end)


def _untold(window: _Window, start: int, end: int) -> list[Span]:
    """What is missing between two numbers, and no row says so."""
    holes = window.spans.holes(start, end)
    if window.told is None:
        return holes
    return [piece for hole in holes for piece in window.told.holes(*hole)]


def _groups(batch: pa.RecordBatch) -> list[_Group]:
    """The windows in a batch, with their rows."""
    numbers = batch.column("sn")
    if numbers.null_count == len(numbers):
        return []
    zids, eids, keys = batch.column("zid"), batch.column("eid"), batch.column("key")
    stamps = batch.column("hlc").view(pa.uint64())
    if len(numbers) == 1:  # a call of a kernel costs more than a row
        id = (zids[0].as_py(), eids[0].as_py(), keys[0].as_py())
        return [_Group(id, None, numbers, stamps)]
    bounds = pc.min_max(eids).as_py()
    is_one = len(zids.dictionary) == 1 and len(keys.dictionary) == 1 and not zids.null_count
    if is_one and bounds["min"] == bounds["max"]:
        id = (zids.dictionary[0].as_py(), bounds["min"], keys.dictionary[0].as_py())
        return [_Group(id, None, numbers, stamps)]
    columns = {
        "zid": zids.indices,
        "eid": eids,
        "key": keys.indices,
        "row": pa.array(range(batch.num_rows), pa.int64()),
    }
    table = pa.table(columns).filter(pc.is_valid(numbers))
    found = table.group_by(["zid", "eid", "key"], use_threads=False).aggregate([("row", "list")])
    zid_texts, key_texts = zids.dictionary.to_pylist(), keys.dictionary.to_pylist()
    groups = []
    for zid, eid, key, rows in zip(
        *(found.column(name).to_pylist() for name in ("zid", "eid", "key", "row_list")),
        strict=True,
    ):
        places = pa.array(rows, pa.int64())
        id = (zid_texts[zid], eid, key_texts[key])
        groups.append(_Group(id, rows, numbers.take(places), stamps.take(places)))
    return groups


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

"""Gather: the rows that a selection asks for, in its order, within bounds.

Rows come in the order of logs and leave in the order that was asked for, so they are gathered and
sorted. What does not fit is not kept: of more rows than fit, the first ones in the order are, and
`Cut` says how to ask for the others. Of last versions those of the first keys are kept: a later row
of such a key takes the place of the one before, and no other key needs to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.decode.layout import Layout
from elea.encoding import Encoding
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.arrow import split, to_arrow
from elea.predicate.evaluate import Test, compile_predicate
from elea.predicate.model import ALWAYS, And, Field, Predicate, all_of, walk
from elea.predicate.payload import KEY_ROOT, PayloadFields
from elea.store.historian.selection import Order, Selection
from elea.store.historian.source import LargeSource, Source
from elea.store.log.schema import RowKind, times
from elea.store.rows import Row, encoding_of, samples_of
from elea.store.tables.source import left_out_of
from elea.timestamp import NTP64

_ROW_LEN: Final = 64  # what a row costs beside its payload
_STEP_COUNT: Final = 256  # rows that are copied at once when they leave
_PART_LEN: Final = 2**20  # shorter parts are joined: each costs as much as many rows
_SMALL_COUNT: Final = 256  # parts that wait to be joined
_SPARE_PART: Final = 4  # a quarter more than fits is kept before rows are dropped
_IDENTITY: Final = ("log", "shard", "seq")
_NONE_KNOWN: Final = pa.schema(
    {
        "key": pa.string(),
        "time": pa.uint64(),
        "log": pa.string(),
        "shard": pa.int32(),
        "seq": pa.int64(),
        "len": pa.int64(),
    }
).empty_table()
_KEYS: Final = pa.schema({KEY_ROOT: pa.string()})  # the column that predicates see, too


LayoutOf: TypeAlias = Callable[[str, Encoding], Layout | None]


def fields_of(key: str, payload: bytes, encoding: Encoding, layout_of: LayoutOf) -> PayloadFields:
    """What predicates and projections see of a row."""
    return PayloadFields(payload, encoding, key=key, layout=layout_of(key, encoding))


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer that is not whole: why, and the selectors that ask for the rest, in order."""

    detail: str
    following: tuple[str, ...]


class Gathered:
    """The rows of an answer, and what is missing of it.

    Args:
        parts: Rows, in any order.
        order: Which of them come one after the other, by their numbers in all parts.
        cut: What is missing.
        length: Of the rows, in bytes.
    """

    __slots__ = ("_order", "_parts", "cut", "length")

    def __init__(
        self,
        parts: Sequence[pa.RecordBatch],
        order: pa.Array | None,
        cut: Cut | None,
        length: int = 0,
    ) -> None:
        self._parts = parts
        self._order = order
        self.cut = cut
        self.length = length

    def __iter__(self) -> Iterator[Row]:
        """The rows, of which few are copied at once."""
        if self._order is None:
            return
        for start in range(0, len(self._order), _STEP_COUNT):
            order = self._order.slice(start, _STEP_COUNT)
            # In the order of parts first, then in that of the answer.
            by_part = pc.sort_indices(order)
            few = pa.Table.from_batches(list(_taken(self._parts, order.take(by_part))))
            yield from samples_of(few.take(pc.sort_indices(by_part)))


def gather(
    sources: Sequence[Source],
    selection: Selection,
    *,
    owns: Callable[[str], bool] | None = None,
    layout_of: LayoutOf = lambda _key, _encoding: None,
    is_wanted: Callable[[], bool] = lambda: True,
    limits: Limits = DEFAULT_LIMITS,
) -> Gathered:
    """The rows that a selection asks for.

    Args:
        sources: A row that several have counts once.
        owns: Says of a key whether its rows are to be there.
        layout_of: Gives the type of the payloads of a key and encoding, if it is known.
        is_wanted: Asked now and then; if it says no, the rest is not looked for.
    """
    heap = _Heap(selection, limits, is_merged=len(sources) > 1)
    sift = _Sift(selection, owns, layout_of)
    for source in sources:
        if selection.all_versions:
            batches = source.select(selection.key_expr, selection.since, selection.until)
        else:
            batches = _latest(source, selection)
        for batch in batches:
            if not is_wanted():
                return Gathered((), None, None)
            heap.leave_out(left_out_of(batch))
            if batch.num_rows:
                heap.add(sift(batch))
    if not selection.all_versions:
        heap.keep_last(sift.finish)
    return heap.finish()


def _latest(source: Source, selection: Selection) -> Iterator[pa.RecordBatch]:
    if isinstance(source, LargeSource):
        return source.latest_after(selection.key_expr, selection.until, selection.after)
    return source.latest(selection.key_expr, selection.until)


class _Sift:
    """Lets pass what a selection asks for, row by row.

    Of the last versions only keys can be looked at before it is known which ones are the last.
    """

    def __init__(
        self,
        selection: Selection,
        owns: Callable[[str], bool] | None,
        layout_of: LayoutOf,
    ) -> None:
        self._selection = selection
        self._owns = owns
        self._layout_of = layout_of
        by_key, rest = _split(selection.predicate)
        self._by_key = None if by_key == ALWAYS else to_arrow(by_key, _KEYS)
        self._test: Test | None = None if rest == ALWAYS else compile_predicate(rest)

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        rows = pa.Table.from_batches([batch])
        rows = _decoded(rows.append_column("time", times(batch)))
        if self._selection.after is not None:
            rows = _only(rows, pc.greater(rows["key"], self._selection.after))
        if self._by_key is not None:
            rows = rows.filter(self._by_key)
        if self._owns is not None:
            keys = [key for key in pc.unique(rows["key"]).to_pylist() if self._owns(key)]
            rows = _only(rows, pc.is_in(rows["key"], value_set=pa.array(keys, pa.string())))
        is_sample = pc.less_equal(rows["kind"], int(RowKind.DELETE))
        is_key = pc.invert(pc.match_substring(rows["key"], "*"))
        rows = _only(rows, pc.and_(is_sample, is_key))
        return self.finish(rows) if self._selection.all_versions else rows

    def finish(self, rows: pa.Table) -> pa.Table:
        """What is left of rows by their kind and payload."""
        kinds = pa.array([int(kind) for kind in self._selection.kinds], pa.int8())
        rows = _only(rows, pc.is_in(rows["kind"], value_set=kinds))
        if self._test is None or not rows.num_rows:
            return rows
        columns = (rows[name].to_pylist() for name in ("key", "payload", "encoding"))
        verdicts = [
            self._test(fields_of(key, payload, encoding_of(encoding), self._layout_of)) is True
            for key, payload, encoding in zip(*columns, strict=True)
        ]
        return _only(rows, pa.chunked_array([pa.array(verdicts, pa.bool_())]))


class _Heap:
    """The first rows in an order. When there are more than fit, by a part, the rest is dropped.

    Rows are sorted without their payloads, which are copied when rows are dropped, part by part.
    """

    def __init__(self, selection: Selection, limits: Limits, *, is_merged: bool) -> None:
        self._selection = selection
        self._is_merged = is_merged
        self._asked_count = selection.count_max or limits.historian_rows_count + 1
        self._count_max = min(self._asked_count, limits.historian_rows_count)
        self._rows_max = limits.historian_rows_count
        self._len_max = limits.historian_rows_len
        self._is_descending = selection.order is Order.DESCENDING
        self._parts: list[pa.RecordBatch] = []
        self._small: list[pa.Table] = []  # to be a part together
        self._small_len = 0
        self._count = self._len = 0
        self._bound: _Bound | None = None  # of all versions
        self._last_key: str | None = None  # of last versions: nothing is told of keys after it

    def add(self, rows: pa.Table) -> None:
        """More rows."""
        if self._bound is not None:
            rows = _only(rows, self._inside(rows, self._bound))
        if self._last_key is not None:
            rows = _only(rows, pc.less_equal(rows["key"], self._last_key))
        if not rows.num_rows:
            return
        length = _len_of(rows)
        self._count += rows.num_rows
        self._len += length
        self._small.append(rows)
        self._small_len += length
        if self._small_len > _PART_LEN or len(self._small) > _SMALL_COUNT:
            self._join_small()
        is_long = self._len > self._len_max + self._len_max // _SPARE_PART
        if self._selection.all_versions:
            if is_long or self._count > 2 * self._count_max:
                self._keep(self._cut_down(self._sorted()))
        elif is_long or self._count > 2 * self._rows_max:
            self._keep(self._first_keys())

    def leave_out(self, last_key: str | None) -> None:
        """A source does not tell of keys after this one, if it is one."""
        if last_key is not None and (self._last_key is None or last_key < self._last_key):
            self._last_key = last_key

    def keep_last(self, finish: Callable[[pa.Table], pa.Table]) -> None:
        """Of each key, the last row; then what is left of them."""
        self._keep(self._first_keys())
        for number, part in enumerate(self._parts):
            self._parts[number] = _joined([finish(pa.Table.from_batches([part]))])

    def finish(self) -> Gathered:
        """All of them, in order."""
        found = self._cut_down(self._sorted())
        order = found["row"].combine_chunks()
        return Gathered(self._parts, order, self._told(found), self._len)

    def _join_small(self) -> None:
        if self._small:
            self._parts.append(_joined(self._small))
            self._small, self._small_len = [], 0

    def _keep(self, found: pa.Table) -> None:
        """Drop all rows but those that were found."""
        numbers = found["row"].combine_chunks()
        parts, self._parts = self._parts, []
        for taken in _taken(_drained(parts), numbers.take(pc.sort_indices(numbers))):
            self._small.append(pa.Table.from_batches([taken]))
            self._small_len += _len_of(self._small[-1])
            if self._small_len > _PART_LEN:
                self._join_small()
        self._join_small()
        self._count, self._len = found.num_rows, int(pc.sum(found["len"]).as_py() or 0)

    def _known(self) -> pa.Table:
        """All that rows are sorted and counted by, with their numbers and lengths."""
        self._join_small()
        columns = ["key", "time", *_IDENTITY]
        narrow = []
        for part in self._parts:
            rows = pa.Table.from_batches([part])
            narrow.append(rows.select(columns).append_column("len", _lens(rows)))
        known = pa.concat_tables(narrow) if narrow else _NONE_KNOWN
        return known.append_column("row", pa.array(range(known.num_rows), pa.int64()))

    def _first_keys(self) -> pa.Table:
        """Of each of the first keys the last row: as many as fit before they are sifted."""
        found = _last_versions(self._known())
        if self._last_key is not None:
            found = found.filter(pc.less_equal(found["key"], self._last_key))
        ends = pc.cumulative_sum(found["len"])
        by_len = pc.sum(pc.less_equal(ends, self._len_max)).as_py() or 0
        fitting = min(found.num_rows, self._rows_max, max(by_len, 1))
        if fitting < found.num_rows:
            self._last_key = found["key"][fitting - 1].as_py()
        return found.slice(0, fitting)

    def _sorted(self) -> pa.Table:
        rows = self._known()
        direction = "descending" if self._is_descending else "ascending"
        order = [("key", "ascending"), ("time", direction)]
        if self._selection.order is Order.TIME:
            order.reverse()
        rows = rows.sort_by([*order, *((name, direction) for name in _IDENTITY)])
        if self._is_merged and self._selection.all_versions:
            rows = rows.filter(_is_first(rows))
        return rows

    def _cut_down(self, rows: pa.Table) -> pa.Table:
        """The first rows in order; whole keys, or whole moments, if that is not all of them."""
        fitting = self._fitting(rows)
        if fitting == rows.num_rows or fitting == self._asked_count:
            return rows.slice(0, fitting)
        key = rows["key"][fitting].as_py()
        if self._selection.order is not Order.TIME:
            first = pc.index(rows["key"], key).as_py()
            if first > 0:
                self._bound = _Bound(key, None)
                return rows.slice(0, first)
        # Time ranges tell nanoseconds apart, and no less.
        stamps = rows["time"]
        ns, count = _ns(stamps[fitting]), fitting
        while count > 0 and _ns(stamps[count - 1]) == ns:
            count -= 1
        if count == 0:  # more than fit happened at once, and cannot be asked for
            count, ns = fitting, ns - 1 if self._is_descending else ns + 1
        self._bound = _Bound(key, ns)
        return rows.slice(0, count)

    def _inside(self, rows: pa.Table, bound: _Bound) -> pa.Array:
        """Which rows are before what was left out."""
        before_key = pc.less(rows["key"], bound.key)
        if bound.ns is None:
            return before_key
        # The range of what was left out, as 64 bits.
        since, until = self._selection.rest(bound.ns).bits(0)
        if self._is_descending:
            in_time = pc.greater_equal(rows["time"], pa.scalar(until, pa.uint64()))
        else:
            in_time = pc.less(rows["time"], pa.scalar(since, pa.uint64()))
        if self._selection.order is Order.TIME:
            return in_time
        return pc.or_(before_key, pc.and_(pc.equal(rows["key"], bound.key), in_time))

    def _fitting(self, rows: pa.Table) -> int:
        count = min(rows.num_rows, self._count_max)
        if (pc.sum(rows["len"]).as_py() or 0) > self._len_max:
            ends = pc.cumulative_sum(rows["len"])
            by_len = pc.sum(pc.less_equal(ends, self._len_max)).as_py()
            count = min(count, max(by_len, 1))
        return int(count)

    def _told(self, rows: pa.Table) -> Cut | None:
        bound, selection = self._bound, self._selection
        count = rows.num_rows
        if count == self._asked_count:
            return None
        limit = f"an answer has at most {self._count_max} rows and {self._len_max} octets"
        if self._last_key is not None:
            last = self._last_key
            return Cut(f"{limit}; keys after {last} are missing", (selection.after_key(last),))
        if bound is None or not count:
            return None
        if bound.ns is None:
            last = str(rows["key"][rows.num_rows - 1])
            return Cut(f"{limit}; keys after {last} are missing", (selection.after_key(last),))
        if selection.order is Order.TIME or "*" not in selection.key_expr:
            return Cut(f"{limit}; there are more", (selection.after_time(bound.ns),))
        following = (selection.after_time(bound.ns, bound.key), selection.after_key(bound.key))
        return Cut(f"{limit}; there are more of {bound.key} and of keys after it", following)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The first that was left out: a key, or a moment of it."""

    key: str
    ns: int | None


def _last_versions(known: pa.Table) -> pa.Table:
    """Of each key, in their order: the number of its last row, and what that costs."""
    order = ("time", "seq", "log", "shard")  # the same whichever source was asked first
    found = known.sort_by([(name, "ascending") for name in order])
    last = found.group_by("key", use_threads=False).aggregate([("row", "last"), ("len", "last")])
    last = last.sort_by([("key", "ascending")])
    return pa.table({"key": last["key"], "row": last["row_last"], "len": last["len_last"]})


def _only(rows: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """The rows that are wanted; not copied if that is all of them."""
    return rows if pc.all(wanted, skip_nulls=False).as_py() else rows.filter(wanted)


def _joined(tables: list[pa.Table]) -> pa.RecordBatch:
    """One batch of tables."""
    whole = pa.concat_tables(tables).combine_chunks()
    columns = [pa.array([], one.type) if not one.num_chunks else one.chunk(0) for one in whole]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)


def _taken(parts: Iterable[pa.RecordBatch], numbers: pa.Array) -> Iterator[pa.RecordBatch]:
    """Rows by their numbers in all parts, which ascend; each part is copied for itself."""
    start = 0
    for part in parts:
        end = start + part.num_rows
        inside = pc.and_(pc.greater_equal(numbers, start), pc.less(numbers, end))
        chosen = pc.subtract(numbers.filter(inside), start)
        if len(chosen):
            yield part.take(chosen)
        start = end


def _drained(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parts, none of which is kept once the next one is asked for."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _split(predicate: Predicate | None) -> tuple[Predicate, Predicate]:
    """The part of a predicate that looks at keys alone, for Arrow, and the rest."""
    if predicate is None:
        return ALWAYS, ALWAYS
    by_key: list[Predicate] = []
    rest: list[Predicate] = []
    for term in predicate.terms if isinstance(predicate, And) else (predicate,):
        paths = {node.path for node in walk(term) if isinstance(node, Field)}
        (by_key if paths == {(KEY_ROOT,)} else rest).append(term)
    parts = split(all_of(by_key), _KEYS)
    rest.append(parts.rest)
    return parts.arrow, all_of(rest)


def _decoded(rows: pa.Table) -> pa.Table:
    """Rows with texts in place of dictionaries, which differ from block to block."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(number, field.name, rows[field.name].cast(pa.string()))
    return rows


def _is_first(rows: pa.Table) -> pa.Array:
    """Which rows are not the one before them again."""
    marks = [True] * rows.num_rows
    identities = zip(*(rows[name].to_pylist() for name in _IDENTITY), strict=True)
    before: tuple[object, ...] | None = None
    for number, identity in enumerate(identities):
        marks[number] = identity != before
        before = identity
    return pa.array(marks, pa.bool_())


def _lens(rows: pa.Table) -> pa.ChunkedArray:
    """What each row costs."""
    attached = pc.coalesce(pc.binary_length(rows["attachment"]), 0)
    lens = pc.add(pc.binary_length(rows["payload"]), attached)
    return pc.add(lens.cast(pa.int64()), _ROW_LEN)


def _len_of(rows: pa.Table) -> int:
    return int(pc.sum(_lens(rows)).as_py() or 0)


def _ns(stamp: pa.Scalar) -> int:
    return NTP64.from_value(stamp.as_py()).as_nanos()

"""Gather: the rows that a selection asks for, in its order, within bounds.

Rows come in the order of logs and leave in the order that was asked for, so they are gathered and
sorted. What does not fit is not kept: of more rows than fit, the first ones in the order are, and
`Cut` says how to ask for the others. Of last versions those of the first keys are kept: a later row
of such a key takes the place of the one before, and no other key needs to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.encoding import Encoding
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.arrow import split, to_arrow
from elea.predicate.evaluate import Test, compile_predicate
from elea.predicate.layout import Layout
from elea.predicate.model import ALWAYS, And, Field, Predicate, all_of, walk
from elea.predicate.payload import KEY_ROOT, PayloadFields
from elea.store.historian.selection import Order, Selection
from elea.store.historian.source import LargeSource, Source
from elea.store.log.schema import RowKind, times
from elea.store.rows import Row, encoding_of, samples_of
from elea.store.tables.source import left_out_of
from elea.timestamp import NTP64

_ROW_LEN: Final = 64  # what a row costs beside its payload
_IDENTITY: Final = ("log", "shard", "seq")
_KEYS: Final = pa.schema({KEY_ROOT: pa.string()})  # the column that predicates see, too


LayoutOf: TypeAlias = Callable[[str], Layout | None]


def fields_of(key: str, payload: bytes, encoding: Encoding, layout_of: LayoutOf) -> PayloadFields:
    """What predicates and projections see of a row."""
    return PayloadFields(payload, encoding, key=key, layout=layout_of(key))


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer that is not whole: why, and the selectors that ask for the rest, in order."""

    detail: str
    following: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows of an answer, and what is missing of it."""

    rows: pa.Table | None
    cut: Cut | None

    def __iter__(self) -> Iterator[Row]:
        for batch in () if self.rows is None else self.rows.to_batches(max_chunksize=1_024):
            yield from samples_of(batch)


def gather(
    sources: Sequence[Source],
    selection: Selection,
    *,
    owns: Callable[[str], bool] | None = None,
    layout_of: LayoutOf = lambda _key: None,
    is_wanted: Callable[[], bool] = lambda: True,
    limits: Limits = DEFAULT_LIMITS,
) -> Gathered:
    """The rows that a selection asks for.

    Args:
        sources: A row that several have counts once.
        owns: Says of a key whether its rows are to be there.
        layout_of: Gives the type of the payloads of a key, if it is known.
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
                return Gathered(None, None)
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
            rows = rows.filter(pc.greater(rows["key"], self._selection.after))
        if self._by_key is not None:
            rows = rows.filter(self._by_key)
        if self._owns is not None:
            keys = [key for key in pc.unique(rows["key"]).to_pylist() if self._owns(key)]
            rows = rows.filter(pc.is_in(rows["key"], value_set=pa.array(keys, pa.string())))
        rows = rows.filter(pc.less_equal(rows["kind"], int(RowKind.DELETE)))
        rows = rows.filter(pc.invert(pc.match_substring(rows["key"], "*")))  # is no key
        return self.finish(rows) if self._selection.all_versions else rows

    def finish(self, rows: pa.Table) -> pa.Table:
        """What is left of rows by their kind and payload."""
        kinds = pa.array([int(kind) for kind in self._selection.kinds], pa.int8())
        rows = rows.filter(pc.is_in(rows["kind"], value_set=kinds))
        if self._test is None or not rows.num_rows:
            return rows
        columns = (rows[name].to_pylist() for name in ("key", "payload", "encoding"))
        verdicts = [
            self._test(fields_of(key, payload, encoding_of(encoding), self._layout_of)) is True
            for key, payload, encoding in zip(*columns, strict=True)
        ]
        return rows.filter(pa.array(verdicts, pa.bool_()))


class _Heap:
    """The first rows in an order. When there are twice as many as fit, they are sorted and cut."""

    def __init__(self, selection: Selection, limits: Limits, *, is_merged: bool) -> None:
        self._selection = selection
        self._is_merged = is_merged
        self._asked_count = selection.count_max or limits.historian_rows_count + 1
        self._count_max = min(self._asked_count, limits.historian_rows_count)
        self._rows_max = limits.historian_rows_count
        self._len_max = limits.historian_rows_len
        self._is_descending = selection.order is Order.DESCENDING
        self._parts: list[pa.Table] = []
        self._count = self._len = 0
        self._bound: _Bound | None = None  # of all versions
        self._last_key: str | None = None  # of last versions: nothing is told of keys after it

    def add(self, rows: pa.Table) -> None:
        """More rows."""
        if self._bound is not None:
            rows = rows.filter(self._inside(rows, self._bound))
        if self._last_key is not None:
            rows = rows.filter(pc.less_equal(rows["key"], self._last_key))
        if not rows.num_rows:
            return
        self._parts.append(rows)
        self._count += rows.num_rows
        self._len += _len_of(rows)
        if self._selection.all_versions:
            if self._count > 2 * self._count_max or self._len > 2 * self._len_max:
                self._set(self._cut_down(self._sorted()))
        elif self._count > 2 * self._rows_max or self._len > 2 * self._len_max:
            self._set(self._first_keys())

    def leave_out(self, last_key: str | None) -> None:
        """A source does not tell of keys after this one, if it is one."""
        if last_key is not None and (self._last_key is None or last_key < self._last_key):
            self._last_key = last_key

    def keep_last(self, finish: Callable[[pa.Table], pa.Table]) -> None:
        """Of each key, the last row; then what is left of them."""
        if self._parts:
            self._set(finish(self._first_keys()))

    def _first_keys(self) -> pa.Table:
        """Of each of the first keys the last row: as many as fit before they are sifted.

        Payloads are copied once, of the rows that stay.
        """
        rows = pa.concat_tables(self._parts)
        found = _last_versions(rows)
        if self._last_key is not None:
            found = found.filter(pc.less_equal(found["key"], self._last_key))
        ends = pc.cumulative_sum(found["len"])
        by_len = pc.sum(pc.less_equal(ends, self._len_max)).as_py() or 0
        fitting = min(found.num_rows, self._rows_max, max(by_len, 1))
        if fitting < found.num_rows:
            self._last_key = found["key"][fitting - 1].as_py()
        return rows.take(found["row"].slice(0, fitting))

    def finish(self) -> Gathered:
        """All of them, in order."""
        if not self._parts:
            return Gathered(None, self._told(None))
        rows = self._cut_down(self._sorted())
        return Gathered(rows, self._told(rows))

    def _set(self, rows: pa.Table) -> None:
        self._parts, self._count, self._len = [rows], rows.num_rows, _len_of(rows)

    def _sorted(self) -> pa.Table:
        rows = pa.concat_tables(self._parts)
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
        if _len_of(rows) > self._len_max:
            ends = pc.cumulative_sum(_lens(rows))
            by_len = pc.sum(pc.less_equal(ends, self._len_max)).as_py()
            count = min(count, max(by_len, 1))
        return int(count)

    def _told(self, rows: pa.Table | None) -> Cut | None:
        bound, selection = self._bound, self._selection
        count = 0 if rows is None else rows.num_rows
        if count == self._asked_count:
            return None
        limit = f"an answer has at most {self._count_max} rows and {self._len_max} octets"
        if self._last_key is not None:
            last = self._last_key
            return Cut(f"{limit}; keys after {last} are missing", (selection.after_key(last),))
        if bound is None or rows is None or not count:
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


def _last_versions(rows: pa.Table) -> pa.Table:
    """Of each key, in their order: the number of its last row, and what that costs."""
    order = ("time", "seq", "log", "shard")  # the same whichever source was asked first
    found = rows.select(["key", *order])
    found = found.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    found = found.append_column("len", _lens(rows))
    found = found.sort_by([(name, "ascending") for name in order])
    last = found.group_by("key", use_threads=False).aggregate([("row", "last"), ("len", "last")])
    last = last.sort_by([("key", "ascending")])
    return pa.table({"key": last["key"], "row": last["row_last"], "len": last["len_last"]})


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

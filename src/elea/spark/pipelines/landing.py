"""Landing: one read of a log becomes files of many tables, each row in each table once.

A task reads a range of the log once. It writes the samples as they are to the files of archives,
decodes those that other tables are made of, and writes them to files of these. Rows that cannot be
decoded are in a table of their own, with the reason. To Spark it gives one row for each file; when
all tasks of a batch are done, each table takes its files in one step, with the numbers up to which
it has the log. So a batch that runs again adds nothing to any of them, and a table that is new, or
behind the others after a crash, gets what it lacks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from elea.atomic_file import replace_text
from elea.decode.columns.drift import Drift, columns_count
from elea.decode.columns.types import table_type
from elea.decode.layout import parse_layout
from elea.errors import EleaError
from elea.limits import DEFAULT_LIMITS
from elea.spark.options import Source
from elea.spark.pipelines.definition import BAD, Archive, Decoded, Pipeline
from elea.spark.pipelines.handed import HandedFile
from elea.spark.pipelines.silver import BAD_COLUMNS, EXTRA, Silver
from elea.spark.rows import raw_range
from elea.store.log.ranges import of_keys
from elea.store.tables.catalog import offsets_mark
from elea.store.tables.compaction import tidy
from elea.store.tables.files import Part, parts_of
from elea.store.tables.layout import COLUMNS, Layout, PartWriter
from elea.store.tables.table import Table, layout_of, open_table

_LOG: Final = logging.getLogger("elea.spark")
_GATHER_ROWS: Final = 8_192  # small batches are joined before they are decoded
_MEMBERS_SHOWN: Final = 5  # of those that are not columns
_EMPTY_EVERY: Final = 16  # batches without rows for a table, of which one is noted in it


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables are, and under which name they know how far they have the log."""

    storage: str
    format: str
    consumer: str
    lossy: bool = False

    @classmethod
    def of(cls, pipeline: Pipeline) -> Place:
        """That of a pipeline."""
        lossy = pipeline.options.get("failOnDataLoss", "true").lower() == "false"
        return cls(pipeline.storage, pipeline.format, pipeline.name, lossy)

    def path(self, name: str) -> Path:
        """The directory of a table."""
        return Path(self.storage) / name

    def open(self, name: str, columns: pa.Schema = COLUMNS) -> Table:
        """A table, which is made if it is not there."""
        return open_table(self.path(name), self.format, columns=columns)

    def layout(self, name: str) -> Layout:
        """That of a table, without looking at it: each task would, for each table."""
        return layout_of(self.path(name).absolute(), self.format, {})


def prepare(place: Place, tables: Sequence[Archive | Decoded]) -> None:
    """Make the tables that are not there, and add columns that are new.

    Raises:
        ConfigError: a table is of another format.
        StoreError: a column has another type in the table than in its definition.
    """
    for table in tables:
        if isinstance(table, Archive):
            place.open(table.name)
            continue
        columns = Silver(table, drift_of(place, table.name)).columns
        made = place.open(table.name, columns)
        made.add_columns(list(made.layout.schema_of(columns)))


@dataclass(frozen=True, slots=True)
class Landed:
    """What a task made of one range for one table."""

    table: str
    part: Part
    drift: tuple[Drift, ...] = ()


def land_range(
    source: Source,
    place: Place,
    tables: Sequence[Archive | Decoded],
    drift: Mapping[str, Sequence[Drift]],
    span: tuple[UUID, int, int, int],
) -> list[Landed]:
    """Write one range of a log for some tables.

    Args:
        drift: By table, members that are columns beside the declared ones.
        span: The log, the shard, and the numbers of the first row and after the last one.

    Raises:
        OffsetError: rows were trimmed.
        StoreError: rows are damaged, or it is another log.
    """
    writers = [_writer(place, table, drift.get(table.name, ()), span) for table in tables]
    try:
        for batch in raw_range(source, *span):
            for writer in writers:
                writer.add(batch)
        return [landed for writer in writers for landed in writer.finish()]
    except BaseException:
        for writer in writers:
            writer.abandon()
        raise


def _writer(
    place: Place,
    table: Archive | Decoded,
    drift: Sequence[Drift],
    span: tuple[UUID, int, int, int],
) -> _Raw | _Decoding:
    if isinstance(table, Archive):
        return _Raw(place, table, span)
    return _Decoding(place, Silver(table, drift), span)


class _Raw:
    """Samples as they are."""

    def __init__(self, place: Place, table: Archive, span: tuple[UUID, int, int, int]) -> None:
        self._table = table
        self._writer = PartWriter(place.layout(table.name), *span)

    def add(self, batch: pa.RecordBatch) -> None:
        rows = of_keys(batch, self._table.key_exprs)
        if rows.num_rows:
            self._writer.add(rows)

    def finish(self) -> list[Landed]:
        return [Landed(self._table.name, self._writer.finish())]

    def abandon(self) -> None:
        self._writer.abandon()


class _Decoding:
    """Samples with columns in place of payloads."""

    def __init__(self, place: Place, silver: Silver, span: tuple[UUID, int, int, int]) -> None:
        self._place, self._silver, self._span = place, silver, span
        layout = place.layout(silver.table.name)
        self._good = PartWriter(layout, *span, silver.columns)
        self._bad: PartWriter | None = None
        self._drift: dict[tuple[int, str], Drift] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        rows = self._silver.wanted(batch)
        if not rows.num_rows:
            return
        self._waiting.append(rows)
        self._waiting_count += rows.num_rows
        if self._waiting_count >= _GATHER_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).unify_dictionaries().combine_chunks()
        self._waiting, self._waiting_count = [], 0
        for batch in table.to_batches():
            found = self._silver.split(batch)
            if found.good.num_rows:
                self._good.add(found.good)
            if found.bad is not None and found.bad.num_rows:
                if self._bad is None:
                    layout = self._place.layout(self._silver.table.name + BAD)
                    self._bad = PartWriter(layout, *self._span, BAD_COLUMNS)
                self._bad.add(found.bad)
            for one in found.drift:
                self._drift.setdefault((one.rule, one.name), one)

    def finish(self) -> list[Landed]:
        self._flush()
        table = self._silver.table
        drift = tuple(self._drift.values()) if table.drift == "add" else ()
        made = [Landed(table.name, self._good.finish(), drift)]
        if self._bad is not None:
            # First: when the table has the range, it is not asked for again.
            made.insert(0, Landed(table.name + BAD, self._bad.finish()))
        return made

    def abandon(self) -> None:
        self._good.abandon()
        if self._bad is not None:
            self._bad.abandon()


def to_rows(landed: Iterable[Landed]) -> list[dict[str, Any]]:
    """What tasks made, as the rows that Spark carries to the driver."""
    rows = []
    for one in landed:
        more = {"table": one.table}
        if one.drift:
            more["drift"] = json.dumps([asdict(each) for each in one.drift])
        rows += [row | more for row in one.part.to_rows()]
    return rows


def from_rows(rows: Iterable[Mapping[str, Any]]) -> list[Landed]:
    """The same."""
    by_table: dict[tuple[str, str | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_table.setdefault((row["table"], row.get("drift")), []).append(row)
    return [
        Landed(table, part, tuple(Drift(**one) for one in json.loads(drift or "[]")))
        for (table, drift), some in by_table.items()
        for part in parts_of(some)
    ]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch added to one table."""

    table: str
    rows_count: int
    octets_count: int
    events: tuple[str, ...] = ()  # what an operator should know
    ends: Mapping[int, int] | None = None  # where the table ends now, if it was looked at


def commit(
    place: Place, tables: Sequence[Archive | Decoded], landed: Sequence[Landed], number: int
) -> list[Committed]:
    """Take what the tasks of a batch made into the tables.

    Args:
        tables: All that land together. The first of them notes every batch itself.
        number: Of the batch.

    Raises:
        ConflictError: another writer brought some of these rows, or rows in between are missing.
    """
    by_table: dict[str, list[Landed]] = {}
    for one in landed:
        by_table.setdefault(one.table, []).append(one)
    done = []
    handed = HandedFile(place.storage)
    for table in tables:
        ones = by_table.get(table.name, [])
        parts = [one.part for one in ones]
        bad = _whole_batch(table.name + BAD, by_table.get(table.name + BAD, []), ones)
        is_due = table is tables[0] or number % _EMPTY_EVERY == 0 or any(one.files for one in parts)
        if parts and (bad or is_due or not handed.note(table, parts, None)):
            log_id = parts[0].log_id
            made = place.open(table.name)
            own = made.opened.marks(offsets_mark(place.consumer, log_id))
            ends = handed.ends(table, log_id, own)
            if bad:
                # They come first: where the table ends, its bad rows are all in theirs.
                bad_ends = {part.shard: ends.get(part.shard, part.first) for part in parts}
                bad_rows = place.open(table.name + BAD, BAD_COLUMNS)
                done.append(_taken(place, table.name + BAD, bad_rows, bad, bad_ends))
            done.append(_taken(place, table.name, made, ones, ends))
            handed.note(table, parts, done[-1].ends)
        drift = _distinct(one for each in ones for one in each.drift)
        if drift and isinstance(table, Decoded):
            events = _adopt(place, table, drift)
            if events:
                done.append(Committed(table.name, 0, 0, events))
    handed.write()
    return done


def _whole_batch(name: str, bad: Sequence[Landed], all_rows: Sequence[Landed]) -> list[Landed]:
    """The bad rows of a batch, if any, with its other ranges as empty parts.

    So a table of bad rows ends where a batch ends, however the batch is divided into tasks when it
    runs again.
    """
    if not bad:
        return []
    spans = {(one.part.shard, one.part.first) for one in bad}
    empty = [
        Landed(name, replace(one.part, files=()))
        for one in all_rows
        if (one.part.shard, one.part.first) not in spans
    ]
    return [*bad, *empty]


def _taken(
    place: Place, name: str, table: Table, landed: Sequence[Landed], handed: Mapping[int, int]
) -> Committed:
    """Commit what a table does not have of a batch, and remove the files of the rest."""
    parts = [one.part for one in landed]
    ends = table.opened.marks(offsets_mark(place.consumer, parts[0].log_id))
    fresh = [part for part in parts if part.end > ends.get(part.shard, part.end - 1)]
    base = table.opened
    table.commit(place.consumer, fresh, lossy=place.lossy, handed=handed, base=base)
    table.commit(place.consumer, [part for part in parts if part not in fresh])
    files = [file for part in fresh for file in part.files]
    tidy(table, len(files))
    rows_count = sum(file.rows_count for file in files)
    after = dict(ends)
    for part in fresh:
        after[part.shard] = max(part.end, after.get(part.shard, 0))
    octets_count = sum(file.octets_count for file in files)
    return Committed(name, rows_count, octets_count, ends=after)


def _distinct(drift: Iterable[Drift]) -> tuple[Drift, ...]:
    found: dict[tuple[int, str], Drift] = {}
    for one in drift:
        found.setdefault((one.rule, one.name.lower()), one)
    return tuple(found.values())


def drift_of(place: Place, table: str) -> tuple[Drift, ...]:
    """Members that were found in payloads of a table, and are columns of it."""
    try:
        told = json.loads(_drift_file(place, table).read_bytes())
    except FileNotFoundError:
        return ()
    return tuple(Drift(**one) for one in told)


def _paths(field: pa.Field, above: str = "") -> Iterator[str]:
    """Yield the dotted paths of a column: a table of Iceberg has each once."""
    path = f"{above}{field.name}".lower()
    yield path
    for index in range(field.type.num_fields):
        yield from _paths(field.type.field(index), f"{path}.")


def _adopt(place: Place, table: Decoded, drift: Sequence[Drift]) -> tuple[str, ...]:
    """Columns for members that are new, up to a bound; rows have them from the next batch on.

    Members beyond it are in the column `_extra`. Returns what an operator should know.
    """
    known = list(drift_of(place, table.name))
    names = {one.name.lower() for one in known}
    fresh = [one for one in drift if one.name.lower() not in names and _fits(table, known, one)]
    room = table.drift_max - sum(columns_count(one) for one in known if one.name != EXTRA)
    in_batch = DEFAULT_LIMITS.drift_batch_columns_count
    chosen: list[Drift] = []
    rest: list[Drift] = []
    taken = {path for one in Silver(table, known).columns for path in _paths(one)}
    for one in fresh:
        count = columns_count(one)
        paths = set(_paths(pa.field(one.name, table_type(parse_layout(one.layout)))))
        if count > room or not paths.isdisjoint(taken):
            rest.append(one)
        elif count <= in_batch or not chosen:  # else with a later batch
            chosen.append(one)
            taken |= paths
            room, in_batch = room - count, in_batch - count
    events = [
        f"{table.name}: payloads hold {one.name!a}, {one.layout}: a column now" for one in chosen
    ]
    if rest and EXTRA not in names:
        chosen.append(Drift(-1, EXTRA, "string"))
        shown = ", ".join(f"{one.name[:40]!a}" for one in rest[:_MEMBERS_SHOWN])
        events.append(
            f"{table.name}: {len(rest)} more members of payloads ({shown}, ...) exceed drift_max"
            f" ({table.drift_max}) or have the path of a column: they are in the column {EXTRA}"
        )
    if not chosen:
        return ()
    for event in events:
        _LOG.warning("table %s", event)
    made = place.open(table.name)
    made.add_columns(list(made.layout.schema_of(Silver(table, [*known, *chosen]).columns)))
    file = _drift_file(place, table.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps([asdict(one) for one in (*known, *chosen)]))
    return tuple(events)


def _fits(table: Decoded, known: Sequence[Drift], one: Drift) -> bool:
    """Whether a member can be a column: rows have none of that name, and not too many."""
    if one.name.lower() == EXTRA:
        return False
    try:
        names = [name.lower() for name in Silver(table, [*known, one]).columns.names]
    except EleaError as error:
        _tell_unfit(table.name, one.name, str(error))
        return False
    if len(set(names)) < len(names):
        _tell_unfit(table.name, one.name, "rows have a column of that name")
        return False
    return True


@lru_cache(maxsize=1_024)  # once for each
def _tell_unfit(table: str, name: str, reason: str) -> None:
    _LOG.warning("table %s: payloads hold %a, which is left out: %s", table, name, reason)


def _drift_file(place: Place, table: str) -> Path:
    return Path(place.storage) / "_elea" / "drift" / f"{table}.json"

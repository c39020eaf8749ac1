"""Upkeep: gold tables and views, brought up to date in rounds, each after what it is made of."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from elea.spark.jvm import jvm_end
from elea.spark.pipelines import graph
from elea.spark.pipelines.definition import BAD, Gold, Pipeline, Table, View
from elea.spark.pipelines.gold import KINDS, refresh
from elea.spark.pipelines.gold import Gold as Refreshable
from elea.spark.pipelines.gold.backfill import backfill
from elea.spark.pipelines.gold.event_time import AHEAD_COUNT
from elea.spark.pipelines.gold.frames import collected
from elea.spark.pipelines.gold.inputs import frame_of
from elea.spark.pipelines.gold.late import LATE, LATE_COUNT, refill_of
from elea.spark.pipelines.gold.refresh import Refreshed
from elea.spark.pipelines.outbox import Outbox, kept_at_ns
from elea.spark.pipelines.publish import payload, send_rows
from elea.spark.pipelines.state import Board
from elea.spark.pipelines.supervision import OF_USER, Supervision
from elea.store.tables.results import is_results, open_results, removal_all
from elea.store.tables.table import format_of, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger("elea.spark")
_WAIT_S: Final = 0.25
_REFILL_S: Final = 10.0  # from one back-fill of late rows of a table to the next, at least,
_REFILL_SHARE: Final = 10  # and so many times as long as it took


class _NotYetError(Exception):
    """Tables that something is made of are not there yet."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"waits for {', '.join(names)}")


class Upkeep:
    """The gold tables and views of one run.

    Args:
        is_final: Nothing more is to come: what is open is closed.
    """

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, board: Board, *, is_final: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._board = board
        self._is_final = is_final
        self._tables = [one for one in graph.ordered(pipeline) if isinstance(one, (Gold, View))]
        self._supervised = {one.name: Supervision() for one in self._tables}
        self._seen: dict[str, tuple[int, ...]] = {}
        self._stopping = threading.Event()
        self._rounds: threading.Thread | None = None
        self._refills: dict[str, float] = {}  # when late rows may be filled in next
        self._unfilled: set[str] = set()  # tables that wait for that
        self._ahead: set[str] = set()  # tables that have rows of wrong clocks
        self._forgotten: dict[str, int] = {}

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._tables)

    @property
    def failed(self) -> list[str]:
        """Tables that were given up."""
        return [name for name, one in self._supervised.items() if one.is_given_up]

    @property
    def failing(self) -> list[str]:
        """Tables whose last round failed."""
        return [name for name, one in self._supervised.items() if one.failures_count]

    @property
    def is_hopeless(self) -> bool:
        """Whether all that failed would fail again."""
        failed = [one for one in self._supervised.values() if one.failures_count]
        return bool(failed) and all(one.is_hopeless for one in failed)

    def start(self) -> None:
        """Rounds from now on, in a thread."""
        self._rounds = threading.Thread(target=self._loop, name="elea-pipeline", daemon=True)
        self._rounds.start()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopping.set()
        if self._rounds is not None:
            self._rounds.join()

    def _loop(self) -> None:
        next_s = time.monotonic()
        while not self._stopping.is_set():
            if time.monotonic() < next_s or not self._wants_round():
                self._stopping.wait(_WAIT_S)
                continue
            next_s = time.monotonic() + self._pipeline.refresh_s
            self.round()

    def _wants_round(self) -> bool:
        """Whether something is new, or has to be tried again."""
        if self._board.news.is_set():
            return True
        now_s = time.monotonic()
        if any(self._refills[name] <= now_s for name in self._unfilled):
            return True
        return any(one.failures_count and one.may_begin(now_s) for one in self._supervised.values())

    def round(self) -> bool:
        """Each table once; whether all of them could be brought up to date."""
        self._board.news.clear()
        is_good = True
        for table in self._tables:
            supervised = self._supervised[table.name]
            now_s = time.monotonic()
            if isinstance(table, View) and table.is_temporary:
                continue
            if not supervised.may_begin(now_s):
                is_good = False
                continue
            sources = self._sources(table)
            changes = self._board.changes(sources)
            is_waiting = supervised.failures_count or table.name in self._unfilled
            if self._seen.get(table.name) == changes and not is_waiting:
                continue
            supervised.begins(now_s)
            try:
                self._one(table)
            except _NotYetError as error:
                self._board.table(table.name, state="waiting", error=str(error))
                continue
            except OF_USER as error:  # or of Spark, of a disk: it is told
                if jvm_end(error) is not None:
                    return False  # the runner reports that Java ended; the table is not at fault
                supervised.fails(error, time.monotonic())
                is_good = False
                with suppress(Exception):  # it may have changed, and could not be published
                    self._board.grown(table.name, 0, rows_of(self._pipeline, table.name))
                self._failed(table.name, supervised)
                continue
            supervised.works()
            self._seen[table.name] = changes
            took_s = time.monotonic() - now_s
            self._board.table(
                table.name, state="running", batch_s=round(took_s, 3), error=supervised.error
            )
        return is_good

    def _failed(self, name: str, supervised: Supervision) -> None:
        state = "failed" if supervised.is_given_up else "failing"
        self._board.table(
            name, state=state, error=supervised.error, restarts=supervised.restarts_count
        )
        self._board.event(f"{name}: {supervised.error}")
        _LOG.error("table %s: %s", name, supervised.error)

    def _sources(self, table: Table) -> tuple[str, ...]:
        """What it is made of; all others, if that is not known."""
        found = graph.sources_of(self._pipeline, table)
        is_known = found or not isinstance(table, View) or table.sql is not None
        return found if is_known else self._all_but(table)

    def _all_but(self, table: Table) -> tuple[str, ...]:
        return tuple(
            name
            for one in self._pipeline.tables
            if one.name != table.name
            for name in graph.names_of(one)
        )

    def _one(self, table: Gold | View) -> None:
        if isinstance(table, Gold):
            self._gold(table)
        else:
            self._view(table)

    def _gold(self, table: Gold) -> None:
        pipeline = self._pipeline
        made = refresh(
            self._spark,
            gold_of(pipeline, table),
            is_final=self._is_final,
            outbox=self._outbox(table),
        )
        if made.rows_count or made.removed_count:
            self._board.grown(table.name, made.rows_count, rows_of(pipeline, table.name))
        self._board.table(table.name, batch=made.number)
        self._tell_counts(table.name, made)
        self._refill(table, made.totals)

    def _tell_counts(self, name: str, made: Refreshed) -> None:
        """What an operator should know: late rows, wrong clocks, bounds that were exceeded."""
        self._forgotten[name] = self._forgotten.get(name, 0) + made.forgotten_count
        if made.totals:
            self._board.table(
                name,
                late=made.totals.get(LATE_COUNT, 0),
                ahead=made.totals.get(AHEAD_COUNT, 0),
                forgotten=self._forgotten[name],
            )
        if made.late_count:
            self._board.event(f"{name}: {made.late_count} rows came too late, see {name}{LATE}")
        if made.ahead_count and name not in self._ahead:
            self._board.event(
                f"{name}: the timestamps of {made.ahead_count} rows are ahead of their reception,"
                " or this of the time of day, by more than `drift`: a clock is wrong"
            )
        if made.forgotten_count:
            self._board.event(
                f"{name}: {made.forgotten_count} groups, devices or publishers exceed the bound,"
                " and were forgotten: set it higher"
            )
        (self._ahead.add if made.ahead_count else self._ahead.discard)(name)

    def _refill(self, table: Gold, mark: Mapping[str, int]) -> None:
        """Make spans anew for which rows came late that a recorder filled in; not all the time."""
        span = refill_of(mark)
        if span is None:
            return
        now_s = time.monotonic()
        if now_s < self._refills.get(table.name, now_s) and not self._stopping.is_set():
            self._unfilled.add(table.name)
            return
        self._unfilled.discard(table.name)
        made = backfill(self._spark, gold_of(self._pipeline, table), *span)
        took_s = time.monotonic() - now_s
        self._refills[table.name] = now_s + max(_REFILL_S, _REFILL_SHARE * took_s)
        self._board.grown(table.name, 0, rows_of(self._pipeline, table.name))
        self._board.event(
            f"{table.name}: back-filled, as rows came late: {made.removed_count} rows replaced by"
            f" {made.added_count}"
        )

    def _view(self, table: View) -> None:
        path = self._pipeline.path(table.name)
        results = open_results(path, self._pipeline.format)
        outbox = self._outbox(table)
        if outbox is not None:  # what a round before left
            outbox.deliver(results.number())
        rows = collected(self._frame(table))
        have = results.rows()
        if have is not None and not _fits(rows, have.schema) and is_results(path):
            shutil.rmtree(path)  # its definition has changed, and all of it is made anew
            results, have = open_results(path, self._pipeline.format), None
        if have is not None and have.equals(rows.cast(have.schema)):
            return
        fresh = _new_rows(have, rows)
        number = results.number() + 1
        if outbox is not None and fresh.num_rows:
            outbox.keep(fresh, number)
        removal = removal_all(None if have is None else have.schema)
        results.change(number, rows, [] if removal is None else [removal])
        if outbox is not None:
            outbox.deliver(number)
        self._board.grown(table.name, fresh.num_rows, rows.num_rows)
        self._board.table(table.name, batch=results.number())

    def _frame(self, table: View) -> DataFrame:
        """What a view is now.

        Raises:
            _NotYetError: what it is made of is not there yet.
        """
        from pyspark.errors import AnalysisException

        wanted = self._sources(table)
        temporary = [
            one
            for one in self._pipeline.tables
            if isinstance(one, View) and one.is_temporary and one.name in wanted
        ]
        missing = []
        for name in self._all_but(table) if temporary else wanted:
            found = frame_of(self._spark, self._pipeline.path(name))
            if found is not None:
                found.createOrReplaceTempView(name)
            elif name in {one.name for one in temporary}:
                continue
            elif table.sql is not None or not name.endswith((BAD, LATE)):
                missing.append(name)  # what a function reads is not known: most have no use for it
        if missing and table.sql is not None and not temporary:
            raise _NotYetError(missing)
        try:
            for one in temporary:
                assert one.query is not None
                one.query().createOrReplaceTempView(one.name)
            if table.sql is not None:
                return self._spark.sql(table.sql)
            assert table.query is not None
            return table.query()
        except AnalysisException as error:
            if missing:
                raise _NotYetError(missing) from error
            raise

    def _outbox(self, table: Gold | View) -> Outbox | None:
        pipeline, publish = self._pipeline, table.publish

        def send(rows: pa.Table, number: int) -> None:
            if publish is not None:
                at_ns = kept_at_ns(rows)
                send_rows(pipeline, table.name, publish, rows, str(number), at_ns)

        outbox = Outbox(pipeline.own / "outbox" / f"{table.name}.arrow", send)
        if publish is None:
            outbox.clear()  # it was published once, and is not any more
            return None
        return outbox


def gold_of(pipeline: Pipeline, table: Gold) -> Refreshable:
    """A gold table with the directories it is made of."""
    sources = [pipeline.path(name) for name in table.sources]
    path = pipeline.path(table.name)
    return Refreshable(KINDS[table.kind], table.options, sources, path, pipeline.format)


def rows_of(pipeline: Pipeline, name: str) -> int:
    """How many rows a table has; 0: there is none yet."""
    path = pipeline.path(name)
    if is_results(path):
        return open_results(path).rows_count()
    if format_of(path) is None:
        return 0
    return sum(file.rows_count for file in open_table(path).files())


def _fits(rows: pa.Table, schema: pa.Schema) -> bool:
    """Whether rows are of a table with these columns."""
    try:
        rows.cast(schema)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _new_rows(have: pa.Table | None, rows: pa.Table) -> pa.Table:
    """Rows that were not there before."""
    if have is None:
        return rows
    known = {payload(row, "json") for row in have.to_pylist()}
    return rows.filter(
        pa.array([payload(row, "json") not in known for row in rows.to_pylist()], pa.bool_())
    )

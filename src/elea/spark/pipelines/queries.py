"""The queries of a pipeline that Spark runs: landing, flows of functions, rows that are published.

One query lands all tables of the log, as each query costs Spark a third of a second of processor
time for every batch. Flows and published tables are queries of their own.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from elea.spark.identity import batch_time_ns
from elea.spark.pipelines import landing
from elea.spark.pipelines.appending import append
from elea.spark.pipelines.definition import Archive, Decoded, Pipeline, Publish, Query, Sink, Stream
from elea.spark.pipelines.gold.frames import collected
from elea.spark.pipelines.gold.inputs import frame_of
from elea.spark.pipelines.publish import send_rows, sink_options
from elea.spark.pipelines.state import Board
from elea.spark.pipelines.supervision import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ROWS_MAX: Final = 2_000_000  # of a batch: some files of about 50 MB


class Handle(Protocol):
    """Something that runs."""

    def is_active(self) -> bool:
        """Whether it still does."""

    def error(self) -> str | None:
        """Why it ended; None: it was done."""

    def progress(self) -> Mapping[str, Any]:
        """What is known of it: `batch`, `batch_s`."""

    def stop(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A query: how it is started, which tables it is for.

    Args:
        is_vital: Without it there is nothing to do for the others.
    """

    name: str
    tables: tuple[str, ...]
    start: Callable[[], Handle]
    is_vital: bool = False


class SparkQuery:
    """A query of Spark."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def is_active(self) -> bool:
        """As `Handle`."""
        return bool(self._query.isActive)

    def error(self) -> str | None:
        """As `Handle`."""
        found = self._query.exception()
        return None if found is None else told(found)

    def progress(self) -> Mapping[str, Any]:
        """As `Handle`."""
        found = self._query.lastProgress
        return {} if found is None else progress_of(found)

    def stop(self) -> None:
        """As `Handle`."""
        self._query.stop()


def progress_of(told_: Mapping[str, Any]) -> dict[str, Any]:
    """What Spark's progress says, in few words."""
    found: dict[str, Any] = {"batch": told_["batchId"]}
    durations = told_.get("durationMs") or {}
    if "triggerExecution" in durations:
        found["batch_s"] = durations["triggerExecution"] / 1_000
    return found


def landing_checkpoint(pipeline: Pipeline) -> Path:
    """Where the query that lands tables keeps how far it has come; another one for other tables."""
    names = "\n".join(table.name for table in pipeline.landed)
    return _checkpoint(pipeline, f"landing-{hashlib.sha256(names.encode()).hexdigest()[:12]}")


def flow_checkpoint(pipeline: Pipeline, target: str, flow: str) -> Path:
    """The same, of a flow."""
    return _checkpoint(pipeline, f"flow-{target}-{flow}")


def _checkpoint(pipeline: Pipeline, name: str) -> Path:
    return pipeline.own / "checkpoints" / name


def source_options(pipeline: Pipeline, consumer: str, key_exprs: Sequence[str]) -> dict[str, str]:
    """Options with which a query reads the log of a pipeline."""
    options = {"log": pipeline.log, "consumer": consumer, "maxRowsPerTrigger": str(_ROWS_MAX)}
    if "**" not in key_exprs:
        options["keyexpr"] = json.dumps(sorted(set(key_exprs)))
    return options | pipeline.reach() | dict(pipeline.options)


class Queries:
    """All queries of one run.

    Args:
        once: Take what there is, and end.
    """

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, board: Board, *, once: bool
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._board = board
        self._once = once
        self._names = threading.Lock()  # names of views are the session's

    def jobs(self) -> list[Job]:
        """What is to be started."""
        self._register()
        pipeline = self._pipeline
        found = []
        if pipeline.landed:
            names = tuple(table.name for table in pipeline.landed)
            found.append(Job("landing", names, self._landing, is_vital=True))
        for table in pipeline.tables:
            if isinstance(table, Decoded) and table.publish is not None:
                found.append(self._publishing(table, table.publish))
            if isinstance(table, Stream):
                found += [self._flow(table, name, one) for name, one in table.flows.items()]
        for sink in pipeline.sinks:
            found += [self._flow(sink, name, one) for name, one in sink.flows.items()]
        return found

    def _register(self) -> None:
        """Make sure of `format("zenoh")`.

        Spark looks for it once. On a host that was too busy then it would never find it.
        """
        from pyspark.errors import AnalysisException

        from elea.spark.source import ZenohSource

        with suppress(AnalysisException):  # it was found
            self._spark.dataSource.register(ZenohSource)

    def _landing(self) -> Handle:
        from elea.spark.pipelines.landing_source import NAME, OPTION, LandingSource, option_of

        pipeline = self._pipeline
        place, tables = landing.Place.of(pipeline), pipeline.landed
        landing.prepare(place, tables)
        self._spark.dataSource.register(LandingSource)
        keys = [key for table in tables for key in table.key_exprs or ("**",)]
        options = self._source(pipeline.name, keys) | {OPTION: option_of(place, tables)}
        frame = self._spark.readStream.format(NAME).options(**options).load()

        def commit(batch: DataFrame, number: int) -> None:
            # Once: to look at the rows again would be to read and write them again.
            rows = [row.asDict() for row in batch.collect()]
            for one in landing.commit(place, tables, landing.from_rows(rows), number):
                if one.rows_count:
                    self._board.grown(one.table, one.rows_count)
                for event in one.events:
                    self._board.event(event)

        writer = frame.writeStream.foreachBatch(commit)
        return self._started(writer, landing_checkpoint(pipeline))

    def _publishing(self, table: Decoded, publish: Publish) -> Job:
        def start() -> Handle:
            frame = self._decoded(table, f"{self._pipeline.name}.publish.{table.name}", publish)
            writer = frame.writeStream.format("zenoh")
            writer = writer.options(**sink_options(self._pipeline, publish))
            return self._started(writer, _checkpoint(self._pipeline, f"publish-{table.name}"))

        return Job(f"publish {table.name}", (), start)

    def _flow(self, target: Stream | Sink, name: str, query: Query) -> Job:
        def start() -> Handle:
            with self._names:
                self._register_streams(name)
                frame = query()
            if isinstance(target, Sink):
                writer = frame.writeStream.format(target.format).options(**target.options)
            else:
                writer = frame.writeStream.foreachBatch(self._appender(target, name))
            return self._started(writer, flow_checkpoint(self._pipeline, target.name, name))

        tables = (target.name,) if isinstance(target, Stream) else ()
        return Job(f"flow {name}", tables, start)

    def _appender(self, target: Stream, flow: str) -> Callable[[DataFrame, int], None]:
        def taken(batch: DataFrame, number: int) -> None:
            rows = collected(batch)
            path, format = self._pipeline.path(target.name), self._pipeline.format
            query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            if append(path, format, f"{flow}/{query}", number, rows):
                self._board.grown(target.name, rows.num_rows)
            if target.publish is not None:
                change = f"{flow}/{query}/{number}"
                at_ns = batch_time_ns(flow_checkpoint(self._pipeline, target.name, flow), number)
                send_rows(self._pipeline, target.name, target.publish, rows, change, at_ns)

        return taken

    def _register_streams(self, flow: str) -> None:
        """The tables of the log as streams, under their names; others as they are now."""
        pipeline = self._pipeline
        for table in pipeline.tables:
            consumer = f"{pipeline.name}.{flow}.{table.name}"
            if isinstance(table, Archive):
                options = self._source(consumer, table.key_exprs or ("**",))
                frame = self._spark.readStream.format("zenoh").options(**options).load()
            elif isinstance(table, Decoded):
                frame = self._decoded(table, consumer)
            else:
                found = frame_of(self._spark, pipeline.path(table.name))
                if found is None:
                    continue
                frame = found
            frame.createOrReplaceTempView(table.name)

    def _decoded(self, table: Decoded, consumer: str, publish: Publish | None = None) -> DataFrame:
        from elea.spark.pipelines.table_source import NAME, OPTION, TableSource, option_of

        self._spark.dataSource.register(TableSource)
        options = self._source(consumer, table.key_exprs) | {OPTION: option_of(table, publish)}
        return self._spark.readStream.format(NAME).options(**options).load()

    def _source(self, consumer: str, key_exprs: Sequence[str]) -> dict[str, str]:
        return source_options(self._pipeline, consumer, key_exprs)

    def _started(self, writer: DataStreamWriter, checkpoint: Path) -> Handle:
        writer = writer.option("checkpointLocation", str(checkpoint))
        if self._once or self._pipeline.trigger_s is None:
            writer = writer.trigger(availableNow=True)
        else:
            milliseconds = max(1, round(self._pipeline.trigger_s * 1_000))
            writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
        # Spark finds sinks that are written in Python by the session of the thread, and this is how
        # a thread of Python gets one.
        self._spark.createDataFrame([], "nothing INT")
        return SparkQuery(writer.queryName(f"{self._pipeline.name} {checkpoint.name}").start())

"""Run a pipeline: start its queries, begin again what fails, tell how it does, end it in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elea.errors import EleaError, MissingDependencyError
from elea.spark.jvm import jvm_end
from elea.spark.pipelines import served
from elea.spark.pipelines.answers import job_of
from elea.spark.pipelines.definition import BAD, Decoded, Pipeline, View
from elea.spark.pipelines.lag import Lags
from elea.spark.pipelines.queries import Handle, Job, Queries
from elea.spark.pipelines.state import Board, Lease, Status, now_status
from elea.spark.pipelines.supervision import OF_USER, Supervision, told
from elea.spark.pipelines.upkeep import Upkeep, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("elea.spark")
_POLL_S: Final = 0.1
_TELL_S: Final = 1.0
_RATE_S: Final = 5.0  # over which rates are measured
# A round looks at little: 200 partitions, as Spark has by default, cost more than their rows.
_LOCAL: Final = {"spark.sql.shuffle.partitions": "2"}
_FINAL_ROUNDS_MAX: Final = 20  # in which what failed is tried again, at the end


def run(
    pipeline: Pipeline,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    once: bool = False,
    final: bool = False,
    on_status: Callable[[Status], None] | None = None,
) -> Run:
    """Start a pipeline; it runs until `stop`, or with `once` until all there is is in its tables.

    Args:
        spark: The session it runs in; one is made, and ended with the run, if none is given.
        master: Where that one runs: `spark://host:7077`; this host if not given.
        once: Take what the log has now, and end.
        final: And close what is open, as nothing more is to come.
        on_status: Called about once in a second, from a thread.

    Raises:
        StoreError: it runs already.
        MissingDependencyError: PySpark is not installed.

    Example:
        with dp.run(dp.load("pipeline.yaml"), once=True) as run:
            run.wait()
    """
    lease = Lease(pipeline.own)
    is_ours = spark is None
    try:
        once = once or pipeline.trigger_s is None
        if spark is None:
            spark = session_for(pipeline, master=master, quick=once)
        board = Board(now_status(pipeline.name))
        queries = Queries(pipeline, spark, board, once=once)
        upkeep = Upkeep(pipeline, spark, board, is_final=final)
        jobs = queries.jobs()
        answers = None if once else job_of(pipeline)
        if answers is not None:
            jobs.append(answers)
        told_by = None if once else served.job_of(pipeline, board.status)
        if told_by is not None:
            jobs.append(told_by)
        made = Run(
            *(pipeline, lease, board, jobs, upkeep),
            once=once,
            on_status=on_status,
            engine_end=jvm_end,
        )
    except ModuleNotFoundError as error:
        lease.release()
        raise MissingDependencyError("a pipeline", "spark") from error
    except BaseException:
        lease.release()
        raise
    if is_ours:
        made.at_end(spark.stop)
    made.start()
    return made


def session_for(
    pipeline: Pipeline,
    *,
    master: str | None = None,
    quick: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session for a pipeline, as `elea.spark.session`; on one host, with few partitions."""
    from elea.spark.jvm import session

    is_local = master is None or master.startswith("local")
    settings = _LOCAL if is_local else {}
    settings = {**settings, **(config or {})}
    return session(f"elea {pipeline.name}", master=master, quick=quick, config=settings)


@dataclass(slots=True)
class _Supervised:
    """A job, and what became of it."""

    job: Job
    supervision: Supervision = field(default_factory=Supervision)
    handle: Handle | None = None
    is_done: bool = False

    def is_over(self) -> bool:
        return self.is_done or (self.handle is None and self.supervision.is_given_up)


class Run:
    """A pipeline that runs. Made by `run`."""

    def __init__(
        self,
        pipeline: Pipeline,
        lease: Lease,
        board: Board,
        jobs: Sequence[Job],
        upkeep: Upkeep,
        *,
        once: bool,
        on_status: Callable[[Status], None] | None = None,
        attempts_max: int | None = None,
        engine_end: Callable[[BaseException | None], str | None] | None = None,
    ) -> None:
        self.error: str | None = None  # that ended the run
        self._engine_end = engine_end
        self._pipeline = pipeline
        self._lease = lease
        self._board = board
        self._jobs = [_Supervised(job) for job in jobs]
        if attempts_max is not None:
            for one in self._jobs:
                one.supervision.attempts_max = attempts_max
        self._upkeep = upkeep
        self._once = once
        self._on_status = on_status
        self._lags = Lags(pipeline)
        self._last_round = True
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._at_end: list[Callable[[], object]] = []
        self._rates: list[tuple[float, dict[str, int]]] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def at_end(self, call: Callable[[], object]) -> None:
        """Call something when the run has ended."""
        self._at_end.append(call)

    def start(self) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self._run, name="elea-pipeline-run", daemon=True).start()

    def status(self) -> Status:
        """How it does."""
        return self._board.status()

    def stop(self, timeout_s: float | None = None, *, last_round: bool = True) -> bool:
        """End it in order; whether it has ended.

        What was read is in the tables, and what follows from it: a last round is made.

        Args:
            last_round: False: what follows from it is left to the next run.
        """
        self._last_round = self._last_round and last_round
        self._stopping.set()
        return self._ended.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        return self._ended.wait(timeout_s)

    @property
    def failed(self) -> list[str]:
        """Queries and tables that were given up; of a run `once`, all that have failed."""
        jobs = [one.job.name for one in self._jobs if one.supervision.is_given_up]
        return [*jobs, *(self._upkeep.failing if self._once else self._upkeep.failed)]

    @property
    def errors(self) -> dict[str, str]:
        """By each of `failed`, what went wrong."""
        tables = self.status().tables
        jobs = {one.job.name: one.supervision.error for one in self._jobs}
        return {
            name: jobs.get(name) or (tables[name].error if name in tables else None) or ""
            for name in self.failed
        }

    def check(self) -> None:
        """Raise, if something was given up, or the run itself failed.

        Raises:
            EleaError: it says what, and why.
        """
        if self.error is not None:
            raise EleaError(self.error)
        errors = self.errors
        if errors:
            raise EleaError(f"given up: {', '.join(errors)}: {next(iter(errors.values()))}")

    def _run(self) -> None:
        try:
            self._begin()
            while not self._is_over():
                self._poll()
                self._stopping.wait(_POLL_S)
            self._board.state("stopping")
            self._end()
        except BaseException as error:  # nobody else would see it
            end = None if self._engine_end is None else self._engine_end(error)
            if end is None:
                _LOG.exception("pipeline %s", self._pipeline.name)
            self.error = end or told(error)
            self._board.event(self.error)
            self._board.state("failed")
        else:
            self._board.state("failed" if self.failed else "stopped")
        finally:
            self._close()

    def _begin(self) -> None:
        for table in self._pipeline.tables:
            kind = type(table).__name__.lower()
            if isinstance(table, View) and table.is_temporary:
                continue
            names = [table.name, table.name + BAD] if isinstance(table, Decoded) else [table.name]
            for name in names:
                rows = rows_of(self._pipeline, name)
                if rows or name == table.name:
                    self._board.table(name, kind if name == table.name else "bad", rows=rows)
        self._board.news.set()  # what was made by a run before
        self._board.state("running")
        self._tell()
        watch = threading.Thread(
            target=self._lags.watch,
            args=(self._board, self._ended),
            name="elea-pipeline-lag",
            daemon=True,
        )
        watch.start()
        if self._upkeep.is_needed and not self._once:
            self._upkeep.start()

    def _is_over(self) -> bool:
        if self._stopping.is_set() or self._lease.is_asked_to_stop():
            return True
        for one in self._jobs:
            if one.job.is_vital and one.supervision.is_given_up:
                return True
        return all(one.is_over() for one in self._jobs) and (self._once or bool(self._jobs))

    def _poll(self) -> None:
        now_s = time.monotonic()
        for one in self._jobs:
            if one.handle is not None:
                self._look_at(one, now_s)
            elif not one.is_over() and one.supervision.may_begin(now_s):
                self._check_engine()
                self._start(one, now_s)
        if not self._rates or now_s - self._rates[-1][0] >= _TELL_S:
            self._tell()

    def _check_engine(self) -> None:
        """Do not begin again what ended because Spark itself did."""
        end = None if self._engine_end is None else self._engine_end(None)
        if end is not None:
            raise EleaError(end)

    def _start(self, one: _Supervised, now_s: float) -> None:
        one.supervision.begins(now_s)
        try:
            one.handle = one.job.start()
        except OF_USER as error:  # or of Spark, of a disk: it is told
            self._failed(one, told(error), now_s)
            return
        self._note(one, "running")

    def _look_at(self, one: _Supervised, now_s: float) -> None:
        assert one.handle is not None
        progress = one.handle.progress()
        if progress:
            for name in one.job.tables:
                self._board.table(name, **progress)
            if progress.get("batch") is not None and progress.get("batch_s"):
                one.supervision.works()
        if one.handle.is_active():
            return
        error = one.handle.error()
        one.handle = None
        if error is None:
            one.is_done = True
            self._note(one, "done")
        else:
            self._failed(one, error, now_s)

    def _failed(self, one: _Supervised, error: str, now_s: float) -> None:
        one.supervision.fails(error, now_s)
        if self._once and one.supervision.is_hopeless:
            one.supervision.give_up()
        self._note(one, "failed" if one.supervision.is_given_up else "failing")
        self._board.event(f"{one.job.name}: {one.supervision.error}")
        _LOG.error("%s: %s", one.job.name, one.supervision.error)

    def _note(self, one: _Supervised, state: str) -> None:
        supervision = one.supervision
        for name in one.job.tables:
            self._board.table(
                name, state=state, restarts=supervision.restarts_count, error=supervision.error
            )

    def _end(self) -> None:
        for one in self._jobs:
            if one.handle is not None:
                one.handle.stop()
                one.handle = None
                self._note(one, "done")
        self._upkeep.stop()
        self._check_engine()
        if self._upkeep.is_needed and self._last_round:
            for _ in range(_FINAL_ROUNDS_MAX):
                if self._upkeep.round() or not self._once or self._upkeep.is_hopeless:
                    break
                time.sleep(_TELL_S)
        self._lags.tell(self._board)
        self._board.done()

    def _close(self) -> None:
        for call in self._at_end:
            with suppress(Exception):
                call()
        with suppress(OSError):
            self._tell()
        self._lease.release()
        self._ended.set()

    def _tell(self) -> None:
        """Rates, the state file, and whoever wants to know."""
        now_s = time.monotonic()
        status = self._board.status()
        added = {name: one.added for name, one in status.tables.items()}
        while len(self._rates) > 1 and now_s - self._rates[0][0] > _RATE_S:
            del self._rates[0]
        if self._rates:
            then_s, before = self._rates[0]
            for name, count in added.items():
                rate = (count - before.get(name, 0)) / max(now_s - then_s, 1e-3)
                self._board.table(name, rate=round(rate, 1))
            status = self._board.status()
        self._rates.append((now_s, added))
        self._lease.tell(status)
        if self._on_status is not None:
            self._on_status(status)

"""A run of the demo: all parts started, a fleet for a while, drained, and everything proved."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from elea.daemon.effective import Options
from elea.demo import files, queries
from elea.demo.dds_robot import NOT_INSTALLED, is_installed, reserved_domain
from elea.demo.fleet import LEDGER
from elea.demo.fleet_process import FleetProcess
from elea.demo.gold import prove_gold, some_rows
from elea.demo.ledger import Ledger
from elea.demo.plan import BESIDE, OVERHEATS, STREAMS, TINY_COUNT, Plan
from elea.demo.progress import Progress
from elea.demo.progress import read as read_progress
from elea.demo.proof import (
    Check,
    Evidence,
    Expected,
    counts_of,
    is_table,
    missing,
    prove,
    prove_decoded,
    prove_encodings,
)
from elea.demo.robot_page import page_of
from elea.demo.stack import OUTPUT, Recorded, Stack, pipeline_command
from elea.demo.supervisor import State
from elea.errors import EleaError, StoreError
from elea.sample import Sample
from elea.session.handlers import Callback
from elea.spark.repeats import Repeats, once

LOG: Final = Path("log") / "fleet"
LAKE: Final = Path("lake")
BRONZE: Final = "bronze"
GARBLED: Final = "imu_bad"
RESULTS: Final = ("gold/**", "alerts/**")
PUBLISHED: Final = ("imu_1s", "hot")  # the tables whose rows those are
_LISTEN: Final = "tcp/127.0.0.1:0"
_GATEWAY: Final = 'plugins/xrce/listen:["udp/127.0.0.1:0"]'
_POLL_S: Final = 0.5
_TICK_S: Final = 2.0
_DRAIN_TICK_S: Final = 5.0
_RESTARTS_MAX: Final = 3
_READY_S: Final = 300.0  # for Java and Spark to start on a busy machine
_SETTLE_S: Final = 60.0  # for the recorder to ask for what is missing
_DRAIN_S: Final = 300.0  # for the pipeline to come to the end of the log
_STOP_S: Final = 300.0  # and to make gold tables of the last rows
_HASTE_S: Final = 10.0  # to end after a failure, or when interrupted twice


@dataclass(frozen=True, slots=True)
class Tick:
    """How it goes, every two seconds."""

    elapsed_s: float
    sent: int
    stored: int
    late_ms: int
    recorded: Recorded
    pipeline: Progress
    problem: str | None  # why the pipeline does not run
    results: int  # samples that the pipeline published


@dataclass(slots=True)
class Summary:
    """What came out of it."""

    directory: Path
    endpoint: str = ""
    interrupted: bool = False
    checks: list[Check] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)
    gold: dict[str, list[dict[str, str]]] = field(default_factory=dict)  # some rows
    results: int = 0
    restarts: int = 0

    @property
    def holds(self) -> bool:
        """Whether every count is as it should be."""
        return bool(self.checks) and all(check.holds for check in self.checks)


class Run:
    """One run in a directory of its own.

    Args:
        plan: What the fleet does.
        directory: Where everything is kept; it is made, and must not be there.
        on_step: Told what is done now.
        on_tick: Told how it goes.
        on_result: Told what the pipeline published, by a thread of the session.
        stay: Told the summary, if the router and its page are to stay until `interrupt`.
        command: How a pipeline is started, by its file.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        *,
        on_step: Callable[[str], None],
        on_tick: Callable[[Tick], None],
        on_result: Callable[[Sample], None],
        stay: Callable[[Summary], None] | None = None,
        command: Callable[[Path], Sequence[str]] = pipeline_command,
    ) -> None:
        self._stay = stay
        self._plan = plan
        self._directory = directory.absolute()
        self._step = on_step
        self._tick = on_tick
        self._on_result = on_result
        self._command = command
        self._restarts_max = _RESTARTS_MAX
        self._interrupted = threading.Event()
        self._start_s = 0.0
        self._results = 0
        self._repeats = Repeats()  # what is sent again counts once
        self._stack: Stack | None = None
        self._fleet: FleetProcess | None = None

    def interrupt(self) -> None:
        """End the fleet before its time; what was sent is still drained and proved."""
        self._interrupted.set()

    def run(self) -> Summary:
        """All of it.

        Raises:
            EleaError: a part cannot be started, or falls again and again.
        """
        with reserved_domain() as domain:
            return self._run(domain)

    def _run(self, domain: int | None) -> Summary:
        self._plan = replace(self._plan, dds=domain is not None)
        self._directory.mkdir(parents=True)
        summary = Summary(self._directory)
        recorder = json.dumps(str(self._directory / LOG.parts[0]))
        router = self._directory / files.ROUTER
        files.lay_out(self._directory, domain=domain)
        queries.write(self._directory)
        cfg: tuple[str, ...] = (
            f"plugins/recorder/directory:{recorder}",
            f"plugins/historian/logs:{json.dumps(str(self._directory / LOG))}",
            _GATEWAY,
        )
        if files.has_sql():
            cfg += (f"plugins/sql/tables:{json.dumps(str(self._directory / LAKE))}",)
        shows = files.has_page()
        stack = Stack(Options(config=str(router), listen=(_LISTEN,), cfg=cfg, ui=shows))
        with self._running(stack):
            summary.endpoint = stack.start_router()
            self._step(_page_line(stack))
            gateway = stack.gateway()
            files.lay_out(self._directory, summary.endpoint, gateway, domain=domain)
            self._step(f"router and recorder at {summary.endpoint}, tiny devices at {gateway}")
            self._step(_dds_line(domain))
            self._start_pipeline(stack)
            if not self._interrupted.is_set():
                self._watch_fleet(stack, summary.endpoint, gateway, domain)
                self._drain(stack)
                self._step("gold tables of the last rows")
                if not stack.stop_pipeline(_STOP_S):
                    self._step("the pipeline did not end in time, and was killed")
            summary.results = self._results
            summary.restarts = stack.pipeline.restarts if stack.pipeline else 0
            summary.interrupted = self._interrupted.is_set()
            if self._stay is not None and not summary.interrupted:
                self._prove(summary)
                self._stay(summary)
                self._interrupted.wait()
                return summary
        self._prove(summary)
        return summary

    @contextmanager
    def _running(self, stack: Stack) -> Iterator[None]:
        """Whatever happens: the fleet goes first, then who reads, then who records."""
        self._stack = stack
        timeout_s = _HASTE_S
        try:
            yield
            timeout_s = _STOP_S
        finally:
            if self._fleet is not None:
                self._fleet.leave(timeout_s)
            stack.stop(timeout_s)

    def _start_pipeline(self, stack: Stack) -> None:
        self._step("starting Spark (local mode, two cores)")
        command = self._command(self._directory / files.PIPELINE)
        stack.start_pipeline(
            command,
            self._directory / OUTPUT,
            file=self._directory / files.PIPELINE,
            restarts_max=self._restarts_max,
        )
        began_s = time.monotonic()
        lake = self._directory / LAKE
        self._until(
            lambda: read_progress(lake).state == "running" or is_table(lake / BRONZE),
            _READY_S,
            "start of the pipeline",
        )
        self._step(f"pipeline runs after {time.monotonic() - began_s:.0f} s")

    def _watch_fleet(self, stack: Stack, endpoint: str, gateway: str, domain: int | None) -> None:
        session = stack.router.session
        for key_expr in RESULTS:
            heard = once(self._heard, self._repeats)
            session.declare_subscriber(key_expr, Callback(heard, indirect=False))
        beside = "a ROS 2 node" if domain is None else "a ROS 2 node and a DDS robot"
        fleet_of = f"{self._plan.robots} robots, {TINY_COUNT} tiny devices, {beside}"
        self._step(f"{fleet_of} for {self._plan.duration_s:g} s")
        self._start_s = time.monotonic()
        fleet = self._fleet = FleetProcess(self._plan, endpoint, gateway, self._directory, domain)
        while not fleet.is_over:
            self._show(stack, fleet)
            if self._interrupted.wait(_TICK_S):
                fleet.end()
                time.sleep(_POLL_S)
        if fleet.has_fallen:
            raise EleaError(f"the fleet ended before its time: see {fleet.output}")
        self._show(stack, fleet)

    def _drain(self, stack: Stack) -> None:
        """Until all that was sent is in the log, and all of that in the tables."""
        fleet = self._fleet
        assert fleet is not None
        self._step("waiting for what is still on its way")
        log, ledger_file = self._directory / LOG, self._directory / LEDGER
        expected = fleet.said.sent
        self._until(lambda: _covers(log, expected), _SETTLE_S, None)
        fleet.leave()
        ledger = Ledger.read(ledger_file)
        self._step("draining the log into the tables")
        lake = self._directory / LAKE
        self._until(lambda: _is_drained(ledger, log, lake), _DRAIN_S, None, stack=stack)

    def _until(
        self,
        is_so: Callable[[], bool],
        timeout_s: float,
        what: str | None,
        *,
        stack: Stack | None = None,
    ) -> None:
        """Wait for something; if it does not come, raise, or leave it to the proof."""
        assert self._stack is not None
        until_s = time.monotonic() + timeout_s
        shown_s = time.monotonic()
        while not is_so():
            pipeline = self._stack.pipeline
            problem = self._stack.pipeline_problem()
            if pipeline is not None and pipeline.state in (State.FAILED, State.ENDED):
                raise EleaError(f"the pipeline {problem}; see {self._directory / OUTPUT}")
            if time.monotonic() > until_s:
                if what is None:
                    return
                raise EleaError(f"no {what} within {timeout_s:g} s: {problem or 'it runs'}")
            if what is not None and self._interrupted.is_set():
                return
            if stack is not None and time.monotonic() - shown_s >= _DRAIN_TICK_S:
                shown_s = time.monotonic()
                self._show(stack, self._fleet)
            time.sleep(_POLL_S)

    def _show(self, stack: Stack, fleet: FleetProcess | None) -> None:
        said = fleet.said if fleet is not None else None
        self._tick(
            Tick(
                elapsed_s=time.monotonic() - self._start_s,
                sent=said.sent if said else 0,
                stored=said.stored if said else 0,
                late_ms=said.late_ms if said else 0,
                recorded=stack.recorded(),
                pipeline=read_progress(self._directory / LAKE),
                problem=stack.pipeline_problem(),
                results=self._results,
            )
        )

    def _heard(self, sample: Sample) -> None:
        self._results += 1
        self._on_result(sample)

    def _prove(self, summary: Summary) -> None:
        lake = self._directory / LAKE
        ledger_file = self._directory / LEDGER
        if not ledger_file.exists():
            return  # it was interrupted before there was a fleet
        ledger, bronze = Ledger.read(ledger_file), Evidence.of_archive(lake / BRONZE)
        plan = self._plan
        expected = Expected(
            sent=plan.count(),
            acknowledged=plan.count(acknowledged_only=True),
            lost=plan.lost_count(),
            garbled=plan.garbled_count(),
            tiny=plan.tiny_count(),
            dds=plan.dds_count(),
            ros=plan.ros_count(),
        )
        if summary.interrupted:
            summary.checks = prove(ledger, bronze, None)
        else:
            summary.checks = prove(ledger, bronze, expected)
        summary.checks += prove_encodings(lake / BRONZE, (*STREAMS, *BESIDE))
        for stream in (*STREAMS, *BESIDE):
            good, bad = lake / stream.name, lake / f"{stream.name}_bad"
            if is_table(good):
                summary.checks += prove_decoded(stream.name, ledger, bronze, good, bad)
        summary.tables = counts_of(lake)
        if not summary.interrupted and GARBLED in summary.tables:
            seen = summary.tables[GARBLED]
            summary.checks.append(Check("garbled payloads", seen, expected.garbled, "kept apart"))
        published = [name for name in PUBLISHED if name in summary.tables]
        if published:
            rows = sum(summary.tables[name] for name in published)
            note = f"as {' and '.join(published)} have"
            summary.checks.append(Check("results on the bus", summary.results, rows, note))
        lives = sum(len(plan.lives(robot)) for robot in range(1, plan.robots + 1))
        summary.checks += prove_gold(lake, None if summary.interrupted else lives)
        summary.gold = some_rows(lake)
        text = page_of(lake / BRONZE, OVERHEATS, summary.checks)
        (self._directory / queries.PLOT).write_text(text, encoding="utf-8")


def _page_line(stack: Stack) -> str:
    page = stack.page
    if page is None:
        return "no page: pip install 'elea[web]' brings it"
    return f"look at it in a browser: {page.page_url}"


def _dds_line(domain: int | None) -> str:
    if domain is not None:
        return f"DDS bridge in domain {domain}, on loopback"
    return "no DDS robot: all its domains are taken" if is_installed() else NOT_INSTALLED


def _covers(log: Path, sent: int) -> bool:
    try:
        evidence = Evidence.of_log(log)
    except StoreError:
        return False
    return len(evidence.found.keys() | evidence.told_lost) >= sent


def _is_drained(ledger: Ledger, log: Path, lake: Path) -> bool:
    bronze = Evidence.of_archive(lake / BRONZE)
    if missing(ledger, bronze) or bronze.rows < Evidence.of_log(log).rows:
        return False
    return all(
        check.holds
        for stream in (*STREAMS, *BESIDE)
        if is_table(lake / stream.name)
        for check in prove_decoded(
            stream.name, ledger, bronze, lake / stream.name, lake / f"{stream.name}_bad"
        )
    )

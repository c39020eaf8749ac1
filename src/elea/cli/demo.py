"""`elea demo`: a router, a fleet, the durable log and a pipeline on Spark; every sample counted."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.exit_codes import reading_arguments
from elea.cli.output import Json, Painter, Style, add_color_option, escape, json_line, painter
from elea.cli.payloads import count, seconds
from elea.errors import EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.demo.run import Run, Summary, Tick
    from elea.sample import Sample

NAME: Final = "demo"
SUMMARY: Final = "run a router, a fleet, a recorder and a pipeline on Spark, and prove the counts"

_EPILOG: Final = """\
Everything listens on loopback, at a free port. The fleet has faults on purpose: two robots with a
bad radio, one that restarts, one that overheats, one whose payloads are garbled now and then. Two
tiny devices are beside them, which speak XRCE over UDP in frames of 64 octets: one moves to another
address, one sleeps for a while; and a ROS 2 node on rmw_zenoh, and a DDS robot behind a bridge (if
elea[dds] is installed).
A page for browsers shows all of it (if elea[web] is installed); its address is printed first.
Ctrl-C ends it early; what was sent is drained and counted all the same.

exit status:
  0  every sample is in the tables once
  1  a count is off, or a part could not be started

examples:
  elea demo
  elea demo --stay
  elea demo --duration 20 --to /tmp/demo
  elea demo --robots 50 --rate 2 --json
"""
_PACKAGES: Final = ("pyspark", "pyarrow", "deltalake", "yaml")
_ROOT: Final = "elea-demo"
_RESULT_EVERY_S: Final = 2.0
_SHOWN_LEN: Final = 120


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--duration",
        type=seconds,
        default=60.0,
        metavar="S",
        help="how long the fleet publishes (default: 60)",
    )
    parser.add_argument(
        "--robots", type=count, default=20, metavar="N", help="how many, 6 to 99 (default: 20)"
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=1.0,
        metavar="X",
        help="X times as many samples as the usual 31 a second of each robot (default: 1)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of what looks random (default: 1)"
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help=f"keep all files there; it must not exist (default: {_ROOT}/ and the time)",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="leave the router and its page running when all is counted, until Ctrl-C",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON objects: how it goes, and the summary"
    )
    add_color_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run it; 0 if all counts are right."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingDependencyError("elea demo", "demo")
    from elea.demo.plan import Plan
    from elea.demo.run import Run
    from elea.spark.java import find

    with reading_arguments():
        plan = Plan(args.robots, args.duration, args.rate, args.seed)
    directory = args.to or Path(_ROOT) / time.strftime("%Y%m%d-%H%M%S")
    if directory.exists():
        raise EleaError(f"{directory} exists; give --to a directory that does not")
    java = find()  # it says what to install, before anything is started
    screen = _Screen(as_json=args.json, paint=painter(args.color, sys.stdout))
    screen.step(str(java))
    made = Run(
        plan,
        directory,
        on_step=screen.step,
        on_tick=screen.tick,
        on_result=screen.result,
        stay=screen.stay if args.stay else None,
    )
    with _interruptible(made, screen):
        summary = made.run()
    if not screen.stays:
        screen.summary(summary)
    return 0 if summary.holds else 1


@contextmanager
def _interruptible(made: Run, screen: _Screen) -> Iterator[None]:
    """Ctrl-C, SIGTERM or SIGHUP ends the fleet early; the second time, everything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, frame: object) -> None:
        for one in before:
            signal.signal(one, signal.default_int_handler)
        if screen.stays:
            screen.step("stopping")
        else:
            screen.step("interrupted: counting what was sent so far (once more: end at once)")
        made.interrupt()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):  # a terminal that is closed
        numbers.append(signal.SIGHUP)
    before = {one: signal.signal(one, heard) for one in numbers}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class _Screen:
    """What is printed, as lines for people or as JSON."""

    def __init__(self, *, as_json: bool, paint: Painter) -> None:
        self._as_json = as_json
        self._paint = paint
        self._start_s = time.monotonic()
        self._lock = threading.Lock()  # results come from the session's threads
        self._sent = (0.0, 0)
        self._result_s = 0.0
        self._errors: dict[str, str] = {}  # told already, by table
        self.stays = False  # all is counted, and the router is left running

    def _print(self, value: Json, line: str) -> None:
        with self._lock:
            print(json_line(value) if self._as_json else line, flush=True)

    def _time(self) -> str:
        return self._paint(f"{time.monotonic() - self._start_s:6.1f} s ", Style.DIM)

    def step(self, text: str) -> None:
        """Something begins."""
        self._print({"step": text}, self._time() + self._paint(escape(text), Style.BOLD))

    def tick(self, tick: Tick) -> None:
        """How it goes."""
        passed_s, more = tick.elapsed_s - self._sent[0], tick.sent - self._sent[1]
        rate = more / passed_s if passed_s > 0 else 0.0
        self._sent = (tick.elapsed_s, tick.sent)
        told, pipeline = tick.recorded, tick.pipeline
        behind = max(0, told.rows - pipeline.rows.get("bronze", 0))
        line = (
            f"sent {tick.sent:,} ({rate:,.0f}/s), acknowledged {tick.stored:,}, recorded"
            f" {told.rows:,} | {pipeline.line(behind)} | {tick.results:,} results"
        )
        value: dict[str, Json] = {
            "elapsed_s": round(tick.elapsed_s, 1),
            "sent": tick.sent,
            "rate": round(rate, 1),
            "acknowledged": tick.stored,
            "late_ms": tick.late_ms,
            "recorded": told.rows,
            "filled": told.filled,
            "gaps": told.gaps,
            "dropped": told.dropped,
            "behind": behind,
            "batch_s": pipeline.batch_s,
            "tables": dict(pipeline.rows),
            "results": tick.results,
        }
        self._print({"tick": value}, self._time() + line)
        errors = dict(pipeline.errors)
        if tick.problem is not None:
            errors["pipeline"] = tick.problem
        for name, error in errors.items():
            if self._errors.get(name) == error:
                continue
            self._errors[name] = error
            self._print(
                {"error": {name: error}}, self._paint(escape(f"  {name}: {error}"), Style.RED)
            )

    def result(self, sample: Sample) -> None:
        """What the pipeline published: alerts always, others now and then."""
        is_alert = str(sample.key_expr).startswith("alerts/")
        now_s = time.monotonic()
        if not is_alert and now_s - self._result_s < _RESULT_EVERY_S:
            return
        self._result_s = now_s if not is_alert else self._result_s
        key, text = str(sample.key_expr), escape(_shown(sample))
        style = Style.RED if is_alert else Style.CYAN
        line = f"{self._time()}  {self._paint(escape(key), style)} {text}"
        self._print({"result": {"key": key, "payload": text}}, line)

    def stay(self, summary: Summary) -> None:
        """All is counted, and the page can still be looked at."""
        self.summary(summary)
        self.stays = True
        self.step("the router and its page stay until Ctrl-C")

    def summary(self, summary: Summary) -> None:
        """What came out of it."""
        if self._as_json:
            self._print({"summary": summary_json(summary)}, "")
            return
        for line in summary_lines(summary, self._paint):
            self._print(None, line)


def _shown(sample: Sample) -> str:
    text = sample.payload.to_bytes().decode(errors="replace")
    return text if len(text) <= _SHOWN_LEN else f"{text[:_SHOWN_LEN]}..."


def summary_json(summary: Summary) -> dict[str, Json]:
    """The summary, for programs."""
    return {
        "holds": summary.holds,
        "interrupted": summary.interrupted,
        "directory": str(summary.directory),
        "checks": [
            {"name": one.name, "seen": one.seen, "wanted": one.wanted, "holds": one.holds}
            for one in summary.checks
        ],
        "tables": dict(summary.tables),
        "gold": {name: [dict(row) for row in some] for name, some in summary.gold.items()},
        "results": summary.results,
        "restarts": summary.restarts,
    }


def summary_lines(summary: Summary, paint: Painter) -> Iterator[str]:
    """The summary, for people."""
    from elea.demo import queries

    yield ""
    for check in summary.checks:
        mark = paint("ok ", Style.GREEN) if check.holds else paint("OFF", Style.RED)
        wanted = "" if check.holds else f"  should be {check.wanted:,}"
        note = f"  {check.note}" if check.note else ""
        yield f"  {mark}  {check.name:<28} {check.seen:>10,}{wanted}{paint(note, Style.DIM)}"
    yield ""
    for name, rows in summary.tables.items():
        yield f"       table {name:<22} {rows:>10,} rows"
    for name, some in summary.gold.items():
        for row in some:
            text = " ".join(f"{column}={value}" for column, value in row.items())
            yield paint(f"       {name}: {escape(text)[:_SHOWN_LEN]}", Style.DIM)
    yield ""
    directory = summary.directory
    yield f"  files          {directory}"
    if (directory / queries.PLOT).exists():
        yield f"  one robot      {directory / queries.PLOT}"
    # No part of the extra `demo`: what is printed works where it is printed.
    install = "" if find_spec("duckdb") else "pip install duckdb && "
    yield f"  with DuckDB    {install}python {directory / queries.DUCKDB}"
    yield f"  with Spark     python {directory / queries.SPARK}"
    yield f"  go on with it  elea up {directory / 'router.json5'}"
    yield ""
    if summary.holds:
        early = " (ended early)" if summary.interrupted else ""
        yield paint(f"every sample is in the tables exactly once{early}", Style.GREEN, Style.BOLD)
    else:
        reason = "a count is off" if summary.checks else "it ended before there was a fleet"
        yield paint(reason, Style.RED, Style.BOLD)

"""`elea pipeline run`, `status`, `stop`: a pipeline that runs, here or in another shell."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from elea.cli.output import Json, Painter, Style, painter
from elea.errors import ConfigError, EleaError

if TYPE_CHECKING:
    from types import FrameType

    from elea.spark.pipelines.definition import Pipeline
    from elea.spark.pipelines.runner import Run
    from elea.spark.pipelines.state import Status, TableStatus

_ORPHAN_S: Final = 60.0  # to end, if nobody waits for it any more
_POLL_S: Final = 0.2
_STYLES: Final = {
    "running": Style.GREEN,
    "done": Style.GREEN,
    "stopped": Style.GREEN,
    "failing": Style.YELLOW,
    "failed": Style.RED,
    "dead": Style.RED,
}
_OF_THE_LOG: Final = ("archive", "decoded", "stream")
_HEAD: Final = (
    "table",
    "kind",
    "state",
    "rows",
    "rows/s",
    "lag",
    "late",
    "batch",
    "seconds",
    "restarts",
)


def configure_run(verb: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    verb.add_argument("--once", action="store_true", help="take what the log has now, and end")
    verb.add_argument(
        "--final", action="store_true", help="with --once: close what is open, nothing more comes"
    )
    verb.add_argument(
        "--master", help="where Spark runs: spark://host:7077; this host if not given"
    )
    verb.add_argument(
        "--duration", type=float, metavar="SECONDS", help="end after so long; 0 or less is refused"
    )
    verb.add_argument(
        "--until-eof",
        action="store_true",
        help="end when standard input is closed, as it is when who started it is gone",
    )
    verb.add_argument(
        "--table", action="append", default=[], help="only this table, and what it is made of"
    )
    verb.add_argument(
        "--every",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="from one line of progress to the next (%(default)s)",
    )
    verb.add_argument("--quiet", action="store_true", help="no progress")
    verb.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )


def configure_status(verb: argparse.ArgumentParser) -> None:
    """The options of `status`."""
    verb.add_argument(
        "--metrics", action="store_true", help="as OpenMetrics text, for a collector of text files"
    )


def run(args: argparse.Namespace) -> int:
    """Run a pipeline until it ends, or is interrupted."""
    from elea.spark import pipelines as dp
    from elea.spark.jvm import jvm_end, session, silence_threads
    from elea.spark.pipelines import graph, verbs
    from elea.spark.pipelines.reading import missing_logs
    from elea.spark.pipelines.runner import session_for

    if args.duration is not None and args.duration <= 0:
        raise ConfigError("--duration", f"saw {args.duration}; legal are seconds above 0")
    config = _pairs(args.conf)
    maker = partial(session, "elea pipeline", master=args.master, quick=args.once, config=config)
    verbs.SESSION_MAKER.set(maker)  # for a file that uses the session while it is loaded
    pipeline = dp.load(args.file)
    if args.table:
        pipeline = graph.only(pipeline, args.table)
    is_once = args.once or pipeline.trigger_s is None
    if is_once and (missing := missing_logs(pipeline)):  # nobody makes it meanwhile
        raise EleaError(str(missing[0]))
    progress = _Progress(args)
    silence_threads()
    gone = threading.Event()
    if args.until_eof:
        threading.Thread(target=_until_eof, args=(gone,), daemon=True).start()
    try:
        spark = session_for(pipeline, master=args.master, quick=is_once, config=config)
        made = _finished(args, pipeline, spark, progress, gone)
    except Exception as error:
        end = jvm_end(error)
        if end is None:
            raise
        _die(end)
    show(args, made.status())
    if made.error is not None:
        print(f"elea: {made.error}", file=sys.stderr)
    for name, reason in made.errors.items():
        print(f"elea: {name} failed: {reason}", file=sys.stderr)
    return 1 if made.failed or made.status().state == "failed" else 0


def _finished(
    args: argparse.Namespace,
    pipeline: Pipeline,
    spark: Any,
    progress: _Progress,
    gone: threading.Event,
) -> Run:
    """A run that has ended, and its Spark with it."""
    from elea.spark import pipelines as dp
    from elea.spark.jvm import jvm_end

    with _Interrupts() as asked:  # until Spark has ended: what the run did is told after that
        try:
            made = dp.run(
                pipeline, spark, once=args.once, final=args.final, on_status=progress.status
            )
            end_s = None if args.duration is None else time.monotonic() + args.duration
            while not made.wait(_POLL_S):
                if gone.is_set():  # and the router with it, most likely
                    made.stop(last_round=False)
                if asked.is_set() or (end_s is not None and time.monotonic() >= end_s):
                    made.stop()
        finally:
            end = jvm_end(sys.exception())
            if end is not None:
                _die(end)
            spark.stop()
    return made


def _die(reason: str) -> NoReturn:
    """End at once: what is left of a Spark whose Java process is gone cannot end in order."""
    print(f"elea: {reason}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _until_eof(gone: threading.Event) -> None:
    """Ask for an orderly end once standard input is closed, and wait for it; not for ever."""
    with suppress(OSError):  # there is none: as if it were closed
        while os.read(0, 4_096):
            pass
    gone.set()
    time.sleep(_ORPHAN_S)
    os._exit(1)  # Java ends when this process does


class _Interrupts:
    """Ctrl-C and SIGTERM ask for an orderly end; a second Ctrl-C does not wait for it."""

    def __enter__(self) -> threading.Event:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}
        with suppress(ValueError):  # not in the main thread: whoever called it handles signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()


class _Progress:
    """A line for each table that does something, now and then."""

    def __init__(self, args: argparse.Namespace) -> None:
        from elea.cli.samples import Printer

        self._args = args
        self._printer = Printer.of(args)
        self._paint = painter(args.color, sys.stdout)
        self._next_s = 0.0

    def status(self, status: Status) -> None:
        now_s = time.monotonic()
        if self._args.quiet or now_s < self._next_s:
            return
        self._next_s = now_s + self._args.every
        if self._args.json:
            self._printer.record(values_of(status), "")
            return
        stamp = time.strftime("%H:%M:%S", time.gmtime(status.at_s))
        parts = [_short(name, one, self._paint) for name, one in status.tables.items()]
        shown = "  ".join(part for part in parts if part) or "starting Spark"
        self._printer.record({}, f"{stamp} {shown}")


def _short(name: str, one: TableStatus, paint: Painter) -> str:
    if one.state == "waiting":
        return ""
    text = f"{name} {one.rows}"
    if one.rate:
        text += f" (+{one.rate:.0f}/s)"
    if one.lag:
        text += f" lag {one.lag}"
    if one.batch_s is not None:
        text += f" {one.batch_s:.2f}s"
    return text if one.error is None else paint(f"{text} {one.state}", Style.YELLOW)


def status(args: argparse.Namespace) -> int:
    """Tell how a pipeline does that runs, or ran, somewhere on this host."""
    from elea.cli.pipeline_metrics import metrics_text
    from elea.spark import pipelines as dp
    from elea.spark.pipelines import state
    from elea.spark.pipelines.lag import Lags
    from elea.spark.sessions import close_all

    pipeline = dp.load(args.file)
    found = state.read(pipeline.own)
    if found is None:
        raise EleaError(f"{pipeline.name}: it never ran; `elea pipeline run {args.file}` starts it")
    Lags(pipeline).put(found)  # as it is now, whether the runner lives or not
    close_all()  # if it was asked by a session
    if args.metrics:
        sys.stdout.write(metrics_text(found))
        return 0 if found.is_alive else 1
    show(args, found)
    return 0 if found.is_alive else 1


def stop(args: argparse.Namespace) -> int:
    """Ask a pipeline that runs to stop, and wait until it has."""
    from elea.cli.samples import Printer
    from elea.spark import pipelines as dp
    from elea.spark.pipelines import state

    if args.timeout <= 0:
        raise ConfigError("--timeout", f"saw {args.timeout}; legal are seconds above 0")
    pipeline = dp.load(args.file)
    if not state.is_held(pipeline.own):
        raise EleaError(f"{pipeline.name} does not run")
    state.ask_to_stop(pipeline.own)
    end_s = time.monotonic() + args.timeout
    while state.is_held(pipeline.own):
        if time.monotonic() >= end_s:
            found = state.read(pipeline.own)
            who = f"process {found.pid} of {found.host}" if found is not None else "its process"
            raise EleaError(f"{pipeline.name} did not stop in {args.timeout:g} s; it is {who}")
        time.sleep(_POLL_S)
    Printer.of(args).record({"pipeline": pipeline.name, "stopped": True}, "stopped")
    return 0


def values_of(status: Status) -> dict[str, Json]:
    """A status as one object."""
    found: dict[str, Json] = asdict(status)
    return found


def show(args: argparse.Namespace, status: Status) -> None:
    """Print a status: a line for each table, what went wrong, and events."""
    from elea.cli.samples import Printer

    printer, paint = Printer.of(args), painter(args.color, sys.stdout)
    if args.json:
        printer.record(values_of(status), "")
        return
    who = f"process {status.pid} of {status.host}"
    if status.state == "dead":
        who += "; it is gone without a word, `elea pipeline run` goes on where it ended"
    styles = [_STYLES[status.state]] if status.state in _STYLES else []
    lines = [f"{status.pipeline}: {paint(status.state, *styles)}, {who}"]
    is_known = status.lag_error is None
    rows = [_HEAD, *(_cells(name, one, is_known) for name, one in status.tables.items())]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    if status.lag_error is not None:
        lines.append(f"lag: not known, the log cannot be asked: {status.lag_error}")
    lines += [f"{name}: {one.error}" for name, one in status.tables.items() if one.error]
    lines += status.events[-5:]
    for line in lines:
        printer.record({}, line)


def _cells(name: str, one: TableStatus, is_known: bool) -> tuple[str, ...]:
    lag = ""
    if one.lag is not None:
        lag = f"{one.lag} ({one.lag_s:g} s)" if one.lag and one.lag_s is not None else str(one.lag)
    elif not is_known and one.kind in _OF_THE_LOG:
        lag = "unknown"
    batch = "" if one.batch is None else str(one.batch)
    took = "" if one.batch_s is None else f"{one.batch_s:.2f}"
    return (
        *(name, one.kind, one.state, str(one.rows), f"{one.rate:.0f}"),
        *(lag, str(one.late) if one.late else "", batch, took, str(one.restarts)),
    )


def _pairs(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError("--conf", f"saw {text!a}; legal is NAME=VALUE")
        found[name] = value
    return found

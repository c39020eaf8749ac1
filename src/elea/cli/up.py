"""`elea up`: a router with its recorder and a pipeline beside it, until it is told to stop."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.log_options import add_log_options, log_settings_of
from elea.cli.output import Json, json_line, printable
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import seconds
from elea.errors import ConfigError

if TYPE_CHECKING:
    from elea.demo.stack import Stack

NAME: Final = "up"
SUMMARY: Final = "run a router, its recorder and a pipeline, supervised, until SIGTERM"

_EPILOG: Final = """\
CONFIG is a configuration of a router; its section plugins/recorder says what is recorded. The
pipeline is pipeline.yaml beside it, if there is one. Paths in both count from the directory they
are in. The pipeline is a process of its own: when it falls it is started again, after pauses of up
to 30 seconds, and goes on where it was; samples are recorded meanwhile. What it says is in
pipeline.log.

SIGTERM and Ctrl-C stop the pipeline first, then the recorder, then the router. SIGHUP reads CONFIG
again.

examples:
  elea up
  elea up /etc/elea/router.json5 --pipeline /etc/elea/pipeline.yaml --every 60
"""
_CONFIG: Final = "router.json5"
_PIPELINE: Final = "pipeline.yaml"
_TEND_S: Final = 1.0
_EVERY_S: Final = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_key_argument(
        parser,
        "config",
        metavar="CONFIG",
        flags=("-c", "--config"),
        default=_CONFIG,
        help=f"of the router: JSON5, YAML or TOML, by its ending (default: {_CONFIG})",
    )
    parser.add_argument(
        "--pipeline",
        type=Path,
        metavar="FILE",
        help=f"what the pipeline is (default: {_PIPELINE} beside CONFIG, if there is one)",
    )
    parser.add_argument(
        "--every",
        type=seconds,
        default=_EVERY_S,
        metavar="S",
        help="seconds from one status line to the next (default: 10)",
    )
    parser.add_argument(
        "--allow-plain",
        action="store_true",
        help="listen without encryption where other hosts can connect; refused otherwise",
    )
    parser.add_argument(
        "--no-ui",
        action="store_true",
        help="serve no page for browsers; it is at a free port of loopback, or where plugins/rest"
        " says, if elea[web] is installed",
    )
    parser.add_argument("--json", action="store_true", help="print status lines as JSON objects")
    add_log_options(parser, default="warn")


def run(args: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    from elea.daemon.effective import Options
    from elea.daemon.logs import start_logging
    from elea.demo.files import has_page
    from elea.demo.progress import storage_of
    from elea.demo.stack import OUTPUT, Stack, pipeline_command

    config = Path(args.config).absolute()
    if not config.is_file():
        advice = "the one that `elea demo` leaves in its directory is a beginning"
        raise ConfigError(args.config, f"is no file; give the configuration of a router: {advice}")
    pipeline = args.pipeline.absolute() if args.pipeline else config.parent / _PIPELINE
    if args.pipeline is not None and not pipeline.is_file():
        raise ConfigError(str(args.pipeline), "is no file; give the file of a pipeline")
    start_logging(log_settings_of(args))
    os.chdir(config.parent)  # from where the paths in it count
    shows = not args.no_ui and has_page()
    stack = Stack(Options(config=str(config), allow_plain=args.allow_plain, ui=shows))
    with _signals(stack) as is_ending:
        try:
            endpoint = stack.start_router()
            _say(args, {"ready": endpoint}, f"ready: router at {endpoint}")
            if stack.page is not None:
                _say(args, {"page": stack.page.page_url}, f"page: {stack.page.page_url}")
            lake = None
            if pipeline.is_file():
                lake = storage_of(pipeline)
                stack.start_pipeline(
                    pipeline_command(pipeline), pipeline.parent / OUTPUT, file=pipeline
                )
            passed_s = 0.0
            while not is_ending.wait(_TEND_S):
                problem = stack.pipeline_problem()
                passed_s += _TEND_S
                if passed_s >= args.every:
                    passed_s = 0.0
                    _say(args, *_status(stack, problem, lake))
        finally:
            try:
                _say(args, {"stopping": True}, "stopping")
            finally:  # also where the output was closed
                stack.stop()
    return 0


def _status(stack: Stack, problem: str | None, lake: Path | None) -> tuple[Json, str]:
    from elea.demo.progress import Progress, read

    told = stack.recorded()
    value: dict[str, Json] = {"recorded": asdict(told)}
    line = (
        f"recorded {told.rows:,} rows, {told.acknowledged:,} acknowledged,"
        f" {told.gaps} missing, {told.dropped} dropped, {told.lag_ms} ms to disk"
    )
    if not told.logs and told.problem is None:
        line = "records nothing: CONFIG has no recordings in plugins/recorder"
    if told.problem is not None:
        line += f"; recording {told.problem}"
    if stack.pipeline is not None:
        progress = Progress() if lake is None else read(lake)
        if progress.pid != stack.pipeline.pid:  # said by one before, or by none
            progress = Progress("starting")
        state = problem or progress.state
        pipeline: dict[str, Json] = {"state": state, "restarts": stack.pipeline.restarts}
        line += f" | pipeline {state}, {stack.pipeline.restarts} restarts"
        if progress.rows:
            pipeline |= {"tables": dict(progress.rows), "lag": progress.lag}
            line += f" | {progress.line(progress.lag)}"
        value["pipeline"] = pipeline
    return value, line


def _say(args: argparse.Namespace, value: Json, line: str) -> None:
    print(json_line(value) if args.json else printable(line), flush=True)


@contextmanager
def _signals(stack: Stack) -> Iterator[threading.Event]:
    """An event that is set when it is time to end. Only the main thread hears signals."""
    is_ending = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_ending
        return
    meaning: dict[int, Callable[[], None]] = {
        signal.SIGTERM: is_ending.set,
        signal.SIGINT: is_ending.set,
    }
    if hasattr(signal, "SIGHUP"):
        meaning[signal.SIGHUP] = stack.router.reload
    before = {one: signal.signal(one, lambda one, _: meaning[one]()) for one in meaning}
    try:
        yield is_ending
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

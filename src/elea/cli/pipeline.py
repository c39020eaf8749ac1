"""`elea pipeline`: write, check and run a pipeline, and look after one that runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli import pipeline_history, pipeline_runs
from elea.cli.output import Json, add_output_options, painter
from elea.errors import EleaError, MissingDependencyError

if TYPE_CHECKING:
    from elea.spark.pipelines.definition import Pipeline
    from elea.spark.pipelines.problems import Problem

NAME: Final = "pipeline"
SUMMARY: Final = "write, check and run a pipeline: tables of a log, kept up to date by Spark"

_FILE: Final = "pipeline.yaml"
_EPILOG: Final = """\
exit status:
  0  done; with check, the file can be used, even if there is no log yet; with
     status, it runs
  1  failed; with check, the file has problems; with status, it does not run;
     with candidate, rows differ
  2  wrong usage

examples:
  elea pipeline init
  elea pipeline check
  elea pipeline run
  elea pipeline run --once
  elea pipeline status --json
  elea pipeline stop
  elea pipeline backfill --table imu --from 2026-11-14T00:00:00Z --downstream
  elea pipeline candidate pipeline.yaml wider.yaml --name wider
"""

Run = Callable[[argparse.Namespace], int]

_EXTRA: Final = "pipelines"
_PARTS: Final = ("arrow", "delta", "spark", "yaml")  # what that extra installs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)

    def add(name: str, summary: str, run: Run) -> argparse.ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.add_argument(
            "file",
            metavar="FILE",
            type=Path,
            nargs="?",
            default=Path(_FILE),
            help="the pipeline: YAML, or Python with the verbs (%(default)s)",
        )
        add_output_options(verb)
        verb.set_defaults(pipeline_verb=run)
        return verb

    init = add("init", "write a file to begin with, with a comment for each key", _init)
    init.add_argument("--name", default="fleet", help="the name of the pipeline (%(default)s)")
    check = add("check", "tell what is wrong with a file, and what it makes", _check)
    check.add_argument(
        "--quick",
        action="store_true",
        help="leave out what only Spark knows: SQL, and columns of gold tables",
    )
    summary = "run it until Ctrl-C; it goes on where it ended, each row is in each table once"
    pipeline_runs.configure_run(add("run", summary, pipeline_runs.run))
    summary = "make a table anew from history, or a span of time of it; no row is there twice"
    pipeline_history.configure_backfill(add("backfill", summary, pipeline_history.backfill))
    summary = "make gold tables by other definitions, beside the first ones; tell what differs"
    pipeline_history.configure_candidate(add("candidate", summary, pipeline_history.candidate))
    summary = "tell how it does, from another shell: rows, lag, errors"
    pipeline_runs.configure_status(add("status", summary, pipeline_runs.status))
    stop = add(
        "stop", "ask it to stop, from another shell, and wait until it has", pipeline_runs.stop
    )
    stop.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    # Modules of Spark are imported by the verbs: the command works without the extra.
    needed = [] if args.pipeline_verb is _init or args.file.suffix == ".py" else ["yaml"]
    needed += ["pyspark"] if args.pipeline_verb is pipeline_runs.run else []
    if any(find_spec(package) is None for package in needed):
        raise MissingDependencyError("elea pipeline", _EXTRA)
    try:
        status: int = args.pipeline_verb(args)
    except ModuleNotFoundError as error:
        raise MissingDependencyError("elea pipeline", _EXTRA) from error
    except MissingDependencyError as error:
        if error.extra not in _PARTS:
            raise
        raise MissingDependencyError("elea pipeline", _EXTRA) from error  # all of them at once
    return status


def _refused_by_spark(pipeline: Pipeline) -> list[Problem]:
    """What Spark says of queries and columns, if there is a Spark to ask."""
    from elea.spark.jvm import session, silence_threads
    from elea.spark.pipelines.dry_run import needs_spark, problems_on_spark

    if not needs_spark(pipeline):
        return []
    silence_threads()
    try:
        spark = session("elea pipeline check", master="local[1]", quick=True)
    except EleaError as error:
        print(f"elea: SQL and gold tables were not checked: {error}", file=sys.stderr)
        return []
    try:
        return problems_on_spark(spark, pipeline)
    finally:
        spark.stop()


def _init(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.spark.pipelines.template import text

    try:
        with args.file.open("x", encoding="utf-8") as file:
            file.write(text(args.name))
    except FileExistsError:
        raise EleaError(f"{args.file} is there already; name another file") from None
    shown = f"{args.file}: change it, then `elea pipeline check {args.file}`"
    Printer.of(args).record({"file": str(args.file)}, shown)
    return 0


def _check(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer
    from elea.spark.pipelines.graph import sources_of
    from elea.spark.pipelines.reading import examined, missing_logs, unusable_storage

    printer, paint = Printer.of(args), painter(args.color, sys.stdout)
    pipeline, problems = examined(args.file)
    missing = [] if pipeline is None else missing_logs(pipeline)
    problems.found += [] if pipeline is None else unusable_storage(pipeline)
    if problems.found:
        problems.found += missing
    for one in problems.found:
        printer.record({"place": one.place, "problem": one.reason}, str(one))
    if problems.found or pipeline is None:
        return 1
    refused = [] if args.quick else _refused_by_spark(pipeline)
    for one in refused:
        printer.record({"place": one.place, "problem": one.reason}, str(one))
    if refused:
        return 1
    for one in missing:  # it may be made yet
        print(f"elea: {one}", file=sys.stderr)
    for table in pipeline.tables:
        kind = type(table).__name__.lower()
        sources = sources_of(pipeline, table) or ("log",)
        text = f"{paint(table.name)} ({kind}) from {', '.join(sources)}"
        told: dict[str, Json] = {"table": table.name, "kind": kind, "from": list(sources)}
        printer.record(told, text)
    return 0

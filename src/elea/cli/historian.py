"""`elea historian`: answer queries from logs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, note, open_watched
from elea.cli.output import counted, escape
from elea.cli.progress import Span, add_ending_options
from elea.errors import EleaError

if TYPE_CHECKING:
    from elea.config.kinds import Value

NAME: Final = "historian"
SUMMARY: Final = "answer queries from durable logs: versions, states as of a time, filters"

_LOOK_S: Final = 0.1  # how often it is seen whether it is enough


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "examples:\n"
        "  elea historian /var/lib/elea/fleet --key-expr 'fleet/**' --connect tcp/10.0.0.1:7447\n"
        "  elea get 'fleet/7/pose?_time=[now(-10m)..]'\n"
    )
    parser.add_argument(
        "logs", metavar="DIR", nargs="+", type=Path, help="the directory of a log; may be repeated"
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="DIR",
        type=Path,
        help="a table that a log was archived to, for rows that it has no more; may be repeated",
    )
    parser.add_argument(
        "-k",
        "--key-expr",
        action="append",
        metavar="KEYEXPR",
        help="answer for these keys only (default: **); may be repeated",
    )
    parser.add_argument(
        "--complete", action="store_true", help="say that the logs have all there is of these keys"
    )
    add_ending_options(parser, "queries")
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Answer queries until it is enough; 1 if the time was over before."""
    from elea.store.historian.service import HistorianSettings, open_historian

    for directory, what in [(one, "log") for one in args.logs] + [
        (one, "table") for one in args.table
    ]:
        if not directory.is_dir():
            raise EleaError(f"{directory} is not the directory of a {what}")
    keys = args.key_expr or ["**"]
    logs: list[Value] = [str(one) for one in args.logs]
    settings = HistorianSettings.read(
        {
            "logs": logs,
            "tables": [str(one) for one in args.table],
            "key_exprs": list(keys),
            "complete": args.complete,
        }
    )
    with open_watched(args) as (session, neighbours):
        historian = open_historian(session, settings)
        span = Span(args.count, args.timeout)
        try:
            for problem in historian.problems():
                note(escape(problem))
            while not span.is_over:
                time.sleep(_LOOK_S if span.left_s is None else min(_LOOK_S, span.left_s))
                span.count = historian.counts.queries
        finally:
            historian.stop()
            counts = historian.counts
            told = ", ".join(
                (
                    counted(counts.queries, "query"),
                    counted(counts.replies, "reply"),
                    f"{counts.cut} cut",
                )
            )
            note(f"{told}, {counts.busy + counts.invalid + counts.errors} refused")
        neighbours.require()
    return span.code

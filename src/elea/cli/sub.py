"""`elea sub`: print what is published."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from elea.cli.connection import add_connection_options, is_accepted, open_watched
from elea.cli.exit_codes import FAILED, reading_arguments
from elea.cli.output import add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.progress import Progress, Span, add_ending_options, summarise

NAME: Final = "sub"
SUMMARY: Final = "print what is published"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_key_argument(parser, help="the key expression to subscribe to")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="first what was published since then, as far as a historian has it:"
        " 10m (ago), 2026-03-01T12:00:00Z",
    )
    add_ending_options(parser, "samples")
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print samples until it is enough; 1 if the time was over before, or a router refused."""
    from elea.cli.samples import Printer

    printer = Printer.of(args)
    since = _start(args.since)
    with (
        open_watched(args) as (session, neighbours),
        session.declare_subscriber(args.key, since=since) as subscriber,
    ):
        span, progress = Span(args.count, args.timeout), Progress()
        is_seen = sys.stdout.isatty()
        try:
            for sample in span.receive(subscriber):
                printer.sample(sample)
                if not is_seen:
                    progress.update(span.count, f", {subscriber.dropped_count} dropped")
        finally:
            progress.end()
            summarise("sample", span, dropped_count=subscriber.dropped_count)
        neighbours.require()
        # A run that was shorter than the answer of the router: nothing came, and it tells why.
        if not span.count and not is_accepted(session, args.key, "declare_subscriber"):
            return FAILED
    return span.code


def _start(text: str | None) -> str | None:
    """A duration is written without its sign, which would look like an option."""
    if text is None:
        return None
    since = f"-{text}" if text[:1].isdigit() and ":" not in text else text
    from elea.session.since import start_of  # late: few ask for history

    with reading_arguments():
        start_of(since, time.time_ns())
    return since

"""`elea pub`: publish a value again and again."""

from __future__ import annotations

import argparse
from typing import Final

from elea.cli.acks import add_ack_options, declare_spool, forward, wants_ack
from elea.cli.connection import add_connection_options, is_accepted, open_session
from elea.cli.exit_codes import FAILED
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import (
    add_payload_options,
    add_quality_options,
    qualities,
    read_payload,
    seconds,
)
from elea.cli.progress import Progress, Span, add_ending_options, summarise
from elea.cli.samples import Printer, add_output_options

NAME: Final = "pub"
SUMMARY: Final = "publish a value again and again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_key_argument(parser, help="the key to publish on")
    add_payload_options(parser, required=True)
    parser.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="S",
        help="seconds from one to the next; 0 is as fast as it goes (default: 1)",
    )
    add_ack_options(parser)
    add_ending_options(parser, "values")
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Publish until it is enough; 1 if the time was over before, or a router refused."""
    payload, quality, printer = read_payload(args), qualities(args), Printer.of(args)
    assert payload is not None  # the parser says so
    with (
        open_session(args, long_running=True) as session,
        session.declare_publisher(
            args.key,
            encoding=args.encoding,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        ) as publisher,
    ):
        spool, has_ack = declare_spool(session, args), wants_ack(args)
        span, progress = Span(args.count, args.timeout), Progress()
        try:
            for _ in span.paced(args.interval):
                if has_ack:
                    publisher.put(payload, attachment=args.attachment, ack="stored")
                else:
                    publisher.put(payload, attachment=args.attachment)
                progress.update(span.count + 1, f", {publisher.stats.dropped_count} dropped")
        finally:
            progress.end()
            summarise("value", span, dropped_count=publisher.stats.dropped_count)
        forward(spool)
        if not is_accepted(session, args.key, "put"):
            return FAILED
        stats = publisher.stats
        waiting = {} if spool is None else {"waiting": spool.stats().waiting_count}
    printer.done("pub", args.key, sent=stats.sent_count, dropped=stats.dropped_count, **waiting)
    return span.code

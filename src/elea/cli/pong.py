"""`elea pong`: answer `elea ping`."""

from __future__ import annotations

import argparse
from typing import Final

from elea.cli.connection import add_connection_options, open_watched
from elea.cli.output import add_output_options
from elea.cli.ping import PING_KEY, PONG_KEY
from elea.cli.progress import Span, add_ending_options, summarise
from elea.qos import CongestionControl

NAME: Final = "pong"
SUMMARY: Final = "answer `elea ping`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("--key", default=PING_KEY, metavar="KEY", help=f"(default: {PING_KEY})")
    parser.add_argument(
        "--reply-key", default=PONG_KEY, metavar="KEY", help=f"(default: {PONG_KEY})"
    )
    add_ending_options(parser, "pings")
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Send back what comes until it is enough; 1 if the time was over before."""
    from elea.cli.samples import Printer

    with (
        open_watched(args) as (session, neighbours),
        session.declare_publisher(
            args.reply_key, congestion_control=CongestionControl.BLOCK, express=True
        ) as publisher,
        session.declare_subscriber(args.key) as pings,
    ):
        span = Span(args.count, args.timeout)
        try:
            for sample in span.receive(pings):
                publisher.put(sample.payload)
        finally:
            summarise("ping", span, dropped_count=pings.dropped_count)
        neighbours.require()
    Printer.of(args).done("pong", args.key, pings=span.count)
    return span.code

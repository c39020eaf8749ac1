"""`elea querier`: ask the same question again and again."""

from __future__ import annotations

import argparse
from typing import Final

from elea.cli.connection import add_connection_options, is_refused, open_watched
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.get import print_replies
from elea.cli.output import counted
from elea.cli.parsing import add_selector_argument
from elea.cli.payloads import (
    add_payload_options,
    add_quality_options,
    add_query_options,
    consolidation,
    count,
    qualities,
    read_payload,
    seconds,
    target,
)
from elea.cli.progress import Span, summarise
from elea.cli.samples import Printer, add_output_options
from elea.selector import Selector

NAME: Final = "querier"
SUMMARY: Final = "ask the same question again and again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_selector_argument(parser, help="KEY, or KEY?PARAMETERS")
    add_payload_options(parser)
    add_query_options(parser)
    parser.add_argument("--count", type=count, metavar="N", help="end after N questions")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="S",
        help="seconds from one to the next (default: 1)",
    )
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Ask until it is enough; 1 if a reply was an error, or a router refused."""
    payload, quality, printer = read_payload(args), qualities(args), Printer.of(args)
    selector = Selector(args.selector)
    replies_count = errors_count = 0
    with (
        open_watched(args) as (session, neighbours),
        session.declare_querier(
            selector.key_expr,
            target=target(args),
            consolidation=consolidation(args),
            timeout=args.timeout,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        ) as querier,
    ):
        span = Span(args.count, None)
        try:
            for _ in span.paced(args.interval):
                answers = querier.get(
                    parameters=selector.parameters,
                    payload=payload,
                    encoding=args.encoding,
                    attachment=args.attachment,
                )
                good, bad = print_replies(answers, printer)
                replies_count, errors_count = replies_count + good, errors_count + bad
        finally:
            replies = counted(replies_count, "reply")
            rest = f", {replies}, {counted(errors_count, 'error')}"
            summarise("question", span, rest=rest)
        neighbours.require()
        refused = is_refused(session, str(selector.key_expr), "query")
    return FAILED if errors_count or refused else DONE

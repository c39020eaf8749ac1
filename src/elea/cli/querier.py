"""`elea querier`: ask the same question again and again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, is_refused, open_watched
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.get import print_replies
from elea.cli.output import add_output_options, counted
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

if TYPE_CHECKING:
    from elea.sample import Reply
    from elea.session.handlers import Handler
    from elea.session.querier import Querier
    from elea.session.session import Session

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
    from elea.cli.samples import Printer
    from elea.selector import Selector

    printer, selector = Printer.of(args), Selector(args.selector)
    replies_count = errors_count = 0
    with open_watched(args) as (session, neighbours):
        question = _Question(session, args)
        span = Span(args.count, None)
        try:
            for _ in span.paced(args.interval):
                good, bad = print_replies(question.ask(), printer)
                replies_count, errors_count = replies_count + good, errors_count + bad
        finally:
            replies = counted(replies_count, "reply")
            rest = f", {replies}, {counted(errors_count, 'error')}"
            summarise("question", span, rest=rest)
        neighbours.require()
        refused = is_refused(session, str(selector.key_expr), "query")
    return FAILED if errors_count or refused else DONE


class _Question:
    """One question, asked again and again.

    It is asked without a querier first: a querier sends nothing while there is no queryable, so a
    router could not say that its access rules refuse the key.
    """

    def __init__(self, session: Session, args: argparse.Namespace) -> None:
        self._session = session
        self._args = args
        self._payload = read_payload(args)
        self._querier: Querier | None = None

    def ask(self) -> Handler[Reply]:
        """Ask it once more."""
        from elea.selector import Selector

        args, quality = self._args, qualities(self._args)
        if self._querier is not None:
            return self._querier.get(
                parameters=Selector(args.selector).parameters,
                payload=self._payload,
                encoding=args.encoding,
                attachment=args.attachment,
            )
        replies = self._session.get(
            args.selector,
            target=target(args),
            consolidation=consolidation(args),
            timeout=args.timeout,
            payload=self._payload,
            encoding=args.encoding,
            attachment=args.attachment,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )
        self._querier = self._session.declare_querier(
            Selector(args.selector).key_expr,
            target=target(args),
            consolidation=consolidation(args),
            timeout=args.timeout,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )
        return replies

"""`elea queryable`: answer queries with one value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, is_accepted, open_watched
from elea.cli.exit_codes import FAILED
from elea.cli.output import add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import add_payload_options, read_payload
from elea.cli.progress import Span, add_ending_options, summarise

if TYPE_CHECKING:
    from elea.keyexpr.keyexpr import KeyExpr
    from elea.session.query import Query

NAME: Final = "queryable"
SUMMARY: Final = "answer queries with one value, print the queries"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_key_argument(
        parser, help="the key to answer for; an expression answers with the key that is asked for"
    )
    add_payload_options(parser, required=True)
    parser.add_argument("--error", action="store_true", help="answer with the value as an error")
    parser.add_argument(
        "--complete", action="store_true", help="say that it knows all there is to know of KEY"
    )
    add_ending_options(parser, "queries")
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Answer queries until it is enough; 1 if the time was over before, or a router refused."""
    from elea.cli.samples import Printer

    payload, printer = read_payload(args), Printer.of(args)
    assert payload is not None  # the parser says so
    with (
        open_watched(args) as (session, neighbours),
        session.declare_queryable(args.key, complete=args.complete) as queryable,
    ):
        span = Span(args.count, args.timeout)
        try:
            for query in span.receive(queryable):
                with query:
                    printer.query(query)
                    _answer(query, queryable.key_expr, payload, args)
        finally:
            summarise("query", span, dropped_count=queryable.dropped_count)
        neighbours.require()
        if not span.count and not is_accepted(session, args.key, "declare_queryable"):
            return FAILED
    return span.code


def _answer(query: Query, own: KeyExpr, payload: bytes, args: argparse.Namespace) -> None:
    key = next((one for one in (own, query.key_expr) if "*" not in str(one)), None)
    if args.error:
        query.reply_err(payload, encoding=args.encoding)
    elif key is None:
        query.reply_err(f"{own} answers for single keys only; ask for one")
    else:
        query.reply(key, payload, encoding=args.encoding, attachment=args.attachment)

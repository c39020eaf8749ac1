"""`elea get`: ask queryables, print their replies."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from elea.cli.connection import (
    add_connection_options,
    is_refused,
    note,
    open_session,
    require_neighbour,
)
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.output import add_output_options
from elea.cli.parsing import add_selector_argument
from elea.cli.payloads import (
    add_payload_options,
    add_quality_options,
    add_query_options,
    consolidation,
    qualities,
    read_payload,
    target,
)
from elea.query import ReplyKeyExpr

if TYPE_CHECKING:
    from elea.cli.samples import Printer
    from elea.sample import Reply

NAME: Final = "get"
SUMMARY: Final = "ask queryables, print their replies"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_selector_argument(parser, help="KEY, or KEY?PARAMETERS such as 'room/*?unit=K'")
    add_payload_options(parser)
    add_query_options(parser)
    parser.add_argument(
        "--any-key", action="store_true", help="accept replies whose keys do not match"
    )
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Ask; 1 if there is no reply, or one that is an error."""
    from elea.cli.samples import Printer

    payload, quality = read_payload(args), qualities(args)
    with open_session(args) as session:
        require_neighbour(session)
        replies = session.get(
            args.selector,
            target=target(args),
            consolidation=consolidation(args),
            accept_replies=ReplyKeyExpr.ANY if args.any_key else None,
            timeout=args.timeout,
            payload=payload,
            encoding=args.encoding,
            attachment=args.attachment,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )
        good_count, bad_count = print_replies(replies, Printer.of(args))
        refused = is_refused(session, args.selector.partition("?")[0], "query")
    if not (good_count + bad_count or refused):
        note("no reply: nobody answers queries on this key, has a value for it, or may answer you")
    return FAILED if bad_count or not good_count else DONE


def print_replies(replies: Iterable[Reply], printer: Printer) -> tuple[int, int]:
    """Print the replies to one query; how many were samples, and how many errors."""
    good_count = bad_count = 0
    for reply in replies:
        printer.reply(reply)
        if reply.err is None:
            good_count += 1
        else:
            bad_count += 1
    return good_count, bad_count

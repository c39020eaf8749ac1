"""`elea liveliness`: say that something is there, ask what is, watch it come and go."""

from __future__ import annotations

import argparse
import threading
from typing import Final

from elea.cli.connection import (
    add_connection_options,
    is_accepted,
    is_refused,
    note,
    open_session,
    open_watched,
    require_neighbour,
)
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.output import add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import seconds
from elea.cli.progress import Span, add_ending_options, summarise

NAME: Final = "liveliness"
SUMMARY: Final = "say that something is there, ask what is, watch it come and go"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    token = verbs.add_parser("token", help="be there until interrupted", allow_abbrev=False)
    token.add_argument("--timeout", type=seconds, metavar="S", help="end after S seconds")
    token.set_defaults(act=_token)
    get = verbs.add_parser("get", help="print what is there now", allow_abbrev=False)
    get.add_argument("--timeout", type=seconds, metavar="S", help="how long to wait (default: 10)")
    get.set_defaults(act=_get)
    sub = verbs.add_parser("sub", help="print what comes and goes", allow_abbrev=False)
    sub.add_argument("--history", action="store_true", help="print what is there first")
    add_ending_options(sub, "changes")
    sub.set_defaults(act=_sub)
    for verb in (token, get, sub):
        add_key_argument(verb, help="the key, or an expression")
        add_output_options(verb)
        add_connection_options(verb)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code = args.act(args)
    assert isinstance(code, int)
    return code


def _token(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    with (
        open_watched(args) as (session, neighbours),
        session.liveliness().declare_token(args.key),
    ):
        Printer.of(args).done("token", args.key)
        threading.Event().wait(args.timeout)
        neighbours.require()
        return DONE if is_accepted(session, args.key, "liveliness_token") else FAILED


def _get(args: argparse.Namespace) -> int:
    """Print tokens; 1 if there is none, or it could not be known."""
    from elea.cli.samples import Printer

    printer, errors_count, found_count = Printer.of(args), 0, 0
    with open_session(args) as session:
        require_neighbour(session)
        for reply in session.liveliness().get(args.key, timeout=args.timeout):
            if reply.ok is not None:
                printer.token(reply.ok)
                found_count += 1
            else:
                printer.reply(reply)
                errors_count += 1
        refused = is_refused(session, args.key, "liveliness_query")
    if not (found_count + errors_count or refused):
        note("nothing is there under this key")
    return FAILED if errors_count or not found_count else DONE


def _sub(args: argparse.Namespace) -> int:
    """Print changes until it is enough; 1 if the time was over before."""
    from elea.cli.samples import Printer

    printer = Printer.of(args)
    with (
        open_watched(args) as (session, neighbours),
        session.liveliness().declare_subscriber(args.key, history=args.history) as subscriber,
    ):
        span = Span(args.count, args.timeout)
        try:
            for sample in span.receive(subscriber):
                printer.token(sample)
        finally:
            summarise("change", span, dropped_count=subscriber.dropped_count)
        neighbours.require()
        if not span.count and not is_accepted(session, args.key, "declare_liveliness_subscriber"):
            return FAILED
    return span.code

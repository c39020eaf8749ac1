"""`elea delete`: publish the end of a value."""

from __future__ import annotations

import argparse
from typing import Final

from elea.cli.connection import (
    add_connection_options,
    is_accepted,
    open_session,
    require_neighbour,
)
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.output import add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import add_quality_options, qualities

NAME: Final = "delete"
SUMMARY: Final = "publish the end of a value"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_key_argument(parser, help="the key, or all keys of an expression")
    parser.add_argument("--attachment", metavar="TEXT", help="travels with it")
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Publish; 1 if a router refused it."""
    from elea.cli.samples import Printer

    quality = qualities(args)
    with open_session(args) as session:
        require_neighbour(session)
        session.delete(
            args.key,
            attachment=args.attachment,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )
        if not is_accepted(session, args.key, "delete"):
            return FAILED
    Printer.of(args).done("delete", args.key)
    return DONE

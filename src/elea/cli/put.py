"""`elea put`: publish one value."""

from __future__ import annotations

import argparse
from typing import Final

from elea.cli.connection import add_connection_options, open_session, require_neighbour
from elea.cli.payloads import add_payload_options, add_quality_options, qualities, read_payload
from elea.cli.samples import Printer, add_output_options

NAME: Final = "put"
SUMMARY: Final = "publish one value"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("key", metavar="KEY", help="the key to publish on")
    add_payload_options(parser, required=True)
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Publish; 0 if it was handed to a neighbour."""
    payload, quality = read_payload(args), qualities(args)
    assert payload is not None  # the parser says so
    with open_session(args) as session:
        require_neighbour(session)
        session.put(
            args.key,
            payload,
            encoding=args.encoding,
            attachment=args.attachment,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )
    Printer.of(args).done("put", args.key, octets=len(payload))
    return 0

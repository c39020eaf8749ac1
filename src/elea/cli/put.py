"""`elea put`: publish one value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.acks import ack_json, ack_text, add_ack_options, declare_spool, forward, wants_ack
from elea.cli.connection import add_connection_options, is_accepted, open_session, require_neighbour
from elea.cli.exit_codes import DONE, FAILED
from elea.cli.output import Json, add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import (
    add_payload_options,
    add_quality_options,
    qualities,
    read_payload,
    seconds,
)

if TYPE_CHECKING:
    from elea.session.options import PutOptions
    from elea.session.session import Session

NAME: Final = "put"
SUMMARY: Final = "publish one value"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_key_argument(parser, help="the key to publish on")
    add_payload_options(parser, required=True)
    add_ack_options(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="with --ack: how long to wait for the recorder (default: 10)",
    )
    add_quality_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Publish; 1 if a router refused it, or, with `--ack`, no recorder has it on disk."""
    payload, quality = read_payload(args), qualities(args)
    assert payload is not None  # the parser says so
    with open_session(args) as session:
        options: PutOptions = {
            "attachment": args.attachment,
            "priority": quality.priority,
            "congestion_control": quality.congestion_control,
            "express": quality.express,
        }
        if wants_ack(args):
            return _put_acknowledged(session, args, payload, options)
        require_neighbour(session)
        session.put(args.key, payload, encoding=args.encoding, **options)
        if not is_accepted(session, args.key, "put"):
            return FAILED
    if args.json:  # else nothing is printed: no reason to load what prints
        from elea.cli.samples import Printer

        Printer.of(args).done("put", args.key, octets=len(payload))
    return DONE


def _put_acknowledged(
    session: Session, args: argparse.Namespace, payload: bytes, options: PutOptions
) -> int:
    from elea.cli.samples import Printer

    spool = declare_spool(session, args)
    if spool is None:
        require_neighbour(session)
    ack = session.put(
        args.key, payload, encoding=args.encoding, ack="stored", timeout=args.timeout, **options
    )
    values: dict[str, Json] = {"done": "put", "key_expr": args.key, "octets": len(payload)}
    Printer.of(args).record({**values, **ack_json(ack)}, ack_text(ack, args.key))
    forward(spool)
    return 0

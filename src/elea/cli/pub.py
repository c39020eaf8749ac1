"""`elea pub`: publish a value again and again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.acks import add_ack_options, declare_spool, forward, wants_ack
from elea.cli.connection import add_connection_options, is_accepted, open_watched
from elea.cli.exit_codes import FAILED
from elea.cli.output import add_output_options
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import (
    add_payload_options,
    add_quality_options,
    qualities,
    read_payload,
    seconds,
)
from elea.cli.progress import Progress, Span, add_ending_options, summarise

if TYPE_CHECKING:
    from elea.session.publisher import Publisher
    from elea.session.session import Session

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
    from elea.cli.samples import Printer

    payload, printer = read_payload(args), Printer.of(args)
    assert payload is not None  # the parser says so
    with open_watched(args) as (session, neighbours):
        values = _Values(session, args, payload)
        spool = declare_spool(session, args)
        span, progress = Span(args.count, args.timeout), Progress()
        try:
            for _ in span.paced(args.interval):
                values.put()
                progress.update(span.count + 1, f", {values.dropped_count} dropped")
        finally:
            progress.end()
            summarise("value", span, dropped_count=values.dropped_count)
        forward(spool)
        if spool is None:
            neighbours.require()
        if not is_accepted(session, args.key, "put"):
            return FAILED
        waiting = {} if spool is None else {"waiting": spool.stats().waiting_count}
        sent_count, dropped_count = values.sent_count, values.dropped_count
    printer.done("pub", args.key, sent=sent_count, dropped=dropped_count, **waiting)
    return span.code


class _Values:
    """One value, put again and again.

    The first put goes without a publisher: a publisher sends nothing while there is no subscriber,
    so a router could not say that its access rules refuse the key.
    """

    def __init__(self, session: Session, args: argparse.Namespace, payload: bytes) -> None:
        self._session = session
        self._args = args
        self._payload = payload
        self._first_count = 0
        self._publisher: Publisher | None = None

    @property
    def sent_count(self) -> int:
        """How many were sent."""
        by_publisher = 0 if self._publisher is None else self._publisher.stats.sent_count
        return self._first_count + by_publisher

    @property
    def dropped_count(self) -> int:
        """How many were dropped where a queue was full."""
        return 0 if self._publisher is None else self._publisher.stats.dropped_count

    def put(self) -> None:
        """Publish it once more."""
        args = self._args
        if self._publisher is not None:
            if wants_ack(args):
                self._publisher.put(self._payload, attachment=args.attachment, ack="stored")
            else:
                self._publisher.put(self._payload, attachment=args.attachment)
        elif wants_ack(args):
            self._publisher = self._declare()
            self.put()
        else:
            quality = qualities(args)
            self._session.put(
                args.key,
                self._payload,
                encoding=args.encoding,
                attachment=args.attachment,
                priority=quality.priority,
                congestion_control=quality.congestion_control,
                express=quality.express,
            )
            self._first_count = 1
            self._publisher = self._declare()

    def _declare(self) -> Publisher:
        quality = qualities(self._args)
        return self._session.declare_publisher(
            self._args.key,
            encoding=self._args.encoding,
            priority=quality.priority,
            congestion_control=quality.congestion_control,
            express=quality.express,
        )

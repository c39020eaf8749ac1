"""`elea throughput`: how much goes through, from one side to the other."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea import version
from elea.cli.connection import (
    WAIT_S,
    add_connection_options,
    open_watched,
    require_allowed,
    require_match,
)
from elea.cli.output import Json, add_output_options
from elea.cli.payloads import add_quality_options, count, qualities, seconds
from elea.errors import LinkError
from elea.qos import CongestionControl

if TYPE_CHECKING:
    from elea.cli.samples import Printer
    from elea.sample import Sample

NAME: Final = "throughput"
SUMMARY: Final = "measure how much goes through, from one side to the other"
KEY: Final = "test/thr"  # the key of Eclipse's throughput programs, so that they mix

_TURN_COUNT: Final = 64  # messages between two looks at the clock


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    send = verbs.add_parser("send", help="publish as fast as it goes", allow_abbrev=False)
    send.add_argument(
        "--size", type=count, default=8, metavar="N", help="octets of a message (default: 8)"
    )
    add_quality_options(send)
    send.set_defaults(act=_send)
    receive = verbs.add_parser("receive", help="count what comes", allow_abbrev=False)
    receive.set_defaults(act=_receive)
    for verb in (send, receive):
        verb.add_argument("--key", default=KEY, metavar="KEY", help=f"(default: {KEY})")
        verb.add_argument(
            "--interval",
            type=seconds,
            default=1.0,
            metavar="S",
            help="seconds that one line is about (default: 1)",
        )
        verb.add_argument("--count", type=count, metavar="N", help="end after N lines")
        verb.add_argument(
            "--timeout",
            type=seconds,
            default=WAIT_S,
            metavar="S",
            help=f"how long to wait for the other side (default: {WAIT_S:g})",
        )
        add_output_options(verb)
        add_connection_options(verb)


def run(args: argparse.Namespace) -> int:
    """Measure until it is enough."""
    if not version.COMPILED:  # a figure of this build is not that of a compiled one
        print(f"elea: interpreted: {version.why_interpreted()}", file=sys.stderr)
    code = args.act(args)
    assert isinstance(code, int)
    return code


@dataclass(slots=True)
class Meter:
    """Counts messages and tells their rate."""

    count: int = 0
    octets: int = 0

    def add(self, length: int) -> None:
        """One more message."""
        self.count += 1
        self.octets += length

    def tell(self, before: Meter, elapsed_s: float, printer: Printer) -> None:
        """Print what came since an earlier reading."""
        messages = (self.count - before.count) / elapsed_s
        octets = (self.octets - before.octets) / elapsed_s
        values: dict[str, Json] = {
            "messages": self.count - before.count,
            "octets": self.octets - before.octets,
            "seconds": elapsed_s,
            "messages_per_s": messages,
            "octets_per_s": octets,
        }
        printer.record(values, f"{messages:,.0f} messages/s, {octets / 1e6:,.2f} MB/s")


def _send(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    quality, printer, meter = qualities(args), Printer.of(args), Meter()
    payload = bytes(args.size)
    with open_watched(args) as (session, _):
        publisher = session.declare_publisher(
            args.key,
            priority=quality.priority,
            congestion_control=quality.congestion_control or CongestionControl.BLOCK,
            express=quality.express,
        )
        advice = "start `elea throughput receive` there"
        require_match(session, publisher, advice, args.timeout)
        lines_count = 0
        while args.count is None or lines_count < args.count:
            before, start_s = Meter(meter.count, meter.octets), time.perf_counter()
            while (elapsed_s := time.perf_counter() - start_s) < args.interval or not elapsed_s:
                for _ in range(_TURN_COUNT):
                    publisher.put(payload)
                    meter.add(args.size)
            meter.tell(before, elapsed_s, printer)
            lines_count += 1
    return 0


def _receive(args: argparse.Namespace) -> int:
    from elea.cli.samples import Printer

    printer, meter, begun = Printer.of(args), Meter(), threading.Event()

    def take(sample: Sample) -> None:
        meter.add(len(sample.payload))
        if not begun.is_set():
            begun.set()

    with (
        open_watched(args) as (session, _),
        session.declare_subscriber(args.key, take),
    ):
        if not begun.wait(args.timeout):  # silence before the first message is not counted
            require_allowed(session, sub=args.key)
            raise LinkError(f"nothing came on {args.key}: start `elea throughput send` there")
        lines_count = 0
        while args.count is None or lines_count < args.count:
            before, start_s = Meter(meter.count, meter.octets), time.perf_counter()
            time.sleep(args.interval)
            meter.tell(before, time.perf_counter() - start_s, printer)
            lines_count += 1
    return 0

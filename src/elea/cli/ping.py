"""`elea ping`: measure round trips to an `elea pong`."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, note, open_session, require_match
from elea.cli.output import Json, add_output_options, counted
from elea.cli.payloads import count, seconds
from elea.cli.progress import Span
from elea.qos import CongestionControl

if TYPE_CHECKING:
    from elea.cli.samples import Printer
    from elea.sample import Sample
    from elea.session.handlers import Handler
    from elea.session.publisher import Publisher
    from elea.session.subscriber import Subscriber

NAME: Final = "ping"
SUMMARY: Final = "measure round trips to an `elea pong`"
PING_KEY: Final = "test/ping"  # the keys of Eclipse's ping and pong, so that they mix
PONG_KEY: Final = "test/pong"

_NUMBER_LEN: Final = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("--key", default=PING_KEY, metavar="KEY", help=f"(default: {PING_KEY})")
    parser.add_argument(
        "--reply-key", default=PONG_KEY, metavar="KEY", help=f"(default: {PONG_KEY})"
    )
    parser.add_argument(
        "--size", type=_size, default=64, metavar="N", help="octets, 8 or more (default: 64)"
    )
    parser.add_argument(
        "--count", type=count, default=10, metavar="N", help="how many (default: 10)"
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=0.1,
        metavar="S",
        help="seconds from one to the next (default: 0.1)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=5.0,
        metavar="S",
        help="how long to wait for the other side, and for each answer (default: 5)",
    )
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Measure; 1 if an answer did not come."""
    from elea.cli.samples import Printer

    printer = Printer.of(args)
    round_trips_ns: list[int] = []
    with (
        open_session(args) as session,
        session.declare_subscriber(args.reply_key) as answers,
    ):
        publisher = session.declare_publisher(
            args.key, congestion_control=CongestionControl.BLOCK, express=True
        )
        advice = "start `elea pong` on the other side"
        require_match(session, publisher, advice, args.timeout, answers=args.reply_key)
        span = Span(args.count, None)
        try:
            for number in span.paced(args.interval):
                taken_ns = _round_trip(publisher, answers, number, args)
                if taken_ns is not None:
                    round_trips_ns.append(taken_ns)
                _tell(printer, number, taken_ns, args.size)
        finally:
            if round_trips_ns:
                summary = Summary.of(round_trips_ns, span.count - len(round_trips_ns))
                note(summary.text())
                if args.json:
                    printer.record(summary.values(), "")
            else:
                note(f"{counted(span.count, 'ping')}, no answer")
    return 0 if len(round_trips_ns) == args.count else 1


@dataclass(frozen=True, slots=True)
class Summary:
    """Round trips, in microseconds."""

    count: int
    lost_count: int
    min_us: float
    p50_us: float
    p99_us: float
    max_us: float

    @classmethod
    def of(cls, round_trips_ns: list[int], lost_count: int) -> Summary:
        """The summary of what was measured; at least one.

        Example:
            >>> Summary.of([3_000, 1_000, 2_000], 1).text()
            '3 answers, 1 lost; min 1 us, p50 2 us, p99 3 us, max 3 us'
        """
        times = sorted(one / 1_000 for one in round_trips_ns)
        return cls(
            len(times),
            lost_count,
            times[0],
            times[len(times) // 2],
            times[min(len(times) * 99 // 100, len(times) - 1)],
            times[-1],
        )

    def text(self) -> str:
        """One line."""
        return (
            f"{counted(self.count, 'answer')}, {self.lost_count} lost; min {self.min_us:.0f} us,"
            f" p50 {self.p50_us:.0f} us, p99 {self.p99_us:.0f} us, max {self.max_us:.0f} us"
        )

    def values(self) -> dict[str, Json]:
        """One object."""
        return {
            "answers": self.count,
            "lost": self.lost_count,
            "min_us": self.min_us,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "max_us": self.max_us,
        }


def _round_trip(
    publisher: Publisher,
    answers: Subscriber[Handler[Sample]],
    number: int,
    args: argparse.Namespace,
) -> int | None:
    """Send a ping and wait for what answers it; None if that does not come."""
    payload = number.to_bytes(_NUMBER_LEN, "little").ljust(args.size, b"\0")
    wait = Span(1, args.timeout)
    start_ns = time.perf_counter_ns()
    publisher.put(payload)
    while True:
        try:
            sample = answers.recv(timeout=wait.left_s)
        except TimeoutError:
            return None
        if sample.payload == payload:  # else a late answer to an earlier one
            return time.perf_counter_ns() - start_ns


def _tell(printer: Printer, number: int, taken_ns: int | None, size: int) -> None:
    values: dict[str, Json] = {
        "seq": number,
        "octets": size,
        "rtt_us": None if taken_ns is None else taken_ns / 1_000,
    }
    took = "no answer" if taken_ns is None else f"{taken_ns / 1_000:.0f} us"
    printer.record(values, f"{size} octets: seq={number} rtt={took}")


def _size(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < _NUMBER_LEN:
        form = f"a whole number, {_NUMBER_LEN} or more"
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!a}")
    return value

"""Payloads on the command line: where they come from, and how they are to travel."""

from __future__ import annotations

import argparse
import math
import sys
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from elea.qos import CongestionControl, Priority
from elea.query import ConsolidationMode, QueryTarget
from elea.records import dataclass

E = TypeVar("E", bound=Enum)

# What an application may ask for; CONTROL is the protocol's own.
_PRIORITIES: Final = tuple(one for one in Priority if one is not Priority.CONTROL)


def add_payload_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add the payload as argument, `-` or `--file`, its `--encoding` and an `--attachment`."""
    parser.set_defaults(payload=None)
    source = parser.add_mutually_exclusive_group(required=required)
    source.add_argument(
        "payload",
        nargs="?",
        metavar="PAYLOAD",
        default=argparse.SUPPRESS,
        help="the payload as text; - reads standard input",
    )
    source.add_argument(
        "-p",
        "--payload",
        metavar="PAYLOAD",
        default=argparse.SUPPRESS,
        help="the same as PAYLOAD",
    )
    source.add_argument("--file", metavar="FILE", help="read the payload from a file")
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help="how the payload is to be read, such as text/plain or application/json",
    )
    parser.add_argument("--attachment", metavar="TEXT", help="travels beside the payload")


def read_payload(args: argparse.Namespace) -> bytes | None:
    """The payload that the options describe; None if they describe none.

    Raises:
        OSError: the file cannot be read.
    """
    if args.file is not None:
        return Path(args.file).read_bytes()
    if args.payload == "-":
        return sys.stdin.buffer.read()
    # What the shell passed is passed on: octets that are no UTF-8 come as surrogates.
    return None if args.payload is None else str(args.payload).encode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Qualities:
    """How something travels; None is the default of the API."""

    priority: Priority | None
    congestion_control: CongestionControl | None
    express: bool | None


def add_quality_options(parser: argparse.ArgumentParser) -> None:
    """Add `--priority`, `--congestion-control` and `--express`."""
    _add_choice(parser, "--priority", _PRIORITIES, "who goes first where a link is busy")
    _add_choice(
        parser, "--congestion-control", tuple(CongestionControl), "what happens if a queue is full"
    )
    parser.add_argument(
        "--express", action="store_true", default=None, help="do not wait to share a batch"
    )


def qualities(args: argparse.Namespace) -> Qualities:
    """The qualities that the options describe."""
    return Qualities(
        _chosen(args.priority, Priority),
        _chosen(args.congestion_control, CongestionControl),
        args.express,
    )


def add_query_options(parser: argparse.ArgumentParser) -> None:
    """Add `--target`, `--consolidation` and `--timeout` of a query."""
    add_target_option(parser)
    _add_choice(
        parser,
        "--consolidation",
        tuple(ConsolidationMode),
        "what happens to several replies with one key",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="how long to wait for replies (default: 10)"
    )


def add_target_option(parser: argparse.ArgumentParser) -> None:
    """Which queryables a question is for."""
    _add_choice(parser, "--target", tuple(QueryTarget), "which queryables are asked")


def target(args: argparse.Namespace) -> QueryTarget | None:
    """The `--target` that was chosen."""
    return _chosen(args.target, QueryTarget)


def consolidation(args: argparse.Namespace) -> ConsolidationMode | None:
    """The `--consolidation` that was chosen."""
    return _chosen(args.consolidation, ConsolidationMode)


def seconds(text: str) -> float:
    """A span of time, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more, got {text!a}")
    return value


def count(text: str) -> int:
    """How many, at least one, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, got {text!a}")
    return value


def _add_choice(
    parser: argparse.ArgumentParser, name: str, members: tuple[Enum, ...], meaning: str
) -> None:
    names = [option_name(member) for member in members]
    parser.add_argument(name, choices=names, metavar="NAME", help=f"{meaning}: {', '.join(names)}")


def option_name(member: Enum) -> str:
    """How a member of an enum is written on the command line.

    Example:
        >>> option_name(Priority.REAL_TIME)
        'real-time'
    """
    return member.name.lower().replace("_", "-")


def _chosen(text: str | None, kind: type[E]) -> E | None:
    return None if text is None else kind[text.upper().replace("-", "_")]

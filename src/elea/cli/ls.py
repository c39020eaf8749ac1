"""`elea ls`: the keys in use, and who uses them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.operators import add_timeout_option, admin_space
from elea.cli.output import Json, escape
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import seconds
from elea.cli.samples import Printer, add_output_options
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.admin_space import KINDS, SILENCE
from elea.operate.keys import KEYS_COUNT_MAX, KeyUse, count_samples, declared_keys

NAME: Final = "ls"
SUMMARY: Final = "list the keys in use, and who uses them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = (
        "Asks the admin space of every node that can be reached: `elea router` has one, and zenohd."
        " Exit code 1 if nothing is found."
    )
    add_key_argument(
        parser, "key_expr", metavar="KEYEXPR", default="**", help="which keys (default: all)"
    )
    parser.add_argument(
        "--rate",
        type=seconds,
        default=0.0,
        metavar="S",
        help="subscribe for S seconds, and tell how many samples came per second",
    )
    add_timeout_option(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per key; 1 if there is none."""
    key_expr = str(KeyExpr(args.key_expr))
    printer = Printer.of(args)
    with open_session(args) as session:
        require_neighbour(session)
        rows = declared_keys(admin_space(session, args), key_expr)
        if args.rate and (left_out := count_samples(session, key_expr, args.rate, rows)):
            note(f"{left_out} samples of more than {KEYS_COUNT_MAX} keys were not counted")
        if not rows:
            note(f"no key: nobody uses one, or {SILENCE}")
    for key in sorted(rows):
        printer.record(_values(key, rows[key], args.rate), _line(key, rows[key], args.rate))
    return 0 if rows else 1


def _values(key: str, row: KeyUse, rate_s: float) -> dict[str, Json]:
    shown: dict[str, Json] = {"key_expr": key}
    for kind in KINDS:
        if kind in row.users:
            shown[f"{kind}s"] = list(row.users[kind])
    if rate_s:
        shown["rate"] = round(row.count / rate_s, 3)
    return shown


def _line(key: str, row: KeyUse, rate_s: float) -> str:
    return "  ".join((escape(key), *_parts(row, rate_s)))


def _parts(row: KeyUse, rate_s: float) -> Iterator[str]:
    for kind in KINDS:
        if kind in row.users:
            yield f"{kind}: {' '.join(map(escape, row.users[kind])) or 'behind a router'}"
    if rate_s:
        yield f"{row.count / rate_s:.1f}/s"

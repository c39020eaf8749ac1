"""`elea ls`: the keys in use, and who uses them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.exit_codes import reading_arguments
from elea.cli.operators import add_timeout_option, admin_space
from elea.cli.output import Json, add_output_options, escape
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import seconds

if TYPE_CHECKING:
    from elea.operate.keys import KeyUse
    from elea.operate.labels import Labels

NAME: Final = "ls"
SUMMARY: Final = "list the keys in use, and who uses them"

_KEY_WIDTH_MAX: Final = 40  # longer keys push the rest of their line to the right
_USERS_COUNT_MAX: Final = 3  # of one kind on one key; the rest is counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = (
        "Asks the admin space of every node that can be reached: `elea router` has one, and zenohd."
        " A node is called by the identity it proved, else its own name in quotes, else `on` the"
        " keys it declares, else digits of its id. Exit code 1 if nothing is found."
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
    parser.add_argument(
        "--ids", action="store_true", help="print whole ids of all nodes instead of their names"
    )
    add_timeout_option(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per key; 1 if there is none."""
    from elea.cli.samples import Printer
    from elea.keyexpr.keyexpr import KeyExpr
    from elea.operate.admin_space import SILENCE
    from elea.operate.keys import KEYS_COUNT_MAX, count_samples, declared_keys
    from elea.operate.labels import Labels

    with reading_arguments():
        key_expr = str(KeyExpr(args.key_expr))
    printer = Printer.of(args)
    with open_session(args) as session:
        require_neighbour(session)
        space = admin_space(session, args)
        rows = declared_keys(space, key_expr)
        labels = Labels(space)
        if rows and not (args.ids or args.json):
            labels.learn(space.nodes(stats=True))
        if args.rate and (left_out := count_samples(session, key_expr, args.rate, rows)):
            note(f"{left_out} samples of more than {KEYS_COUNT_MAX} keys were not counted")
        if not rows:
            note(f"no key: nobody uses one, or {SILENCE}")
    width = min(max((len(escape(key)) for key in rows), default=0), _KEY_WIDTH_MAX)
    for key in sorted(rows):
        parts = _parts(rows[key], args.rate, None if args.ids else labels)
        line = "  ".join((escape(key).ljust(width), *parts))
        printer.record(_values(key, rows[key], args.rate), line)
    return 0 if rows else 1


def _values(key: str, row: KeyUse, rate_s: float) -> dict[str, Json]:
    from elea.operate.admin_space import KINDS

    shown: dict[str, Json] = {"key_expr": key}
    for kind in KINDS:
        if kind in row.users:
            shown[f"{kind}s"] = list(row.users[kind])
    if rate_s:
        shown["rate"] = round(row.count / rate_s, 3)
    return shown


def _parts(row: KeyUse, rate_s: float, labels: Labels | None) -> Iterator[str]:
    from elea.operate.admin_space import KINDS

    if rate_s:
        yield f"{row.count / rate_s:.1f}/s"
    for kind in KINDS:
        if kind in row.users:
            yield f"{kind}: {_users(list(row.users[kind]), labels) or 'behind a router'}"


def _users(zids: list[str], labels: Labels | None) -> str:
    if labels is None:
        return " ".join(map(escape, zids))
    named = ", ".join(escape(labels.label(zid, "client")) for zid in zids[:_USERS_COUNT_MAX])
    over = len(zids) - _USERS_COUNT_MAX
    return f"{named} and {over} more" if over > 0 else named

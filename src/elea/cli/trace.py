"""`elea trace`: what every node on the way does with a key."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.choices import TRACED
from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.exit_codes import reading_arguments
from elea.cli.operators import add_timeout_option, admin_space
from elea.cli.output import Json, add_output_options, counted, escape
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import add_target_option, target
from elea.errors import EleaError
from elea.ids import ZenohId

if TYPE_CHECKING:
    from elea.operate.admin_space import Hop
    from elea.operate.walk import Step

NAME: Final = "trace"
SUMMARY: Final = "ask every node on the way what it does with a key"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = (
        "Nothing is sent on KEY. Elea nodes tell where they would hand it on to and why; of Eclipse"
        " routers their declarations are read. A publisher is known once it is declared: a put"
        " without one is not seen by --action subscribe. Exit code 1 if nobody gets it."
    )
    add_key_argument(parser, "key_expr", help="a key, or a key expression")
    parser.add_argument(
        "--action",
        choices=tuple(TRACED),
        default="put",
        help="a sample to its subscribers, a query to those who are asked, or a subscription to"
        " those who publish (default: put)",
    )
    parser.add_argument(
        "--get", dest="action", action="store_const", const="get", help="the same as --action get"
    )
    add_target_option(parser)
    parser.add_argument(
        "--from",
        dest="sender",
        type=_zid,
        metavar="ZID",
        help="the node that does it (default: this command, where it is connected)",
    )
    add_timeout_option(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the way of a key as a tree; 1 if nobody gets it."""
    from elea.cli.samples import Printer
    from elea.keyexpr.keyexpr import KeyExpr
    from elea.operate.walk import SILENT, Walk, flat

    with reading_arguments():
        key = str(KeyExpr(args.key_expr))
    printer = Printer.of(args)
    with open_session(args) as session:
        require_neighbour(session)
        asked = target(args) if args.action == "get" else None
        walk = Walk(admin_space(session, args), args.action, key, asked)
        steps = walk.start(args.sender or str(session.zid()))
    for depth, step in flat(steps):
        printer.record(_values(step, depth), _line(step, depth))
    everybody = [step for _, step in flat(steps)]
    takers = {(one.hop.zid, one.hop.local) for one in everybody if one.takes}
    silent = sum(one.note == SILENT for one in everybody)
    if walk.left_out:
        note(f"{walk.left_out} further nodes are not shown")
    if silent:
        verb = "does" if silent == 1 else "do"
        silent_nodes = counted(silent, "node")
        note(f"{silent_nodes} on the way {verb} not answer: what happens there is not known")
    noun = TRACED[args.action]
    note(f"{counted(len(takers), noun) if takers else f'no {noun}'} for {escape(key)}")
    return 0 if takers else 1


def _zid(text: str) -> str:
    try:
        return str(ZenohId.parse(text))
    except EleaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _values(step: Step, depth: int) -> dict[str, Json]:
    hop = step.hop
    shown: dict[str, Json] = {
        "depth": depth,
        "zid": hop.zid,
        "whatami": hop.role,
        "name": step.name,
        "local": hop.local,
        "group": hop.group,
        "why": hop.why,
        "takes": step.takes,
        **hop.counters,
    }
    if hop.refused:
        shown["refused"] = hop.refused
    if step.note:
        shown["note"] = step.note
    return shown


def _line(step: Step, depth: int) -> str:
    hop = step.hop
    what = f"{hop.role} {hop.zid}" + (f" {step.name}" if step.name else "")
    if hop.local:
        what = "its own application"
    elif hop.group:
        what = "a multicast group"
    parts = [what, *_more(hop)]
    if step.note:
        parts.append(step.note)
    return "  " * depth + escape("; ".join(parts))


def _more(hop: Hop) -> Iterator[str]:
    if hop.why:
        yield ", ".join(hop.why)
    for name, text in (("sent_messages", "sent"), ("dropped_messages", "dropped")):
        if hop.counters.get(name):
            yield f"{text} {hop.counters[name]}"
    if hop.counters.get("waiting_messages"):
        yield f"{hop.counters['waiting_messages']} wait"

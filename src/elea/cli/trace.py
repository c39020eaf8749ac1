"""`elea trace`: what every node on the way does with a key."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.cli.admin_space import Hop, Node, add_timeout_option, nodes, owners, route, successors
from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.output import Json, counted, escape
from elea.cli.parsing import add_key_argument
from elea.cli.payloads import add_target_option, target
from elea.cli.samples import Printer, add_output_options
from elea.errors import EleaError
from elea.ids import ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.query import QueryTarget
from elea.session.session import Session

NAME: Final = "trace"
SUMMARY: Final = "ask every node on the way what it does with a key"

STEPS_COUNT_MAX: Final = 10_000  # what is printed; whoever answers could go on for ever
_KINDS: Final = {"put": "subscriber", "get": "queryable", "subscribe": "publisher"}
_SILENT: Final = "does not answer: it has no admin space (adminspace/enabled), or may not be read"
_LOOP: Final = "it was here before: a loop"
_TWICE: Final = "it is reached another way as well"
_TOLD: Final = "is told of every subscriber"
_INDIRECT: Final = "is no Elea node: shown is what its declarations tell"


@dataclass(slots=True)
class Step:
    """One node that the key gets to."""

    hop: Hop
    parent: Step | None = None
    name: str = ""
    note: str = ""  # what is odd about it
    takes: bool = False  # it is where the way ends: an application wants it
    children: list[Step] = field(default_factory=list)


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
        choices=tuple(_KINDS),
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
    key = str(KeyExpr(args.key_expr))
    printer = Printer.of(args)
    with open_session(args) as session:
        require_neighbour(session)
        asked = target(args) if args.action == "get" else None
        walk = _Walk(session, args.action, key, args.timeout, asked)
        steps = walk.start(args.sender or str(session.zid()))
    for depth, step in _flat(steps, 0):
        printer.record(_values(step, depth), _line(step, depth))
    everybody = [step for _, step in _flat(steps, 0)]
    takers = {(one.hop.zid, one.hop.local) for one in everybody if one.takes}
    silent = sum(one.note == _SILENT for one in everybody)
    if walk.left_out:
        note(f"{walk.left_out} further nodes are not shown")
    if silent:
        verb = "does" if silent == 1 else "do"
        silent_nodes = counted(silent, "node")
        note(f"{silent_nodes} on the way {verb} not answer: what happens there is not known")
    noun = {"put": "subscriber", "get": "queryable", "subscribe": "publisher"}[args.action]
    note(f"{counted(len(takers), noun) if takers else f'no {noun}'} for {escape(key)}")
    return 0 if takers else 1


def _zid(text: str) -> str:
    try:
        return str(ZenohId.parse(text))
    except EleaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Walk:
    """From node to node, along what they tell."""

    def __init__(
        self,
        session: Session,
        action: str,
        key: str,
        timeout_s: float,
        asked: QueryTarget | None = None,
    ) -> None:
        self._session = session
        self._target = "" if asked is None else asked.name.lower()
        self._action = action
        self._key = key
        self._timeout_s = timeout_s
        self._nodes = {one.zid: one for one in nodes(session, timeout_s)}
        self._reached: set[str] = set()
        self._count = 0
        self.left_out = 0

    def start(self, sender: str) -> list[Step]:
        """The nodes that a sender is connected to, or itself if it tells, with all behind them.

        Raises:
            EleaError: nobody knows it.
        """
        info = self._session.info
        if sender == str(self._session.zid()):
            first = [str(one) for one in (*info.routers_zid(), *info.peers_zid())]
        elif sender in self._nodes:
            first = [sender]
        else:
            first = [
                node.zid
                for node in self._nodes.values()
                if any(one.zid == sender for one in node.neighbours)
            ]
        if not first:
            raise EleaError(f"no node that answers knows {escape(sender)}: `elea graph` lists them")
        steps = []
        for zid in first:
            role = self._nodes[zid].role if zid in self._nodes else "node"
            steps.append(Step(Hop(zid, role, [])))
        self._follow(steps, sender)
        return steps

    def _follow(self, steps: list[Step], sender: str) -> None:
        """Find what is behind these; no recursion: others decide how deep it goes."""
        waiting = [(one, sender, "") for one in reversed(steps)]
        self._count = len(waiting)
        while waiting:
            step, sender, root = waiting.pop()
            node = self._judge(step)
            if node is None:
                continue
            self._reached.add(node.zid)
            hops = self._hops(node, sender, root, step)
            room = STEPS_COUNT_MAX - self._count
            self.left_out += max(0, len(hops) - room)
            step.children = [Step(one, step) for one in hops[:room]]
            self._count += len(step.children)
            # What comes from elsewhere enters the network of routers at the first of them.
            entered = root or node.zid
            waiting += [(one, node.zid, entered) for one in reversed(step.children)]

    def _judge(self, step: Step) -> Node | None:
        """Say of a step whether the way ends there; the node to ask if it does not."""
        hop = step.hop
        node = self._nodes.get(hop.zid)
        step.name = "" if node is None else node.name
        if hop.refused:
            step.note = f"does not get it: {hop.refused}"
        elif hop.local or hop.group or hop.role == "client":
            step.takes = True
        elif _is_above(step):
            step.note = _LOOP
        elif hop.zid in self._reached:
            step.note = _TWICE
        elif node is None:
            step.takes = hop.role == "peer" and bool(hop.why)
            step.note = "" if step.takes else _SILENT
        else:
            return node
        return None

    def _hops(self, node: Node, sender: str, root: str, step: Step) -> list[Hop]:
        """Where a node hands it on to."""
        what = (self._action, self._key, sender, root, self._timeout_s, self._target)
        told = route(self._session, node, *what)
        if told is None:
            step.note = _INDIRECT
            hops = self._declared(node, sender, root)
        elif told.refused:
            step.note = f"lets nothing in: {told.refused}"
            return []
        else:
            hops = told.hops
        own = str(self._session.zid())
        return [one for one in hops if one.zid != own]

    def _declared(self, node: Node, sender: str, root: str) -> list[Hop]:
        """The same, as far as the declarations that a node knows of tell it."""
        kind = _KINDS[self._action]
        found = owners(self._session, node, kind, self._key, self._timeout_s)
        roles = {one.zid: one.role for one in node.neighbours}
        hops = [
            one
            for one in found
            # Peers of one region hear each other; what routers have is passed on along a tree.
            if one.role != "router"
            and (one.role != "peer" or roles.get(sender) != "peer")
            and (one.zid != sender or sender == node.zid)
        ]
        for one in hops:
            one.local = one.zid == node.zid
        if node.role != "router" and roles.get(sender) in ("router", "peer"):
            return [one for one in hops if one.local or one.role == "client"]
        if node.role != "router":
            above = [one for one in found if one.role == "router"]
            if self._action == "subscribe":
                above = [Hop(zid, role, [_TOLD]) for zid, role in roles.items() if role != "client"]
            return hops + above
        ways = successors(self._session, node, root or node.zid, self._timeout_s)
        wanted = {one.zid: one.why for one in found if one.role == "router"}
        if self._action == "subscribe":
            wanted = {zid: [_TOLD] for zid in ways}
        routers: dict[str, Hop] = {}
        for zid, why in wanted.items():
            way = ways.get(zid)
            if way is not None and way != sender and zid != node.zid:
                routers.setdefault(way, Hop(way, "router", [])).why.extend(why)
        return hops + list(routers.values())


def _is_above(step: Step) -> bool:
    above = step.parent
    while above is not None:
        if above.hop.zid == step.hop.zid:
            return True
        above = above.parent
    return False


def _flat(steps: list[Step], depth: int) -> Iterator[tuple[int, Step]]:
    """All steps with their depths, from the top."""
    waiting = [(depth, one) for one in reversed(steps)]
    while waiting:
        level, step = waiting.pop()
        yield level, step
        waiting += [(level + 1, one) for one in reversed(step.children)]


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

"""What nodes tell of themselves under `@/`, for the commands of operators.

Whatever answers is not trusted: what is not shaped as it should be is left out and counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.cli.connection import note
from elea.cli.payloads import seconds
from elea.query import QueryTarget
from elea.session.session import Session

ROLES: Final = ("router", "peer", "client")
KINDS: Final = ("publisher", "subscriber", "querier", "queryable", "token")
COUNTERS: Final = ("sent_messages", "dropped_messages", "waiting_messages")  # of a hop
# Where access rules refuse it, the router tells this node, and its log says so.
SILENCE: Final = "nobody answers: no node has an admin space (adminspace/enabled) that may be read"
TIMEOUT_S: Final = 3.0  # nodes that went away without a word must not hold up the rest


def add_timeout_option(parser: argparse.ArgumentParser) -> None:
    """How patient a command is with nodes."""
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="S",
        help=f"how long to wait for nodes that do not answer (default: {TIMEOUT_S:g})",
    )


@dataclass(slots=True)
class Neighbour:
    """A session of a node, as it tells."""

    zid: str
    role: str
    links: list[tuple[str, str]]
    region: str = ""
    stats: dict[str, object] | None = None  # if they were asked for and are told


@dataclass(slots=True)
class Node:
    """A node that described itself."""

    zid: str
    role: str
    name: str  # of its metadata, or empty
    version: str
    locators: list[str]
    neighbours: list[Neighbour] = field(default_factory=list)
    stats: dict[str, object] | None = None  # as of a neighbour
    answered_s: float = 0.0  # how long its answer took


@dataclass(slots=True)
class Sources:
    """Who has one kind of entity on one key, as one node tells."""

    teller: str
    kind: str
    key: str
    zids: list[str]


@dataclass(slots=True)
class Hop:
    """Whom a node hands something on to, as it tells."""

    zid: str
    role: str
    why: list[str]
    local: bool = False  # an application of the node itself
    group: bool = False
    refused: str = ""  # why access rules do not let it pass, if they do not
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Route:
    """What a node does with something, as it tells."""

    hops: list[Hop]
    refused: str  # why access rules do not let it in, if they do not


def nodes(session: Session, timeout_s: float, *, stats: bool = False) -> list[Node]:
    """The nodes that describe themselves, by their ids; this one is not among them.

    Args:
        session: Asks.
        timeout_s: How long to wait for those that do not answer.
        stats: Whether to ask for counters, too; not every node has some.
    """
    found: dict[str, Node] = {}
    start_s = time.monotonic()
    for key, payload in _ask(session, f"@/*/*{'?_stats' if stats else ''}", timeout_s):
        chunks = key.split("/")
        shown = _object(payload)
        if len(chunks) == 3 and chunks[2] in ROLES and shown is not None:
            node = _node(chunks[1], chunks[2], shown, str(session.zid()))
            node.answered_s = time.monotonic() - start_s
            found[node.zid] = node
        else:
            _odd(key)
    found.pop(str(session.zid()), None)
    return [found[zid] for zid in sorted(found)]


def sources(session: Session, key_expr: str, timeout_s: float) -> Iterator[Sources]:
    """Who has something on keys that intersect this one, as all nodes tell."""
    for kind in KINDS:
        for key, payload in _ask(session, f"@/*/*/{kind}/{key_expr}", timeout_s):
            at, zid, _, *rest = key.split("/", 4)
            shown = _object(payload)
            if at != "@" or len(rest) != 2 or shown is None:
                _odd(key)
                continue
            # A node names itself among those of its own role for what it passes on. Routers pass
            # on what others have: those tell for themselves.
            zids = [one for one in _texts(shown.get("peers")) if one != zid]
            zids += _texts(shown.get("clients"))
            yield Sources(zid, kind, rest[1], zids)


def route(
    session: Session,
    node: Node,
    action: str,
    key: str,
    sender: str,
    root: str,
    timeout_s: float,
    target: str = "",
) -> Route | None:
    """What an Elea node does with a key; None if it does not tell.

    Args:
        session: Asks.
        node: Whom to ask.
        action: `put`, `get` or `subscribe`.
        key: A key expression.
        sender: Whom the message comes from; may be the node itself.
        root: The router where it entered the network, or empty.
        timeout_s: How long to wait.
        target: Of a query: which of those who can answer are asked; empty: the best matching.
    """
    parameters = f"from={sender}" + (f";root={root}" if root else "")
    parameters += f";target={target}" if target else ""
    selector = f"@/{node.zid}/{node.role}/route/{action}/{key}?{parameters}"
    for _, payload in _ask(session, selector, timeout_s):
        shown = _object(payload)
        hops = None if shown is None else shown.get("hops")
        if shown is not None and isinstance(hops, list):
            refused = _refused(shown.get("access"))
            return Route([_hop(one) for one in hops if isinstance(one, dict)], refused)
    return None


def owners(session: Session, node: Node, kind: str, key: str, timeout_s: float) -> list[Hop]:
    """Who has something on keys that intersect this one, routers too, as one node tells."""
    found: dict[str, Hop] = {}
    prefix = f"@/{node.zid}/{node.role}/{kind}/"
    for answer, payload in _ask(session, prefix + key, timeout_s):
        shown = _object(payload)
        if shown is None or not answer.startswith(prefix):
            _odd(answer)
            continue
        for role in ROLES:
            for zid in _texts(shown.get(f"{role}s")):
                hop = found.setdefault(zid, Hop(zid, role, []))
                hop.why.append(f"{kind} {answer.removeprefix(prefix)}")
    return list(found.values())


def successors(session: Session, node: Node, root: str, timeout_s: float) -> dict[str, str]:
    """By router: the next one towards it for what entered the network at `root`."""
    prefix = f"@/{node.zid}/{node.role}/route/successor/src/{root}/dst/"
    found: dict[str, str] = {}
    for answer, payload in _ask(session, f"{prefix}*", timeout_s):
        hop = _value(payload)
        if isinstance(hop, str) and answer.startswith(prefix):
            found[answer.removeprefix(prefix)] = hop
    return found


def _ask(session: Session, selector: str, timeout_s: float) -> Iterator[tuple[str, bytes]]:
    for reply in session.get(selector, target=QueryTarget.ALL, timeout=timeout_s):
        if reply.ok is not None:
            yield str(reply.ok.key_expr), reply.ok.payload.to_bytes()


def _node(zid: str, role: str, shown: dict[str, object], own_zid: str) -> Node:
    metadata = shown.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    sessions = shown.get("sessions")
    node = Node(
        zid,
        role,
        name if isinstance(name, str) else "",
        str(shown.get("version", "")),
        _texts(shown.get("locators")),
    )
    for one in sessions if isinstance(sessions, list) else []:
        if isinstance(one, dict) and isinstance(one.get("peer"), str) and one["peer"] != own_zid:
            whatami = one.get("whatami")
            node.neighbours.append(
                Neighbour(
                    one["peer"],
                    whatami if whatami in ROLES else "node",
                    _links(one.get("links")),
                    str(one.get("region", "")),
                    _dict(one.get("stats")),
                )
            )
    node.stats = _dict(shown.get("stats"))
    return node


def _hop(shown: dict[str, object]) -> Hop:
    role = shown.get("whatami")
    return Hop(
        str(shown.get("zid", "")),
        role if isinstance(role, str) and role in ROLES else "node",
        _texts(shown.get("why")),
        local=shown.get("local") is True,
        group=shown.get("group") is True,
        refused=_refused(shown.get("access")),
        counters={
            name: value
            for name in COUNTERS
            if isinstance(value := shown.get(name), int) and not isinstance(value, bool)
        },
    )


def _refused(access: object) -> str:
    if not isinstance(access, dict) or access.get("allowed") is not False:
        return ""
    rule = access.get("rule")
    why = str(access.get("why", "")) or "access rules"
    return f"{why} (rule {rule})" if isinstance(rule, str) else why


def _links(value: object) -> list[tuple[str, str]]:
    links = value if isinstance(value, list) else []
    return [
        (str(one.get("src", "")), str(one.get("dst", ""))) for one in links if isinstance(one, dict)
    ]


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def _object(payload: bytes) -> dict[str, object] | None:
    return _dict(_value(payload))


def _value(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _odd(key: str) -> None:
    note(f"an answer that is none of an admin space is left out: {key!a}")

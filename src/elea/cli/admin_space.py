"""What nodes tell of themselves under `@/`, for the commands of operators.

Whatever answers is not trusted: what is not shaped as it should be is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.cli.connection import note
from elea.query import QueryTarget
from elea.session.session import Session

ROLES: Final = ("router", "peer", "client")
KINDS: Final = ("publisher", "subscriber", "querier", "queryable", "token")
TIMEOUT_S: Final = 3.0  # nodes that went away without a word must not hold up the rest


@dataclass(slots=True)
class Neighbour:
    """A session of a node, as it tells."""

    zid: str
    role: str
    links: list[tuple[str, str]]


@dataclass(slots=True)
class Node:
    """A node that described itself."""

    zid: str
    role: str
    name: str  # of its metadata, or empty
    version: str
    locators: list[str]
    neighbours: list[Neighbour] = field(default_factory=list)


@dataclass(slots=True)
class Sources:
    """Who has one kind of entity on one key, as one node tells."""

    teller: str
    kind: str
    key: str
    zids: list[str]


def nodes(session: Session, timeout_s: float) -> list[Node]:
    """The nodes that describe themselves, by their ids; this one is not among them."""
    found: dict[str, Node] = {}
    for key, payload in _ask(session, "@/*/*", timeout_s):
        chunks = key.split("/")
        shown = _object(payload)
        if len(chunks) == 3 and chunks[2] in ROLES and shown is not None:
            found[chunks[1]] = _node(chunks[1], chunks[2], shown, str(session.zid()))
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
                    one["peer"], whatami if whatami in ROLES else "node", _links(one.get("links"))
                )
            )
    return node


def _links(value: object) -> list[tuple[str, str]]:
    links = value if isinstance(value, list) else []
    return [
        (str(one.get("src", "")), str(one.get("dst", ""))) for one in links if isinstance(one, dict)
    ]


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _object(payload: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _odd(key: str) -> None:
    note(f"an answer that is none of an admin space is left out: {key!a}")

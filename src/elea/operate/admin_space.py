"""What nodes tell of themselves under `@/`.

Answers are not trusted: a malformed one is left out and reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from elea.query import QueryTarget
from elea.session.session import Session

ROLES: Final = ("router", "peer", "client")
KINDS: Final = ("publisher", "subscriber", "querier", "queryable", "token")
COUNTERS: Final = ("sent_messages", "dropped_messages", "waiting_messages")  # of a hop
# Where access rules refuse it, the router tells this node, and its log says so.
SILENCE: Final = "nobody answers: no node has an admin space (adminspace/enabled) that may be read"


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that access rules, filters or quotas of a node did not let pass."""

    teller: str
    action: str
    key: str
    rule: str
    zid: str  # whose it was
    at_s: float


class AdminSpace:
    """Asks the admin space of every node that can be reached.

    Args:
        session: Sends the queries.
        timeout_s: How long to wait for nodes that do not answer.
        reject: Called with the key of each malformed answer.
        with_own: Whether the session's own node is one of the nodes, as it is for a page of a
            router; it is not for a command, which comes and goes.
    """

    def __init__(
        self,
        session: Session,
        timeout_s: float,
        reject: Callable[[str], None] = lambda _: None,
        *,
        with_own: bool = False,
    ) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._reject = reject
        self.left_out = "" if with_own else str(session.zid())  # the node that is not shown

    @property
    def session(self) -> Session:
        return self._session

    def nodes(self, *, stats: bool = False) -> list[Node]:
        """The nodes that describe themselves, by their ids.

        Args:
            stats: Whether to ask for counters, too; not every node has some.
        """
        found: dict[str, Node] = {}
        start_s = time.monotonic()
        for key, payload in self._ask(f"@/*/*{'?_stats' if stats else ''}"):
            chunks = key.split("/")
            shown = _object(payload)
            if len(chunks) == 3 and chunks[2] in ROLES and shown is not None:
                node = _node(chunks[1], chunks[2], shown, self.left_out)
                node.answered_s = time.monotonic() - start_s
                found[node.zid] = node
            else:
                self._reject(key)
        found.pop(self.left_out, None)
        return [found[zid] for zid in sorted(found)]

    def sources(self, key_expr: str) -> Iterator[Sources]:
        """Who has something on keys that intersect this one, as all nodes tell."""
        for kind in KINDS:
            for key, payload in self._ask(f"@/*/*/{kind}/{key_expr}"):
                at, zid, _, *rest = key.split("/", 4)
                shown = _object(payload)
                if at != "@" or len(rest) != 2 or shown is None:
                    self._reject(key)
                    continue
                # A node names itself among those of its own role for what it passes on. Routers
                # pass on what others have: those tell for themselves.
                zids = [one for one in _texts(shown.get("peers")) if one != zid]
                zids += _texts(shown.get("clients"))
                yield Sources(zid, kind, rest[1], zids)

    def route(
        self,
        node: Node,
        action: str,
        key: str,
        sender: str,
        root: str,
        target: str = "",
    ) -> Route | None:
        """What an Elea node does with a key; None if it does not tell.

        Args:
            node: Whom to ask.
            action: `put`, `get` or `subscribe`.
            key: A key expression.
            sender: Whom the message comes from; may be the node itself.
            root: The router where it entered the network, or empty.
            target: Of a query: which of those who can answer are asked; empty: the best matching.
        """
        parameters = f"from={sender}" + (f";root={root}" if root else "")
        parameters += f";target={target}" if target else ""
        selector = f"@/{node.zid}/{node.role}/route/{action}/{key}?{parameters}"
        for _, payload in self._ask(selector):
            shown = _object(payload)
            hops = None if shown is None else shown.get("hops")
            if shown is not None and isinstance(hops, list):
                refused = _refused(shown.get("access"))
                return Route([_hop(one) for one in hops if isinstance(one, dict)], refused)
        return None

    def owners(self, node: Node, kind: str, key: str) -> list[Hop]:
        """Who has something on keys that intersect this one, routers too, as one node tells."""
        found: dict[str, Hop] = {}
        prefix = f"@/{node.zid}/{node.role}/{kind}/"
        for answer, payload in self._ask(prefix + key):
            shown = _object(payload)
            if shown is None or not answer.startswith(prefix):
                self._reject(answer)
                continue
            for role in ROLES:
                for zid in _texts(shown.get(f"{role}s")):
                    hop = found.setdefault(zid, Hop(zid, role, []))
                    hop.why.append(f"{kind} {answer.removeprefix(prefix)}")
        return list(found.values())

    def refusals(self) -> list[Refusal]:
        """What nodes refused of late, as they tell; those of Elea do."""
        found: list[Refusal] = []
        for key, payload in self._ask("@/*/*/events?max=1000"):
            chunks = key.split("/")
            shown = _object(payload)
            events = None if shown is None else shown.get("events")
            if len(chunks) != 4 or not isinstance(events, list):
                self._reject(key)
                continue
            for one in events:
                if isinstance(one, dict) and one.get("event") == "refused":
                    names = ("action", "key", "rule", "zid")
                    action, on, rule, zid = (str(one.get(name, "")) for name in names)
                    at_s = _seconds(one.get("time"))
                    found.append(Refusal(chunks[1], action, on, rule, zid, at_s))
        return found

    def successors(self, node: Node, root: str) -> dict[str, str]:
        """By router: the next one towards it for what entered the network at `root`."""
        prefix = f"@/{node.zid}/{node.role}/route/successor/src/{root}/dst/"
        found: dict[str, str] = {}
        for answer, payload in self._ask(f"{prefix}*"):
            hop = _value(payload)
            if isinstance(hop, str) and answer.startswith(prefix):
                found[answer.removeprefix(prefix)] = hop
        return found

    def _ask(self, selector: str) -> Iterator[tuple[str, bytes]]:
        for reply in self._session.get(selector, target=QueryTarget.ALL, timeout=self._timeout_s):
            if reply.ok is not None:
                yield str(reply.ok.key_expr), reply.ok.payload.to_bytes()


def _node(zid: str, role: str, shown: dict[str, object], left_out: str) -> Node:
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
        if isinstance(one, dict) and isinstance(one.get("peer"), str) and one["peer"] != left_out:
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


def _seconds(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0


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

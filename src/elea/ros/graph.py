"""The graph of a fleet: nodes, topics, services and actions, from liveliness tokens (section 3)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS
from elea.provenance import SampleKind
from elea.ros.formats.names import HIDDEN
from elea.ros.formats.tokens import AnyToken, BridgeToken, Kind, Token, parse_token, watched
from elea.sample import Sample
from elea.session.session import Session

_log: Final = logging.getLogger("elea.ros")
_TOPIC_KINDS: Final = (Kind.PUBLISHER, Kind.SUBSCRIPTION)
_SERVICE_KINDS: Final = (Kind.SERVER, Kind.CLIENT)
_ACTION_KINDS: Final = (Kind.ACTION_SERVER, Kind.ACTION_CLIENT)

Listener = Callable[[AnyToken, bool], None]  # a token, and whether it came or went


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node, or a bridge that stands for those behind it."""

    name: str
    zid: str
    nid: int
    domain: int
    via: str
    endpoints: tuple[AnyToken, ...] = ()


@dataclass(slots=True)
class NameEntry:
    """A topic, service or action: everything of that name."""

    name: str
    domain: int
    via: str
    endpoints: list[AnyToken] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        """Its types; more than one is a conflict."""
        return sorted({one.type for one in self.endpoints})

    @property
    def hashes(self) -> list[str]:
        """The hashes of its types; those of one type and several hashes exchange nothing."""
        return sorted({one.hash for one in self.endpoints})

    @property
    def has_conflict(self) -> bool:
        """Whether some of its endpoints never exchange data (R2-154)."""
        return len(self.types) > 1 or len(self.hashes) > 1

    def of(self, kind: Kind) -> list[AnyToken]:
        """Its endpoints of a kind."""
        return [one for one in self.endpoints if one.kind is kind]


class Graph:
    """Knows who is there; kept up to date by the session until it is closed.

    Args:
        domain: Of which nodes; None: of all domains.
        prefix: What stands before the keys of the fleet.
    """

    def __init__(self, session: Session, domain: int | None = 0, *, prefix: str = "") -> None:
        self._prefix = prefix
        self._session = session
        self._keys = watched(domain, prefix)
        self._changed = threading.Condition()
        self._tokens: dict[str, AnyToken] = {}
        self._by_gid: dict[bytes, Token] = {}
        self._unhashed: dict[str, Token] = {}  # publishers whose gid nobody has asked for yet
        self._listeners: list[Listener] = []
        self._told: set[str] = set()
        self.bad_count = 0  # tokens that could not be read (R2-151)
        self.left_out_count = 0  # beyond ros2_tokens_count
        liveliness = session.liveliness()
        self._watchers = [
            liveliness.declare_subscriber(key, self._heard, history=True) for key in self._keys
        ]

    def close(self) -> None:
        """Watch no more."""
        for watcher in self._watchers:
            watcher.undeclare()

    def settle(self, timeout: float = 3.0) -> bool:
        """Wait until all tokens that are declared now are known; whether they are."""
        deadline = time.monotonic() + timeout
        expected: set[str] = set()
        for key in self._keys:
            for reply in self._session.liveliness().get(key, timeout=timeout):
                if reply.ok is not None and self._is_read(str(reply.ok.key_expr)):
                    expected.add(str(reply.ok.key_expr))
        left = max(deadline - time.monotonic(), 0.1)
        return self.wait_until(lambda: expected <= self._tokens.keys(), left)

    def _is_read(self, key: str) -> bool:
        try:
            parse_token(key, self._prefix)
        except InvalidValueError:
            return False
        return True

    def tokens(self) -> list[AnyToken]:
        """All that are known."""
        with self._changed:
            return list(self._tokens.values())

    def nodes(self) -> list[NodeEntry]:
        """Nodes by name; two of one name are two (R2-153). Bridges are behind them."""
        groups: dict[tuple[int, str, int], list[AnyToken]] = {}
        for token in self.tokens():
            nid = token.nid if isinstance(token, Token) else -1
            groups.setdefault((token.domain, token.zid, nid), []).append(token)
        found = []
        for (domain, zid, nid), tokens in groups.items():
            first = tokens[0]
            endpoints = tuple(one for one in tokens if one.kind is not Kind.NODE)
            found.append(NodeEntry(first.node_name, zid, nid, domain, first.via, endpoints))
        return sorted(found, key=lambda one: (one.nid < 0, one.name, one.zid, one.nid))

    def topics(self, *, hidden: bool = False) -> list[NameEntry]:
        """Topics by name; those of actions are hidden (R2-303)."""
        return self._named(_TOPIC_KINDS, hidden=hidden)

    def services(self, *, hidden: bool = False) -> list[NameEntry]:
        """Services by name, those with a client alone too."""
        return self._named(_SERVICE_KINDS, hidden=hidden)

    def actions(self) -> list[NameEntry]:
        """Actions by name: those whose services are there, and those that bridges tell of."""
        found = {
            (one.name, one.domain, one.via): one for one in self._named(_ACTION_KINDS, hidden=True)
        }
        for service in self._named(_SERVICE_KINDS, hidden=True):
            name, mark, part = service.name.rpartition(HIDDEN)
            if not mark or part != "send_goal":
                continue
            entry = NameEntry(name, service.domain, service.via, service.endpoints)
            found.setdefault((name, service.domain, service.via), entry)
        return sorted(found.values(), key=lambda one: one.name)

    def topic(self, name: str) -> list[AnyToken]:
        """Publishers and subscriptions of a topic."""
        return [one for one in self.tokens() if one.name == name and one.kind in _TOPIC_KINDS]

    def publishers(self, name: str) -> list[AnyToken]:
        """Publishers of a topic."""
        return [one for one in self.topic(name) if one.kind is Kind.PUBLISHER]

    def subscriptions(self, name: str) -> list[AnyToken]:
        """Subscriptions of a topic."""
        return [one for one in self.topic(name) if one.kind is Kind.SUBSCRIPTION]

    def servers(self, name: str) -> list[AnyToken]:
        """Servers of a service."""
        return [one for one in self.tokens() if one.name == name and one.kind is Kind.SERVER]

    def clients(self, name: str) -> list[AnyToken]:
        """Clients of a service."""
        return [one for one in self.tokens() if one.name == name and one.kind is Kind.CLIENT]

    def publisher(self, gid: bytes) -> Token | None:
        """Whose messages have this gid; None: its token is not known."""
        with self._changed:
            while gid not in self._by_gid and self._unhashed:
                _, token = self._unhashed.popitem()
                self._by_gid[token.gid] = token
            return self._by_gid.get(gid)

    def domains(self) -> list[int]:
        """Where there are nodes."""
        return sorted({one.domain for one in self.tokens() if isinstance(one, Token)})

    def wait_for(self, name: str, timeout: float = 3.0) -> bool:
        """Wait until something has a name: a topic, a service or a node."""
        return self.wait_until(
            lambda: any(one.name == name or one.node_name == name for one in self.tokens()), timeout
        )

    def wait_until(self, condition: Callable[[], Any], timeout: float) -> bool:
        """Wait until something holds, which is looked at whenever the graph changes."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return bool(condition())
        return True

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell of tokens that come and go, and at once of those there are; ends by calling it."""
        with self._changed:
            known = list(self._tokens.values())
            self._listeners.append(listener)
        for token in known:
            listener(token, True)

        def end() -> None:
            with self._changed:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    def _named(self, kinds: Iterable[Kind], *, hidden: bool) -> list[NameEntry]:
        found: dict[tuple[str, int, str], NameEntry] = {}
        for token in self.tokens():
            if token.kind not in kinds or (HIDDEN in token.name and not hidden):
                continue
            via = "rmw_zenoh" if isinstance(token, Token) else "bridge"
            place = (token.name, token.domain, via)
            entry = found.setdefault(place, NameEntry(token.name, token.domain, token.via))
            entry.endpoints.append(token)
        return sorted(found.values(), key=lambda one: (one.name, one.via))

    def _heard(self, sample: Sample) -> None:
        key = str(sample.key_expr)
        came = sample.kind is SampleKind.PUT
        try:
            token = self._tokens.get(key) or parse_token(key, self._prefix)
        except InvalidValueError as error:
            if came:
                self._refused(key, error)
            return
        with self._changed:
            if came:
                if (
                    key not in self._tokens
                    and len(self._tokens) >= DEFAULT_LIMITS.ros2_tokens_count
                ):
                    self._too_many(token)
                    return
                self._tokens[key] = token
                if isinstance(token, Token) and token.kind is Kind.PUBLISHER:
                    self._unhashed[key] = token
            else:
                self._tokens.pop(key, None)
                is_publisher = isinstance(token, Token) and token.kind is Kind.PUBLISHER
                if is_publisher and self._unhashed.pop(key, None) is None:
                    self._by_gid.pop(token.gid, None)
            listeners = list(self._listeners)
            self._changed.notify_all()
        for listener in listeners:
            listener(token, came)

    def _refused(self, key: str, error: InvalidValueError) -> None:
        self.bad_count += 1
        chunks = key.split("/")
        zid = chunks[2] if len(chunks) > 2 else ""
        if zid not in self._told and len(self._told) < DEFAULT_LIMITS.ros2_topics_count:
            self._told.add(zid)
            _log.warning("token left out: %s", error)

    def _too_many(self, token: AnyToken) -> None:
        self.left_out_count += 1
        if "" not in self._told:
            self._told.add("")
            limit = DEFAULT_LIMITS.ros2_tokens_count
            _log.warning("tokens exceed ros2_tokens_count (%d); session %s", limit, token.zid)


def hash_of(tokens: Iterable[AnyToken]) -> str | None:
    """The hash that all of some endpoints have; None: there are none, or they differ."""
    found = {one.hash for one in tokens if isinstance(one, Token)}
    return found.pop() if len(found) == 1 else None


def is_bridged(token: AnyToken) -> bool:
    """Whether it is told by a bridge."""
    return isinstance(token, BridgeToken)

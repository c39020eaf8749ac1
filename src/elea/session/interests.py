"""What this session asks the network to tell it, and what it was told. behaviour.md 4.2.

Publishers with one key share an interest, and so do queriers and liveliness subscribers; the last
one to go ends it. What was learnt through an interest stays known until it is undeclared: a node
goes on telling the end of what it told the beginning of (4.4).
"""

from __future__ import annotations

from collections.abc import Callable

from elea.keyexpr.groups import KeyGroups
from elea.records import dataclass, field
from elea.session.face import Face
from elea.session.outlet import END, Outlet
from elea.wire.fields import QOS_DECLARE
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.interest import (
    OPTION_KEYEXPRS,
    OPTION_QUERYABLES,
    OPTION_SUBSCRIBERS,
    OPTION_TOKENS,
    Interest,
    InterestMode,
)

SUBSCRIBERS = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS
QUERYABLES = OPTION_KEYEXPRS | OPTION_QUERYABLES
TOKENS = OPTION_KEYEXPRS | OPTION_TOKENS


@dataclass(slots=True)
class _Shared:
    id: int
    user_count: int = 0


@dataclass(frozen=True, slots=True)
class RemoteQueryable:
    """A queryable of somebody else."""

    key: str
    complete: bool


@dataclass(slots=True)
class Interests:
    """The interests of one session, and the subscribers and queryables it learnt of."""

    face: Face
    # Called with SUBSCRIBERS or QUERYABLES, and the key of what came or went; None: any key.
    changed: Callable[[int, str | None], None]
    subscribers: KeyGroups[int] = field(default_factory=KeyGroups)  # of others, by number
    queryables: KeyGroups[RemoteQueryable] = field(default_factory=KeyGroups)
    _subscribers: dict[int, str] = field(default_factory=dict)
    _queryables: dict[int, RemoteQueryable] = field(default_factory=dict)
    _shared: dict[tuple[int, str], _Shared] = field(default_factory=dict)
    _asked: dict[int, Outlet] = field(default_factory=dict)  # ended with the current answers

    def __post_init__(self) -> None:
        self.face.keep_ids(lambda: (one.id for one in self._shared.values()))
        self.face.keep_ids(self._asked.keys)

    def acquire(self, options: int, key: str, mode: InterestMode) -> None:
        """Ask, unless the same was asked already."""
        shared = self._shared.get((options, key))
        if shared is None:
            shared = self._shared[options, key] = _Shared(self.face.new_id())
            self.ask(shared.id, options, key, mode)
        shared.user_count += 1

    def release(self, options: int, key: str) -> None:
        """Nobody asks any more, unless somebody else does."""
        shared = self._shared[options, key]
        shared.user_count -= 1
        if shared.user_count == 0:
            del self._shared[options, key]
            self.face.send(Interest(shared.id, InterestMode.FINAL, qos=QOS_DECLARE))

    def ask(self, interest_id: int, options: int, key: str, mode: InterestMode) -> None:
        """Send an INTEREST."""
        wire_key = self.face.wire_key(key)
        self.face.send(Interest(interest_id, mode, options, wire_key, qos=QOS_DECLARE))

    def ask_once(self, key: str, outlet: Outlet) -> int:
        """Ask for subscribers; `outlet` gets END once all that there are now were told."""
        self.face.check_open()
        interest_id = self.face.new_id()
        self._asked[interest_id] = outlet
        # Nodes of Eclipse ignore an interest in current subscribers alone (behaviour.md 4.3).
        self.ask(interest_id, SUBSCRIBERS, key, InterestMode.CURRENT_FUTURE)
        return interest_id

    def withdraw(self, interest_id: int) -> None:
        """End such a question."""
        self._asked.pop(interest_id, None)
        if not self.face.closed:
            self.face.send(Interest(interest_id, InterestMode.FINAL, qos=QOS_DECLARE))

    def final(self, interest_id: int | None) -> None:
        """The current answers to an interest are complete."""
        outlet = None if interest_id is None else self._asked.get(interest_id)
        if outlet is not None:
            self.face.emit(outlet, END)

    def redeclare(self) -> None:
        """Ask another node the same, and forget what the old one said."""
        self.subscribers, self.queryables = KeyGroups(), KeyGroups()
        self._subscribers.clear()
        self._queryables.clear()
        for (options, key), shared in self._shared.items():
            self.ask(shared.id, options, key, InterestMode.CURRENT_FUTURE)
        self.changed(SUBSCRIBERS, None)
        self.changed(QUERYABLES, None)

    def declared_subscriber(self, body: DeclareSubscriber) -> None:
        """Somebody subscribed, or is told of once more."""
        key = self.face.own_key(body.key)
        before = self._subscribers.get(body.id)
        if key is None or before == key:
            return
        self._subscribers[body.id] = key
        self.subscribers.add(key, body.id)
        self.changed(SUBSCRIBERS, key)
        if before is not None:
            self.subscribers.remove(before, body.id)
            self.changed(SUBSCRIBERS, before)

    def undeclared_subscriber(self, body: UndeclareSubscriber) -> None:
        """A subscriber is gone."""
        key = self._subscribers.pop(body.id, None)
        if key is not None:
            self.subscribers.remove(key, body.id)
            self.changed(SUBSCRIBERS, key)

    def declared_queryable(self, body: DeclareQueryable) -> None:
        """Somebody answers queries, or has more or less to say than before."""
        key = self.face.own_key(body.key)
        if key is None:
            return
        now = RemoteQueryable(key, body.complete)
        before = self._queryables.get(body.id)
        if before == now:
            return
        self._queryables[body.id] = now
        self.queryables.add(key, now)
        if before is not None:
            self.queryables.remove(before.key, before)
            self.changed(QUERYABLES, before.key)
        self.changed(QUERYABLES, key)

    def undeclared_queryable(self, body: UndeclareQueryable) -> None:
        """A queryable is gone."""
        known = self._queryables.pop(body.id, None)
        if known is not None:
            self.queryables.remove(known.key, known)
            self.changed(QUERYABLES, known.key)

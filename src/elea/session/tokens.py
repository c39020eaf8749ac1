"""Liveliness: tokens of this session, and what it knows of those of others. behaviour.md 5.12.

Several tokens with one key count as one: a subscriber gets PUT with the first and DELETE with the
last. The network tells a session of its own tokens too.
"""

from __future__ import annotations

from collections.abc import Callable

from elea.keyexpr.match import intersects
from elea.provenance import SampleKind
from elea.records import dataclass, field
from elea.sample import Reply, Sample
from elea.session.face import Face, Timer
from elea.session.interests import TOKENS
from elea.session.outlet import END, Outlet
from elea.session.queries import TIMEOUT_ERROR
from elea.wire.fields import QOS_DECLARE
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.interest import Interest, InterestMode


@dataclass(slots=True, eq=False)
class Watcher:
    """One liveliness subscriber; its id is that of its interest."""

    id: int
    key: str
    outlet: Outlet
    received_count: int = 0
    answered: set[str] = field(default_factory=set)  # keys it was told of


@dataclass(slots=True, eq=False)
class TokenGet:
    """A question for the tokens there are; its id is that of its interest."""

    id: int
    outlet: Outlet
    timer: Timer
    seen: set[str] = field(default_factory=set)
    ended: bool = False
    on_end: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Tokens:
    """All that concerns liveliness in a session."""

    face: Face
    _own: dict[int, str] = field(default_factory=dict)
    _watchers: dict[int, Watcher] = field(default_factory=dict)
    _gets: dict[int, TokenGet] = field(default_factory=dict)
    _known: dict[int, str] = field(default_factory=dict)
    _alive: dict[str, int] = field(default_factory=dict)  # how many of those we know have the key

    def __post_init__(self) -> None:
        for numbered in (self._own, self._watchers, self._gets):
            self.face.keep_ids(numbered.keys)

    def declare(self, key: str) -> int:
        """A new token."""
        token_id = self.face.new_id()
        self._own[token_id] = key
        self.face.declare(DeclareToken(token_id, self.face.wire_key(key)))
        return token_id

    def undeclare(self, token_id: int) -> bool:
        """The token is gone; False if it was already."""
        if self._own.pop(token_id, None) is None:
            return False
        if not self.face.closed:
            self.face.declare(UndeclareToken(token_id))
        return True

    def redeclare(self) -> None:
        """Tell another node of all tokens, and ask it what there is."""
        self.close()
        gone = list(self._alive)
        self._known.clear()
        self._alive.clear()
        for key in gone:
            self._tell_all(key, SampleKind.DELETE)
        for watcher in self._watchers.values():
            self._ask(watcher.id, watcher.key, InterestMode.CURRENT_FUTURE)
        for token_id, key in self._own.items():
            self.face.declare(DeclareToken(token_id, self.face.wire_key(key)))

    def watch(self, key: str, outlet: Outlet, *, history: bool) -> Watcher:
        """Tell `outlet` of tokens that come and go, and of those there are if `history`."""
        watcher = Watcher(self.face.new_id(), key, outlet)
        self._watchers[watcher.id] = watcher
        mode = InterestMode.CURRENT_FUTURE if history else InterestMode.FUTURE
        self._ask(watcher.id, key, mode)
        return watcher

    def unwatch(self, watcher: Watcher) -> bool:
        """Tell no more; False if it was so already."""
        if self._watchers.pop(watcher.id, None) is None:
            return False
        if not self.face.closed:
            self.face.send(Interest(watcher.id, InterestMode.FINAL, qos=QOS_DECLARE))
        return True

    def get(self, key: str, outlet: Outlet, timeout_ns: int) -> TokenGet:
        """Ask for the tokens there are; END follows the last."""
        get_id = self.face.new_id()
        timer = self.face.call_after(timeout_ns, lambda: self.end(get, expired=True))
        get = TokenGet(get_id, outlet, timer)
        self._gets[get_id] = get
        self._ask(get_id, key, InterestMode.CURRENT)
        return get

    def declared(self, body: DeclareToken, interest_id: int | None) -> None:
        """A token appeared, or is told of because we asked."""
        key = self.face.own_key(body.key)
        if not key:
            return
        get = None if interest_id is None else self._gets.get(interest_id)
        if get is not None:
            if key not in get.seen:
                get.seen.add(key)
                self.face.emit(get.outlet, Reply(result=Sample(key_expr=key)))
            return
        news = key not in self._alive
        if self._known.get(body.id) != key:
            self._forget(body.id)
            self._known[body.id] = key
            self._alive[key] = self._alive.get(key, 0) + 1
        asker = None if interest_id is None else self._watchers.get(interest_id)
        if asker is not None:
            # Several tokens on one key count as one (behaviour.md 5.12).
            if key not in asker.answered:
                asker.answered.add(key)
                self._tell(asker, key, SampleKind.PUT)
        elif news:
            self._tell_all(key, SampleKind.PUT)

    def undeclared(self, body: UndeclareToken) -> None:
        """A token is gone; id 0 and a key: one that existed before we asked."""
        key = self._forget(body.id)
        if key is None and body.key is not None:
            key = self.face.own_key(body.key)
        if key and key not in self._alive:
            self._tell_all(key, SampleKind.DELETE)

    def final(self, interest_id: int | None) -> None:
        """All there was for an interest has been told."""
        get = None if interest_id is None else self._gets.get(interest_id)
        if get is not None:
            self.end(get)

    def end(self, get: TokenGet, *, expired: bool = False) -> None:
        """End a question, if it has not ended."""
        if self._gets.pop(get.id, None) is None:
            return
        get.ended = True
        get.timer.cancel()
        if expired:
            self.face.emit(get.outlet, TIMEOUT_ERROR)
        self.face.emit(get.outlet, END)
        for function in get.on_end:
            function()
        get.on_end.clear()

    def watchers(self) -> list[Watcher]:
        """Every liveliness subscriber."""
        return list(self._watchers.values())

    def close(self) -> None:
        """End all questions."""
        for get in list(self._gets.values()):
            self.end(get)

    def _forget(self, token_id: int) -> str | None:
        key = self._known.pop(token_id, None)
        if key is not None:
            self._alive[key] -= 1
            if self._alive[key] == 0:
                del self._alive[key]
        return key

    def _ask(self, interest_id: int, key: str, mode: InterestMode) -> None:
        wire_key = self.face.wire_key(key)
        self.face.send(Interest(interest_id, mode, TOKENS, wire_key, qos=QOS_DECLARE))

    def _tell_all(self, key: str, kind: SampleKind) -> None:
        for watcher in list(self._watchers.values()):
            if intersects(watcher.key, key):
                if kind is SampleKind.PUT:
                    watcher.answered.add(key)  # an answer that is under way is no news any more
                else:
                    watcher.answered.discard(key)
                self._tell(watcher, key, kind)

    def _tell(self, watcher: Watcher, key: str, kind: SampleKind) -> None:
        watcher.received_count += 1
        self.face.emit(watcher.outlet, Sample(key_expr=key, kind=kind))

"""SessionActor: an actor with a real session: everything goes through the public API.

Functions of the user record what they are given. Several subscribers of a session that match one
sample each get it; the history has it once per session, and again only if one of them got it twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.answers import SENT
from elea.config.config import Config
from elea.keyexpr.match import includes, intersects
from elea.provenance import SampleKind
from elea.qos import CongestionControl, Locality, Priority, Reliability
from elea.query import ConsolidationMode, QueryTarget
from elea.routing.tables import Kind
from elea.sample import Reply, Sample
from elea.session.cancellation import CancellationToken
from elea.session.context import Declared as Entity
from elea.session.handlers import Callback
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.query import Query
from elea.session.session import Session
from elea.sim.campaign.actor import PAUSED_NS, Answer, Wish, late_ns, payload_of, read_payload
from elea.sim.campaign.history import (
    Appeared,
    Asked,
    Attached,
    CalledLate,
    Declared,
    Delivered,
    Ended,
    History,
    Interested,
    Left,
    LostNeighbour,
    Published,
    Replied,
    Requested,
    Retracted,
    Settled,
    Undeclared,
    Vanished,
)
from elea.sim.driver import SimDriver
from elea.wire.network.interest import InterestMode

_TARGETS: Final = (QueryTarget.BEST_MATCHING, QueryTarget.ALL, QueryTarget.ALL_COMPLETE)
_CONFIG: Final = Config()


class _Guest:
    """A node's driver for one of several sessions: the node does not end with this one."""

    def __init__(self, driver: SimDriver) -> None:
        self.lock = driver.lock
        self.node = driver.node
        self.callback_thread = driver.callback_thread
        self.idle = driver.idle
        self.now_ns = driver.now_ns
        self.wall_ns = driver.wall_ns
        self.locators = driver.locators
        self.refusals = driver.refusals
        self.flush = driver.flush
        self.wait_room = driver.wait_room
        self.relieve = driver.relieve
        self.hold_reading = driver.hold_reading
        self.abort = driver.abort
        self.write_at_once = driver.write_at_once

    def close(self, timeout_ns: int) -> None:
        """The node lives on."""


class SessionActor:
    """One session of the public API; what `Actor` is for the node alone."""

    def __init__(
        self,
        driver: SimDriver,
        number: int,
        history: History,
        answer: Callable[[], Answer],
        keys: tuple[str, ...],
    ) -> None:
        self.driver = driver
        self.number = number
        self.attached = True
        self.entities: dict[tuple[Kind, int], str] = {}
        self.wishes: dict[int, Wish] = {}
        self.queries: dict[int, CancellationToken] = {}  # open ones
        self._history = history
        self._answer = answer
        self._keys = keys
        self._last_id = 0
        self._numbers: dict[str, int] = {}
        self._declared: dict[tuple[Kind, int], Entity] = {}
        self._watchers: dict[int, Entity] = {}
        self._alive: dict[int, set[str]] = {}  # tokens, by the watcher that was told
        self._writers: dict[int, tuple[Kind, Publisher | Querier]] = {}  # by wish
        self._publishers: dict[tuple[str, bool], Publisher] = {}
        self._got: dict[tuple[object, ...], set[int]] = {}
        self._kept: list[Query] = []  # never answered
        driver.is_shared = True
        self.session = Session(_CONFIG, _Guest(driver))
        self.face_id = self.session._context.core.face.id
        history.add(Attached(number, driver.name))
        self._neighbours = self.session.info.declare_transport_events_listener(
            lambda event: self._neighbour(event.kind)
        )

    @property
    def usable(self) -> bool:
        """Whether the session is there and its process runs."""
        return self.attached and self.driver.running

    # What the session does.

    def declare(self, kind: Kind, key: str, *, complete: bool = False) -> None:
        """Declare a subscriber, queryable or token."""
        id_ = self._next_id()
        self.entities[kind, id_] = key
        self._history.add(Declared(self.number, kind, id_, key))
        session = self.session
        entity: Entity
        if kind is Kind.SUBSCRIBER:
            entity = session.declare_subscriber(
                key, lambda sample: self._sample(id_, sample), allowed_origin=Locality.REMOTE
            )
        elif kind is Kind.QUERYABLE:
            entity = session.declare_queryable(
                key,
                lambda query: self._asked(id_, query),
                complete=complete,
                allowed_origin=Locality.REMOTE,
            )
        else:
            entity = session.liveliness().declare_token(key)
        self._declared[kind, id_] = entity

    def undeclare(self, kind: Kind, id_: int) -> None:
        """Take one back."""
        self._declared.pop((kind, id_)).undeclare()
        del self.entities[kind, id_]
        self._history.add(Undeclared(self.number, kind, id_))

    def wish(self, wish: Wish) -> None:
        """Watch tokens, or have a publisher or querier that knows whether anybody listens."""
        id_ = self._next_id()
        if wish.kind is not Kind.TOKEN:
            self.wishes[id_] = wish
            self._writers[id_] = (wish.kind, self._writer(wish))
            return
        current = bool(wish.mode & InterestMode.CURRENT)
        future = bool(wish.mode & InterestMode.FUTURE)
        # A session is told the end of what there is by its reply handler alone.
        settles = not future
        self._history.add(
            Interested(self.number, id_, wish.kind, wish.key, current, future, settles)
        )
        liveliness = self.session.liveliness()
        if not future:
            handler: Callback[Reply] = Callback(lambda _: None, lambda: self._settled(id_))
            liveliness.get(wish.key, handler, timeout=60)
            return
        self.wishes[id_] = wish
        self._alive[id_] = set()
        self._watchers[id_] = liveliness.declare_subscriber(
            wish.key, lambda sample: self._token(id_, sample), history=current
        )

    def unwish(self, id_: int) -> None:
        """Take that back."""
        wish = self.wishes.pop(id_)
        if wish.kind is not Kind.TOKEN:
            self._writers.pop(id_)[1].undeclare()
            return
        self._watchers.pop(id_).undeclare()
        self._alive.pop(id_)
        self._history.add(Retracted(self.number, id_))

    def put(
        self, key: str, *, fill_len: int = 0, priority: int = 5, blocking: bool, reliable: bool
    ) -> int:
        """Publish the next sample on a key."""
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        publisher = self._publishers.get((key, blocking))
        if publisher is None:
            publisher = self._publishers[key, blocking] = self.session.declare_publisher(
                key,
                congestion_control=CongestionControl.BLOCK if blocking else CongestionControl.DROP,
                priority=Priority(priority),
                reliability=Reliability.RELIABLE if reliable else Reliability.BEST_EFFORT,
                allowed_destination=Locality.REMOTE,
            )
        self._history.add(Published(self.number, key, number, blocking))
        publisher.put(payload_of(self.number, number, fill_len))
        return SENT

    def ask(self, key: str, *, target: int, timeout_ms: int) -> int:
        """Send a query."""
        id_ = self._next_id()
        token = self.queries[id_] = CancellationToken()
        self._history.add(Asked(self.number, id_, key))
        handler: Callback[Reply] = Callback(
            lambda reply: self._replied(id_, reply), lambda: self._ended(id_)
        )
        self.session.get(
            f"{key}?from={self.number};id={id_}",
            handler,
            target=_TARGETS[target],
            timeout=timeout_ms / 1_000,
            consolidation=ConsolidationMode.NONE,
            allowed_destination=Locality.REMOTE,
            cancellation_token=token,
        )
        return id_

    def cancel(self, id_: int) -> None:
        """Give a query up: it ends, once."""
        self.queries[id_].cancel()

    def detach(self) -> None:
        """End the session."""
        self.session.close()
        self._leave()

    def crashed(self) -> None:
        """The session ended with its node."""
        if self.attached:
            self._leave()
            # When its node is gone too: nobody hears of this end.
            self.driver.world.after(0, self.session.close)

    def mistakes(self, kind: Kind, truth: set[str]) -> list[str]:
        """What it was told that is not so, or not told that is, of all others."""
        broken = []
        if kind is not Kind.TOKEN:
            writers = [one for of, one in self._writers.values() if of is kind]
            if kind is Kind.SUBSCRIBER:
                writers += self._publishers.values()
            for writer in writers:
                # A queryable has to have all that a querier may ask for (behaviour.md 4.9).
                fits = intersects if kind is Kind.SUBSCRIBER else includes
                matches = any(fits(key, str(writer.key_expr)) for key in truth)
                if bool(writer.matching_status.matching) != matches:
                    broken.append(f"{kind.name} for {writer.key_expr}: {not matches} was told")
            return broken
        for id_, alive in self._alive.items():
            wish = self.wishes[id_]
            due = {key for key in truth if intersects(key, wish.key)}
            if not alive <= due:
                broken.append(f"TOKEN {alive - due} is gone")
            if wish.mode & InterestMode.CURRENT and not due <= alive:
                broken.append(f"TOKEN {due - alive} not told")
        return broken

    # What it is given.

    def _sample(self, id_: int, sample: Sample) -> None:
        if not self._expects(Kind.SUBSCRIBER, id_):
            return
        source, number, whole = read_payload(sample.payload.to_bytes())
        key = str(sample.key_expr)
        if self._is_news((source, key, number), id_):
            self._history.add(Delivered(self.number, source, key, number, whole))

    def _asked(self, id_: int, query: Query) -> None:
        if not self._expects(Kind.QUERYABLE, id_):
            return
        source, asked = (int(query.parameters.get(name) or 0) for name in ("from", "id"))
        if self._is_news(("?", source, asked), id_):
            self._history.add(Requested(self.number, source, asked))
        answer = self._answer()
        if answer is Answer.NEVER:
            self._kept.append(query)
        elif answer is Answer.INSIDE:
            self._reply(query, answer)
        else:
            self.driver.world.after(late_ns(answer), lambda: self._reply_later(query, answer))

    def _reply_later(self, query: Query, answer: Answer) -> None:
        if not self.attached or not self.driver.alive:
            return
        if not self.driver.running:
            self.driver.world.after(PAUSED_NS, lambda: self._reply_later(query, answer))
            return
        self._reply(query, answer)

    def _reply(self, query: Query, answer: Answer) -> None:
        if answer is Answer.ERROR:
            query.reply_err(b"no")
        else:
            key = next(one for one in self._keys if intersects(one, str(query.key_expr)))
            for _ in range(2 if answer is Answer.TWICE else 1):
                query.reply(key, self.number.to_bytes(4, "big"))
        query.drop()

    def _replied(self, id_: int, reply: Reply) -> None:
        if self.attached:
            ok = reply.ok
            source = None if ok is None else int.from_bytes(ok.payload.to_bytes(), "big")
            self._history.add(Replied(self.number, id_, source))

    def _ended(self, id_: int) -> None:
        if self.attached:
            self.queries.pop(id_, None)
            self._history.add(Ended(self.number, id_))

    def _settled(self, id_: int) -> None:
        if self.attached:
            self._history.add(Settled(self.number, id_))

    def _token(self, id_: int, sample: Sample) -> None:
        if not self.attached:
            return
        if id_ not in self._alive:
            self._history.add(CalledLate(self.number, Kind.TOKEN, id_))
            return
        key = str(sample.key_expr)
        if sample.kind is SampleKind.PUT:
            self._alive[id_].add(key)
            self._history.add(Appeared(self.number, Kind.TOKEN, key))
        else:
            self._alive[id_].discard(key)
            self._history.add(Vanished(self.number, Kind.TOKEN, key))

    def _neighbour(self, kind: SampleKind) -> None:
        if self.attached and kind is SampleKind.DELETE:
            self._history.add(LostNeighbour(self.driver.name))

    # Inside.

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _leave(self) -> None:
        self.attached = False
        self._history.add(Left(self.number))
        self._kept.clear()

    def _writer(self, wish: Wish) -> Publisher | Querier:
        session, remote = self.session, Locality.REMOTE
        if wish.kind is Kind.SUBSCRIBER:
            return session.declare_publisher(wish.key, allowed_destination=remote)
        return session.declare_querier(wish.key, allowed_destination=remote)

    def _expects(self, kind: Kind, id_: int) -> bool:
        """Whether an entity is there to be given something; if not, that is worth a word."""
        if self.attached and (kind, id_) not in self.entities:
            self._history.add(CalledLate(self.number, kind, id_))
        return self.attached and (kind, id_) in self.entities

    def _is_news(self, name: tuple[object, ...], id_: int) -> bool:
        """Whether a session was not given this before; or this very entity was."""
        given = self._got.setdefault(name, set())
        news = not given or id_ in given
        given.add(id_)
        return news

"""Actor: a session of a simulated node that does what it is told and records what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from elea.answers import QUEUED
from elea.keyexpr.match import intersects
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.routing.tables import OPTIONS, Kind
from elea.sim.campaign.history import (
    Appeared,
    Asked,
    Attached,
    Cancelled,
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
from elea.sim.world import SimDriver
from elea.wire.codec import NetworkMessage
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_DECLARE, QOS_REQUEST, WireEncoding, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_AGGREGATE, Interest, InterestMode
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal

_BLOCK: Final = 0x08
_HEAD_LEN: Final = 8  # source and number
PAUSED_NS: Final = 100_000_000  # how soon a stopped process is looked at again

_DECLARED: Final = {
    DeclareSubscriber: Kind.SUBSCRIBER,
    DeclareQueryable: Kind.QUERYABLE,
    DeclareToken: Kind.TOKEN,
}
_UNDECLARED: Final = {
    UndeclareSubscriber: Kind.SUBSCRIBER,
    UndeclareQueryable: Kind.QUERYABLE,
    UndeclareToken: Kind.TOKEN,
}


class Answer(Enum):
    """What a queryable does with a query."""

    INSIDE = "before the node has finished handing it over"
    SOON = "a moment later"
    LATE = "after seconds"
    ERROR = "with an error"
    TWICE = "with two replies"
    NEVER = "not at all"


@dataclass(frozen=True, slots=True)
class Wish:
    """An interest of a session."""

    mode: InterestMode
    kind: Kind
    key: str
    aggregate: bool


class Actor:
    """One session.

    Args:
        driver: The node it belongs to.
        number: Its name in the history, and in the payloads of its samples.
        history: Where everything is recorded.
        answer: Draws what its queryables do next.
    """

    def __init__(
        self, driver: SimDriver, number: int, history: History, answer: Callable[[], Answer]
    ) -> None:
        self.driver = driver
        self.number = number
        self.attached = True
        self.entities: dict[tuple[Kind, int], str] = {}
        self.wishes: dict[int, Wish] = {}
        self.queries: dict[int, None] = {}  # open ones
        self.view: dict[tuple[Kind, int], str] = {}  # what it was told exists, by its id
        self._dead = False  # it crashed: nothing is heard, whatever its node still says
        self._history = history
        self._answer = answer
        self._last_id = 0
        self._numbers: dict[str, int] = {}
        self.face_id = driver.node.attach(self, driver.now_ns())
        history.add(Attached(number, driver.name))
        driver.flush()

    # What the session does.

    @property
    def usable(self) -> bool:
        """Whether the session is there and its process runs."""
        return self.attached and self.driver.running

    def declare(self, kind: Kind, key: str, *, complete: bool = False) -> None:
        """Declare a subscriber, queryable or token."""
        id_ = self._next_id()
        wire = WireExpr(0, key)
        body: Declaration
        if kind is Kind.SUBSCRIBER:
            body = DeclareSubscriber(id_, wire)
        elif kind is Kind.QUERYABLE:
            body = DeclareQueryable(id_, wire, complete, 0)
        else:
            body = DeclareToken(id_, wire)
        self.entities[kind, id_] = key
        self._history.add(Declared(self.number, kind, id_, key))
        self._send(Declare(body, qos=QOS_DECLARE))

    def undeclare(self, kind: Kind, id_: int) -> None:
        """Take one back."""
        wire = WireExpr(0, self.entities.pop((kind, id_)))
        body: Declaration
        if kind is Kind.SUBSCRIBER:
            body = UndeclareSubscriber(id_, wire)
        elif kind is Kind.QUERYABLE:
            body = UndeclareQueryable(id_, wire)
        else:
            body = UndeclareToken(id_, wire)
        self._send(Declare(body, qos=QOS_DECLARE), flush=False)
        # Not before the call has returned: what is given meanwhile is given in time.
        self._history.add(Undeclared(self.number, kind, id_))
        self.driver.flush()

    def wish(self, wish: Wish) -> None:
        """Declare an interest."""
        id_ = self._next_id()
        current = bool(wish.mode & InterestMode.CURRENT)
        future = bool(wish.mode & InterestMode.FUTURE)
        if future:
            self.wishes[id_] = wish
        self._history.add(Interested(self.number, id_, wish.kind, wish.key, current, future))
        options = OPTIONS[wish.kind] | (OPTION_AGGREGATE if wish.aggregate else 0)
        self._send(Interest(id_, wish.mode, options, WireExpr(0, wish.key), QOS_DECLARE))

    def unwish(self, id_: int) -> None:
        """Take an interest back."""
        wish = self.wishes.pop(id_)
        if wish.aggregate:
            # Nothing more is said of the one declaration that stood for all; no entity has its key.
            for kind, entity_id in list(self.view):
                if kind is wish.kind and self.view[kind, entity_id] == wish.key:
                    del self.view[kind, entity_id]
        self._history.add(Retracted(self.number, id_))
        self._send(Interest(id_, InterestMode.FINAL, qos=QOS_DECLARE))

    def put(
        self, key: str, *, fill_len: int = 0, priority: int = 5, blocking: bool, reliable: bool
    ) -> int:
        """Publish the next sample on a key."""
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        payload = payload_of(self.number, number, fill_len)
        push = Push(WireExpr(0, key), Put(payload), priority | (_BLOCK if blocking else 0))
        answer = self.driver.node.local_push(
            self.face_id, key, push, reliable, self.driver.now_ns()
        )
        self._history.add(Published(self.number, key, number, blocking))
        if answer == QUEUED:
            self.driver.world.sometimes("a blocking message found no room")
        self.driver.flush()
        return answer

    def ask(self, key: str, *, target: int, timeout_ms: int) -> int:
        """Send a query."""
        id_ = self._next_id()
        self.queries[id_] = None
        self._history.add(Asked(self.number, id_, key))
        # Who asks travels as the value, so that those who answer can be checked.
        body = Query(parameters=f"from={self.number};id={id_}")
        self._send(
            Request(id_, WireExpr(0, key), body, QOS_REQUEST, target=target, timeout_ms=timeout_ms)
        )
        return id_

    def cancel(self, id_: int) -> None:
        """Give a query up."""
        del self.queries[id_]
        self.driver.node.routing.cancel_query(self.face_id, id_)
        self._history.add(Cancelled(self.number, id_))

    def detach(self) -> None:
        """End the session."""
        self.attached = False
        self.driver.node.detach(self.face_id, self.driver.now_ns())
        self._history.add(Left(self.number))
        self.driver.flush()

    def crashed(self) -> None:
        """The session ended with its node."""
        if self.attached:
            self.attached = False
            self._dead = True
            self._history.add(Left(self.number))

    def mistakes(self, kind: Kind, truth: set[str]) -> list[str]:
        """What it was told that is not so, or not told that is, of all others."""
        told = [key for (of, _), key in self.view.items() if of is kind]
        wishes = [one for one in self.wishes.values() if one.kind is kind]
        sums = {
            one.key
            for one in wishes
            if one.aggregate and any(intersects(key, one.key) for key in truth)
        }
        asked = {
            key
            for one in wishes
            if one.mode & InterestMode.CURRENT and not one.aggregate
            for key in truth
            if intersects(key, one.key)
        }
        broken = []
        repeated = {key for key in told if told.count(key) > 1} - sums
        if repeated:
            broken.append(f"{kind.name} {repeated} told twice")
        if not set(told) <= truth | sums:
            broken.append(f"{kind.name} {set(told) - truth - sums} is gone")
        if not asked | sums <= set(told):
            broken.append(f"{kind.name} {(asked | sums) - set(told)} not told")
        return broken

    # What the node gives it.

    def push(self, key: str, push: Push, reliable: bool) -> None:
        """A sample."""
        assert isinstance(push.body, Put)
        if self._dead:
            return
        source, number, whole = read_payload(push.body.payload)
        self._history.add(Delivered(self.number, source, key, number, whole))

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        """Anything else."""
        if self._dead:
            return
        match message:
            case Declare():
                self._told(message)
            case Request():
                self._asked(message)
            case Response():
                body = message.body
                is_reply = isinstance(body, Reply) and isinstance(body.body, Put)
                source = int.from_bytes(body.body.payload, "big") if is_reply else None  # type: ignore[union-attr]  # a Reply with a Put
                self._history.add(Replied(self.number, message.id, source))
            case ResponseFinal():
                self.queries.pop(message.id, None)
                self._history.add(Ended(self.number, message.id))

    def neighbour(self, event: NeighbourUp | NeighbourDown) -> None:
        """A transport came or went."""
        if isinstance(event, NeighbourDown):
            self._history.add(LostNeighbour(self.driver.name))

    def next_timer_ns(self) -> int | None:
        """An actor has no timers of its own: the world schedules what it does."""
        return None

    def handle_timer(self, now_ns: int) -> None:
        """Nothing is ever due."""

    def deliver(self) -> None:
        """Everything is recorded as it comes."""

    # Inside.

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, message: NetworkMessage, *, flush: bool = True) -> None:
        self.driver.node.local_send(self.face_id, message, True, self.driver.now_ns())
        if flush:
            self.driver.flush()

    def _told(self, message: Declare) -> None:
        body = message.body
        if isinstance(body, DeclareFinal):
            if message.interest_id is not None:
                self._history.add(Settled(self.number, message.interest_id))
            return
        if isinstance(body, (DeclareSubscriber, DeclareQueryable, DeclareToken)):
            kind = _DECLARED[type(body)]
            if body.id != 0:  # 0 belongs to an answer about the present, and is not taken back
                self.view[kind, body.id] = body.key.suffix
            self._history.add(Appeared(self.number, kind, body.key.suffix))
        elif isinstance(body, (UndeclareSubscriber, UndeclareQueryable, UndeclareToken)):
            kind = _UNDECLARED[type(body)]
            assert body.key is not None  # sessions are told keys
            self.view.pop((kind, body.id), None)
            self._history.add(Vanished(self.number, kind, body.key.suffix))

    def _asked(self, request: Request) -> None:
        fields = dict(one.split("=") for one in request.body.parameters.split(";"))
        asked = Requested(self.number, int(fields["from"]), int(fields["id"]))
        self._history.add(asked)
        answer = self._answer()
        if answer is Answer.NEVER:
            return
        if answer is Answer.INSIDE:
            self._reply(request, answer)
            return
        self.driver.world.after(late_ns(answer), lambda: self._reply_later(request, answer))

    def _reply_later(self, request: Request, answer: Answer) -> None:
        if not self.attached or not self.driver.alive:
            return
        if not self.driver.running:
            self.driver.world.after(PAUSED_NS, lambda: self._reply_later(request, answer))
            return
        self._reply(request, answer)
        self.driver.flush()

    def _reply(self, request: Request, answer: Answer) -> None:
        key = request.key
        body: Reply | Err = Reply(Put(self.number.to_bytes(4, "big")))
        if answer is Answer.ERROR:
            body = Err(b"no", WireEncoding(0))
        for _ in range(2 if answer is Answer.TWICE else 1):
            self._send(Response(request.id, key, body, QOS_REQUEST), flush=False)
        self._send(ResponseFinal(request.id, QOS_REQUEST), flush=False)


def late_ns(answer: Answer) -> int:
    """How long a queryable takes that does not answer inside."""
    return 3_000_000_000 if answer is Answer.LATE else 1_000_000


def payload_of(source: int, number: int, fill_len: int) -> bytes:
    """What a session publishes: who, which, and something to fill it up."""
    return (
        source.to_bytes(4, "big") + number.to_bytes(4, "big") + bytes((number & 0xFF,)) * fill_len
    )


def read_payload(payload: bytes) -> tuple[int, int, bool]:
    """Who, which, and whether it is whole."""
    source = int.from_bytes(payload[:4], "big")
    number = int.from_bytes(payload[4:_HEAD_LEN], "big")
    fill = payload[_HEAD_LEN:]
    return source, number, fill == bytes((number & 0xFF,)) * len(fill)

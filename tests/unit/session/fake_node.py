"""A node in memory and a driver with a clock that stands still: sessions meet without a network.

The node routes between its local faces by the rules a session relies on: declarations go to who has
an interest, samples to intersecting subscribers, requests to queryables by target, and every
request ends. It can also stand for the outside: what a session sends is kept in `sent`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from elea.answers import SENT
from elea.config.config import Config
from elea.ids import WhatAmI
from elea.keyexpr.match import includes, intersects
from elea.node.ports import NeighbourUp
from elea.routing.refusals import Refused
from elea.session.ports import CallbackThread, LocalSink
from elea.session.session import Session
from elea.transport.stats import TransportStats
from elea.wire.codec import NetworkMessage
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import (
    OPTION_QUERYABLES,
    OPTION_SUBSCRIBERS,
    OPTION_TOKENS,
    Interest,
    InterestMode,
)
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal

SECOND_NS = 1_000_000_000
START_WALL_NS = 1_700_000_000 * SECOND_NS
ZID = b"\x01\x02\x03"

Entity = DeclareSubscriber | DeclareQueryable | DeclareToken
_OPTIONS: dict[type[Entity], int] = {
    DeclareSubscriber: OPTION_SUBSCRIBERS,
    DeclareQueryable: OPTION_QUERYABLES,
    DeclareToken: OPTION_TOKENS,
}


@dataclass
class _Face:
    sink: LocalSink
    entities: dict[tuple[type[Entity], int], Entity] = field(default_factory=dict)
    interests: dict[int, Interest] = field(default_factory=dict)
    told: dict[tuple[int, type[Entity], int], int] = field(default_factory=dict)


@dataclass
class _Asked:
    source: int
    id: int
    owing: set[int]


class FakeNode:
    """Routes between sessions attached to it."""

    def __init__(self, clock: FakeDriver) -> None:
        self.zid = ZID
        self.whatami = WhatAmI.PEER
        self.faces: dict[int, _Face] = {}
        self.sent: list[NetworkMessage | Push] = []
        self.up: list[NeighbourUp] = []
        self.room = True
        self.direct = None
        self.result = SENT
        self._clock = clock
        self._next = 0
        self._asked: dict[int, _Asked] = {}
        self._stamp = 0

    def attach(self, sink: LocalSink) -> int:
        self._next += 1
        self.faces[self._next] = _Face(sink)
        return self._next

    def detach(self, face_id: int, now_ns: int) -> None:
        for kind, entity_id in list(self.faces[face_id].entities):
            self._undeclare(face_id, kind, entity_id)
        del self.faces[face_id]
        for asked_id in list(self._asked):
            self._finish(asked_id, face_id)

    def set_timer(self) -> None:
        pass

    def push_source(self, face_id: int) -> None:
        return None

    def local_push(self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int) -> int:
        self.sent.append(push)
        for other_id, other in self.faces.items():
            if other_id != face_id and self._wants(other, key):
                other.sink.push(key, push, reliable)
        return self.result

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        self.sent.append(message)
        match message:
            case Declare():
                self._declare(face_id, message.body)
            case Interest():
                self._interest(face_id, message)
            case Request():
                self._request(face_id, message)
            case Response():
                self._respond(face_id, message)
            case ResponseFinal():
                self._finish(message.id, face_id)
            case _:
                raise AssertionError(f"no session sends {message}")
        return SENT

    def neighbours(self) -> list[NeighbourUp]:
        return list(self.up)

    def transport_stats(self) -> dict[bytes, TransportStats]:
        return {one.zid: TransportStats() for one in self.up}

    def awaits(self, face_id: int, request_id: int) -> bool:
        return True

    def asker(self, face_id: int, request_id: int) -> str:
        return "another"

    def has_room(self, face_id: int, key: str, qos: int) -> bool:
        return self.room

    def has_reply_room(self, face_id: int, request_id: int, qos: int) -> bool:
        return self.room

    def is_congested(self) -> bool:
        return not self.room

    def timestamp(self, wall_ns: int) -> Stamp:
        self._stamp = max(self._stamp + 1, (wall_ns << 32) // SECOND_NS)
        return Stamp(self._stamp, self.zid)

    @staticmethod
    def _wants(face: _Face, key: str) -> bool:
        return any(
            isinstance(one, DeclareSubscriber) and intersects(one.key.suffix, key)
            for one in face.entities.values()
        )

    def _declare(self, face_id: int, body: Declaration) -> None:
        match body:
            case DeclareSubscriber() | DeclareQueryable() | DeclareToken():
                self.faces[face_id].entities[type(body), body.id] = body
                for other_id, other in self.faces.items():
                    if any(self._concerns(i, body) for i in other.interests.values()):
                        self._tell(face_id, other_id, body, None)
            case UndeclareSubscriber():
                self._undeclare(face_id, DeclareSubscriber, body.id)
            case UndeclareQueryable():
                self._undeclare(face_id, DeclareQueryable, body.id)
            case UndeclareToken():
                self._undeclare(face_id, DeclareToken, body.id)
            case DeclareKeyExpr() | UndeclareKeyExpr():
                pass  # a node makes messages shorter with it, and there is no wire here
            case _:
                raise AssertionError(f"no session declares {body}")

    def _undeclare(self, face_id: int, kind: type[Entity], entity_id: int) -> None:
        gone = self.faces[face_id].entities.pop((kind, entity_id))
        for other in list(self.faces.values()):
            told = other.told.pop((face_id, kind, entity_id), None)
            if told is not None:
                other.sink.receive(Declare(_ended(kind, told)), True)
            elif kind is DeclareToken and any(
                self._concerns(interest, gone) for interest in other.interests.values()
            ):
                other.sink.receive(Declare(UndeclareToken(0, gone.key)), True)

    @staticmethod
    def _concerns(interest: Interest, body: Entity) -> bool:
        if not interest.options & _OPTIONS[type(body)] or interest.key is None:
            return False
        return intersects(interest.key.suffix, body.key.suffix)

    def _tell(self, source: int, target: int, body: Entity, interest_id: int | None) -> None:
        if source == target and not isinstance(body, DeclareToken):
            return
        face = self.faces[target]
        key = (source, type(body), body.id)
        if interest_id is None and key in face.told:
            return
        if key not in face.told:
            self._next += 1
            face.told[key] = self._next
        face.sink.receive(Declare(_renumbered(body, face.told[key]), interest_id), True)

    def _interest(self, face_id: int, interest: Interest) -> None:
        face = self.faces[face_id]
        if interest.mode is InterestMode.FINAL:
            del face.interests[interest.id]
            return
        if interest.mode & InterestMode.FUTURE:
            face.interests[interest.id] = interest
        if interest.mode & InterestMode.CURRENT:
            for other_id, other in self.faces.items():
                for body in other.entities.values():
                    if not self._concerns(interest, body):
                        continue
                    if interest.mode is InterestMode.CURRENT:
                        once = Declare(_renumbered(body, 0), interest.id)
                        face.sink.receive(once, True)
                    else:
                        self._tell(other_id, face_id, body, interest.id)
        face.sink.receive(Declare(DeclareFinal(), interest.id), True)

    def _request(self, face_id: int, request: Request) -> None:
        chosen = self._choose(face_id, request)
        if not chosen:
            self.faces[face_id].sink.receive(ResponseFinal(request.id), True)
            return
        self._next += 1
        own = self._next
        self._asked[own] = _Asked(face_id, request.id, set(chosen))
        for target in chosen:
            copy = Request(
                own,
                request.key,
                request.body,
                qos=request.qos,
                target=request.target,
                timeout_ms=request.timeout_ms,
                ts_stack=request.ts_stack,
            )
            self.faces[target].sink.receive(copy, True)

    def _choose(self, face_id: int, request: Request) -> list[int]:
        key = request.key.suffix
        found: dict[int, bool] = {}
        for other_id, other in self.faces.items():
            for one in other.entities.values():
                if other_id == face_id or not isinstance(one, DeclareQueryable):
                    continue
                if intersects(one.key.suffix, key):
                    whole = one.complete and includes(one.key.suffix, key)
                    found[other_id] = found.get(other_id, False) or whole
        complete = [other_id for other_id, whole in found.items() if whole]
        if request.target == 0 and complete:
            return complete[:1]
        return complete if request.target == 2 else list(found)

    def _respond(self, face_id: int, response: Response) -> None:
        asked = self._asked.get(response.id)
        if asked is None or face_id not in asked.owing:
            return
        if asked.source in self.faces:
            copy = Response(
                asked.id,
                response.key,
                response.body,
                response.qos,
                response.responder,
                ts_stack=response.ts_stack,
            )
            self.faces[asked.source].sink.receive(copy, True)

    def _finish(self, asked_id: int, face_id: int) -> None:
        asked = self._asked.get(asked_id)
        if asked is None:
            return
        asked.owing.discard(face_id)
        if not asked.owing:
            del self._asked[asked_id]
            if asked.source in self.faces:
                self.faces[asked.source].sink.receive(ResponseFinal(asked.id), True)


def _renumbered(body: Entity, number: int) -> Entity:
    if isinstance(body, DeclareQueryable):
        return DeclareQueryable(number, body.key, body.complete)
    return type(body)(number, body.key)


def _ended(kind: type[Entity], number: int) -> Declaration:
    if kind is DeclareSubscriber:
        return UndeclareSubscriber(number)
    return UndeclareQueryable(number) if kind is DeclareQueryable else UndeclareToken(number)


class FakeDriver:
    """One thread, virtual time: everything due runs before a call returns."""

    idle = None

    def __init__(self, callback_thread: CallbackThread = CallbackThread.CALLER) -> None:
        self.lock = threading.Lock()
        self.node = FakeNode(self)
        self.callback_thread = callback_thread
        self.time_ns = SECOND_NS
        self.waited: list[int] = []
        self.relieved_count = 0
        self.writes_at_once = False
        self.held = False
        self.closed = False
        self.aborted = False

    def now_ns(self) -> int:
        return self.time_ns

    def wall_ns(self) -> int:
        return START_WALL_NS + self.time_ns

    def locators(self) -> tuple[str, ...]:
        return ()

    def refusals(self) -> tuple[Refused, ...]:
        return ()

    def flush(self) -> None:
        assert not self.lock.locked() or self.callback_thread is not CallbackThread.CALLER
        for face in list(self.node.faces.values()):
            face.sink.deliver()

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        self.waited.append(deadline_ns)
        return True

    def relieve(self) -> bool:
        self.relieved_count += 1
        return True

    def write_at_once(self) -> None:
        self.writes_at_once = True

    def hold_reading(self, held: bool) -> None:
        assert not self.lock.locked() or self.callback_thread is not CallbackThread.CALLER
        self.held = held

    def abort(self) -> None:
        self.aborted = True

    def close(self, timeout_ns: int) -> None:
        self.closed = True

    def advance(self, seconds: float) -> None:
        """Let time pass; timers run when they are due."""
        until = self.time_ns + int(seconds * SECOND_NS)
        while True:
            times = [face.sink.next_timer_ns() for face in self.node.faces.values()]
            due = [time for time in times if time is not None and time <= until]
            if not due:
                break
            self.time_ns = max(self.time_ns, min(due))
            with self.lock:
                for face in list(self.node.faces.values()):
                    face.sink.handle_timer(self.time_ns)
            self.flush()
        self.time_ns = until

    def receive(self, session: Session, message: NetworkMessage) -> None:
        """Give a session a message as if it came from the network."""
        with self.lock:
            self.node.faces[session._context.core.face.id].sink.receive(message, True)
        self.flush()


class World:
    """Sessions that meet at one fake node."""

    def __init__(self) -> None:
        self.driver = FakeDriver()

    @property
    def node(self) -> FakeNode:
        return self.driver.node

    def open(self, **settings: object) -> Session:
        return Session(Config.from_mapping(settings), self.driver)

    def sent(self, kind: type[NetworkMessage]) -> list[NetworkMessage]:
        """What sessions sent, of one kind."""
        return [message for message in self.node.sent if isinstance(message, kind)]


def text_key(text: str) -> WireExpr:
    return WireExpr(0, text)

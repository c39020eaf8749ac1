"""Queryables of this session and the queries they are asked. behaviour.md 5.9.

An `Exchange` is one question and the way back for its answers: to the network, or to a `get` of
this session. Each queryable it is put to gets an object of its own; when all are finished, the
exchange is, and the asker is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId
from elea.keyexpr.groups import KeyGroups
from elea.keyexpr.match import intersects
from elea.qos import Locality
from elea.query import QueryTarget
from elea.records import dataclass, field
from elea.sample import Reply
from elea.session.deliver import sample_of
from elea.session.face import Face
from elea.session.outlet import Outlet
from elea.session.queries import Ask, Gets, PendingGet, entity_of, error_of, has_any_key
from elea.session.stack import Stamper
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import QueryBody
from elea.wire.data.reply import Reply as WireReply
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.shared_extensions import EntityRef, SourceRef
from elea.wire.shared_extensions import TimestampStack as WireStack

_EXPRESS: Final = 0x10


class Answerer:
    """One declared queryable."""

    __slots__ = ("complete", "id", "key", "origin", "outlet", "received_count")

    def __init__(
        self, id: int, key: str, outlet: Outlet, *, complete: bool, origin: Locality
    ) -> None:
        self.id = id
        self.key = key
        self.outlet = outlet
        self.complete = complete
        self.origin = origin
        self.received_count = 0


class Exchange:
    """One question put to queryables of this session."""

    __slots__ = (
        "attachment",
        "body",
        "key",
        "open_count",
        "parameters",
        "qos",
        "source",
        "stack",
    )

    def __init__(
        self,
        key: str,
        parameters: str,
        body: QueryBody | None,
        attachment: bytes | None,
        source: SourceRef | None,
        qos: int,
        stack: WireStack | None,
    ) -> None:
        self.key = key
        self.parameters = parameters
        self.body = body
        self.attachment = attachment
        self.source = source
        self.qos = qos
        self.stack = stack
        self.open_count = 0

    def check_key(self, key: str) -> None:
        """Raise if a reply may not have this key."""
        if not intersects(key, self.key) and not has_any_key(self.parameters):
            raise InvalidValueError(
                "reply",
                f"Attempted to reply on `{key}`, which does not intersect with query "
                f"`{self.key}`, despite query only allowing replies on matching key expressions",
            )

    def reply(self, eid: int, key: str, body: Put | Del, *, express: bool) -> None:
        """Answer with a sample."""
        raise AssertionError("an exchange knows its way back")

    def fail(self, eid: int, err: Err) -> None:
        """Answer with an error."""
        raise AssertionError("an exchange knows its way back")

    def is_wanted(self) -> bool:
        """Whether somebody still waits for answers."""
        raise AssertionError("an exchange knows its way back")

    def asker(self) -> str:
        """The one who asks; this session unless another one does."""
        return "self"

    def has_room(self) -> bool:
        """Whether whoever asked would take an answer now."""
        return True

    def finish(self) -> None:
        """One queryable has no more to say."""
        self.open_count -= 1
        if self.open_count == 0:
            self.end()

    def end(self) -> None:
        """No queryable has more to say."""
        raise AssertionError("an exchange knows its way back")

    def answer_qos(self, *, express: bool) -> int:
        """Answers travel as the question did; express is up to the one who answers."""
        return self.qos | _EXPRESS if express else self.qos & ~_EXPRESS


class RemoteExchange(Exchange):
    """A question of somebody else."""

    __slots__ = ("_face", "_id", "_stamper")

    def __init__(self, face: Face, stamper: Stamper, key: str, request: Request) -> None:
        query = request.body
        stack = None if request.ts_stack is None else stamper.stamped(request.ts_stack)
        super().__init__(
            key, query.parameters, query.body, query.attachment, query.source, request.qos, stack
        )
        self._face = face
        self._stamper = stamper
        self._id = request.id

    def reply(self, eid: int, key: str, body: Put | Del, *, express: bool) -> None:
        qos = self.answer_qos(express=express)
        self._send(Response(self._id, self._face.wire_key(key), WireReply(body), qos), eid)

    def fail(self, eid: int, err: Err) -> None:
        wire_key = self._face.wire_key(self.key)
        self._send(Response(self._id, wire_key, err, self.qos & ~_EXPRESS), eid)

    def is_wanted(self) -> bool:
        return not self._face.closed and self._face.node.awaits(self._face.id, self._id)

    def asker(self) -> str:
        return self._face.node.asker(self._face.id, self._id)

    def has_room(self) -> bool:
        face = self._face
        return face.closed or face.node.has_reply_room(face.id, self._id, self.qos)

    def end(self) -> None:
        if not self._face.closed:
            self._face.send(ResponseFinal(self._id, self.qos & ~_EXPRESS))

    def _send(self, response: Response, eid: int) -> None:
        self._face.check_open()
        response.responder = EntityRef(self._face.node.zid, eid)
        if self.stack is not None:
            response.ts_stack = self._stamper.answered(self.stack)
        self._face.send(response)


class LocalExchange(Exchange):
    """A question of this session itself."""

    __slots__ = ("_get", "_gets", "_zid")

    def __init__(self, gets: Gets, get: PendingGet, ask: Ask) -> None:
        stack = None if ask.stack is None else gets.stamper.stamped(ask.stack)
        super().__init__(
            ask.key, ask.parameters, ask.body, ask.attachment, ask.source, ask.qos, stack
        )
        self._gets = gets
        self._get = get
        self._zid = gets.face.node.zid

    def reply(self, eid: int, key: str, body: Put | Del, *, express: bool) -> None:
        stack = None
        if self.stack is not None:
            stack = self._gets.stamper.received(self._gets.stamper.answered(self.stack))
        sample = sample_of(key, body, self.answer_qos(express=express), stack)
        self._gets.reply(self._get, Reply(result=sample, replier_id=self._entity(eid)))

    def fail(self, eid: int, err: Err) -> None:
        stack = None
        if self.stack is not None:
            stack = self._gets.stamper.received(self._gets.stamper.answered(self.stack))
        error = error_of(err, stack)
        self._gets.reply(self._get, Reply(result=error, replier_id=self._entity(eid)))

    def is_wanted(self) -> bool:
        return not self._get.ended

    def end(self) -> None:
        self._gets.finish_part(self._get)

    def _entity(self, eid: int) -> EntityGlobalId | None:
        return entity_of(EntityRef(self._zid, eid))


# Makes the object that an application gets for an exchange and the queryable it was put to.
MakeQuery = Callable[[Exchange, Answerer], object]


@dataclass(slots=True, eq=False)
class Answerers:
    """All queryables of a session."""

    face: Face
    stamper: Stamper
    make_query: MakeQuery
    _by_key: KeyGroups[Answerer] = field(default_factory=KeyGroups)
    _by_id: dict[int, Answerer] = field(default_factory=dict)

    def declare(self, answerer: Answerer) -> None:
        """From now on it is asked."""
        self._by_key.add(answerer.key, answerer)
        self._by_id[answerer.id] = answerer
        self._tell(answerer)

    def redeclare(self) -> None:
        """Tell another node of all of them."""
        for answerer in self._by_id.values():
            self._tell(answerer)

    def undeclare(self, answerer: Answerer) -> bool:
        """It is asked no more; False if it was gone already."""
        if self._by_id.pop(answerer.id, None) is None:
            return False
        self._by_key.remove(answerer.key, answerer)
        if answerer.origin is not Locality.SESSION_LOCAL and not self.face.closed:
            self.face.declare(UndeclareQueryable(answerer.id))
        return True

    def all(self) -> list[Answerer]:
        """Every queryable."""
        return list(self._by_id.values())

    def received(self, request: Request) -> None:
        """A question from the network."""
        key = self.face.own_key(request.key)
        chosen: list[Answerer] = []
        if key:
            chosen = self._choose(key, request.target, Locality.SESSION_LOCAL)
        if not key or not chosen:
            self.face.send(ResponseFinal(request.id, request.qos & ~_EXPRESS))
            return
        self._put(RemoteExchange(self.face, self.stamper, key, request), chosen)

    def ask(self, gets: Gets, get: PendingGet, ask: Ask) -> bool:
        """A question of this session; False if there is nobody to ask."""
        chosen = self._choose(ask.key, ask.target.value, Locality.REMOTE)
        if chosen:
            self._put(LocalExchange(gets, get, ask), chosen)
        return bool(chosen)

    def local_candidates(self, key: str) -> list[Answerer]:
        """Those that questions of this session reach."""
        return self._matching(key, Locality.REMOTE)

    def _tell(self, answerer: Answerer) -> None:
        if answerer.origin is not Locality.SESSION_LOCAL:
            wire_key = self.face.wire_key(answerer.key)
            self.face.declare(DeclareQueryable(answerer.id, wire_key, answerer.complete))

    def _matching(self, key: str, deaf: Locality) -> list[Answerer]:
        return [one for one in self._by_key.intersecting(key) if one.origin is not deaf]

    def _choose(self, key: str, target: int, deaf: Locality) -> list[Answerer]:
        # The best match is chosen between sessions; all queryables of the chosen one are asked.
        found = self._matching(key, deaf)
        if target != QueryTarget.ALL_COMPLETE.value:
            return found
        return [one for one in found if one.complete]

    def _put(self, exchange: Exchange, chosen: list[Answerer]) -> None:
        exchange.open_count = len(chosen)
        for answerer in chosen:
            answerer.received_count += 1
            self.face.emit(answerer.outlet, self.make_query(exchange, answerer))

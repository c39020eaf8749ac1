"""Queries of this session that are under way. behaviour.md 5.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.encoding import Encoding
from elea.errors import ClosedError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.keyexpr.match import intersects
from elea.qos import Locality
from elea.query import ConsolidationMode, QueryTarget
from elea.records import dataclass, field
from elea.sample import Reply, ReplyError, TimestampStack
from elea.selector import ANY_KEY_EXPR_KEY
from elea.session.deliver import sample_of
from elea.session.face import Face, Timer
from elea.session.outlet import END, Outlet
from elea.session.replies import Consolidator, resolve
from elea.session.stack import Stamper
from elea.wire.data.error import Err
from elea.wire.data.query import Query, QueryBody
from elea.wire.fields import QOS_REQUEST
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.shared_extensions import EntityRef, SourceRef
from elea.wire.shared_extensions import TimestampStack as WireStack
from elea.zbytes import ZBytes

TIMEOUT_ERROR: Final = Reply(
    result=ReplyError(payload=ZBytes("Timeout"), encoding=Encoding.ZENOH_STRING)
)


@dataclass(slots=True, kw_only=True)
class Ask:
    """What one `get` asks, and how."""

    key: str
    parameters: str = ""
    target: QueryTarget = QueryTarget.BEST_MATCHING
    consolidation: ConsolidationMode = ConsolidationMode.AUTO
    destination: Locality = Locality.ANY
    timeout_ns: int
    qos: int = QOS_REQUEST
    body: QueryBody | None = None
    attachment: bytes | None = None
    source: SourceRef | None = None
    stack: WireStack | None = None

    @property
    def any_key(self) -> bool:
        """Whether replies may have any key."""
        return has_any_key(self.parameters)


def has_any_key(parameters: str) -> bool:
    """Whether these parameters let replies have any key."""
    return any(pair.partition("=")[0] == ANY_KEY_EXPR_KEY for pair in parameters.split(";"))


class PendingGet:
    """A query that is not finished. It has parts: this session's queryables, and the network."""

    __slots__ = (
        "any_key",
        "consolidator",
        "ended",
        "id",
        "key",
        "on_end",
        "outlet",
        "part_count",
        "timer",
    )

    def __init__(self, id: int, ask: Ask, mode: ConsolidationMode, outlet: Outlet) -> None:
        self.id = id
        self.key = ask.key
        self.any_key = ask.any_key
        self.consolidator = Consolidator(mode)
        self.outlet = outlet
        self.part_count = 0
        self.ended = False
        self.timer: Timer | None = None
        self.on_end: list[Callable[[], None]] = []


# Asks the queryables of this session; answers whether there are any.
AskLocal = Callable[[PendingGet, Ask], bool]


@dataclass(slots=True, eq=False)
class Gets:
    """All queries of a session that are under way."""

    face: Face
    stamper: Stamper
    ask_local: AskLocal
    _pending: dict[int, PendingGet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.face.keep_ids(self._pending.keys)

    def start(self, ask: Ask, outlet: Outlet) -> PendingGet:
        """Ask; replies go to `outlet`, and END after the last."""
        mode = resolve(ask.consolidation, ask.parameters)
        get = PendingGet(self.face.new_id(), ask, mode, outlet)
        self._pending[get.id] = get
        get.part_count = 1  # until everybody was asked, so that a quick answer does not end it
        get.timer = self.face.call_after(ask.timeout_ns, lambda: self._expire(get))
        if ask.destination is not Locality.REMOTE and self.ask_local(get, ask):
            get.part_count += 1
        if ask.destination is not Locality.SESSION_LOCAL:
            get.part_count += 1
            self.face.send(self._request(get.id, ask, mode))
        self.finish_part(get)
        return get

    def received(self, response: Response) -> None:
        """A reply from the network."""
        get = self._pending.get(response.id)
        if get is None:
            return
        stack = None if response.ts_stack is None else self.stamper.received(response.ts_stack)
        responder = entity_of(response.responder)
        if isinstance(response.body, Err):
            self.reply(get, Reply(result=error_of(response.body, stack), replier_id=responder))
            return
        key = self.face.own_key(response.key)
        if key:
            sample = sample_of(key, response.body.body, response.qos, stack)
            self.reply(get, Reply(result=sample, replier_id=responder))

    def finished(self, final: ResponseFinal) -> None:
        """The network has no more replies."""
        get = self._pending.get(final.id)
        if get is not None:
            self.finish_part(get)

    def reply(self, get: PendingGet, reply: Reply) -> None:
        """One reply, from anywhere."""
        if get.id not in self._pending:
            return
        sample = reply.ok
        if sample is not None and not get.any_key and not intersects(sample.key_text, get.key):
            return
        due = get.consolidator.add(reply)
        if due is not None:
            self.face.emit(get.outlet, due)

    def finish_part(self, get: PendingGet) -> None:
        """One part has no more replies; the last one ends the query."""
        get.part_count -= 1
        if get.part_count == 0:
            self.end(get)

    def end(self, get: PendingGet, error: Reply | None = None) -> None:
        """End the query now, if it has not ended."""
        if self._pending.pop(get.id, None) is None:
            return
        get.ended = True
        if get.timer is not None:
            get.timer.cancel()
        for reply in get.consolidator.rest():
            self.face.emit(get.outlet, reply)
        if error is not None:
            self.face.emit(get.outlet, error)
        self.face.emit(get.outlet, END)
        for function in get.on_end:
            function()
        get.on_end.clear()

    def cancel(self, get: PendingGet) -> None:
        """End the query without what was held back."""
        get.consolidator.rest()
        self.end(get)

    def close(self) -> None:
        """End all queries."""
        for get in list(self._pending.values()):
            self.cancel(get)

    def _expire(self, get: PendingGet) -> None:
        self.end(get, TIMEOUT_ERROR)

    def _request(self, id: int, ask: Ask, mode: ConsolidationMode) -> Request:
        query = Query(mode.value, ask.parameters, ask.body, ask.attachment, ask.source)
        return Request(
            id,
            self.face.wire_key(ask.key),
            query,
            qos=ask.qos,
            target=ask.target.value,
            timeout_ms=max(1, ask.timeout_ns // 1_000_000),
            ts_stack=ask.stack,
        )


def entity_of(ref: EntityRef | None) -> EntityGlobalId | None:
    """A responder as applications see it."""
    return None if ref is None else EntityGlobalId(ZenohId(ref.zid), EntityId(ref.eid))


def error_of(err: Err, stack: TimestampStack | None) -> ReplyError:
    """An ERR as applications see it."""
    encoding = Encoding.ZENOH_BYTES
    if err.encoding is not None:
        encoding = Encoding.from_parts(err.encoding.id, err.encoding.schema or None)
    return ReplyError(payload=ZBytes(err.payload), encoding=encoding, timestamp_stack=stack)


def cancelled() -> ClosedError:
    """What a `get` with a token that was cancelled before raises."""
    return ClosedError("Query was cancelled")

"""Query: a question put to a queryable, and the way to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Self, final

from elea.encoding import Encoding
from elea.errors import ClosedError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.parameters import Parameters
from elea.provenance import SourceInfo, TimestampStack
from elea.qos import CongestionControl, Priority
from elea.query import ReplyKeyExpr
from elea.selector import Selector
from elea.session.context import Context
from elea.session.convert import (
    IntoEncoding,
    IntoKeyExpr,
    IntoZBytes,
    key_text,
    octets,
    octets_or_none,
    wire_encoding,
    wire_source,
    wire_stamp,
)
from elea.session.handlers import Finishing
from elea.session.queries import has_any_key
from elea.session.queryables import Answerer, Exchange, MakeQuery
from elea.session.stack import read_stack
from elea.timestamp import Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.zbytes import ZBytes


@final
class Query(Finishing):
    """A question. It is finished by `drop`, by `with`, or when nobody refers to it any more.

    Until then the one who asked waits for more answers.
    """

    __slots__ = ("_context", "_dropped", "_eid", "_exchange")

    def __init__(self, context: Context, exchange: Exchange, eid: int) -> None:
        self._context = context
        self._exchange = exchange
        self._eid = eid
        self._dropped = False

    def __reduce__(self) -> NoReturn:
        # A copy that goes would finish the question for the one who still answers it.
        raise TypeError("a query is neither copied nor pickled; pass it on as it is")

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, *_args: object, **_kwargs: object) -> None:
        self.drop()

    @property
    def selector(self) -> Selector:
        """What is asked for, whole."""
        exchange = self._check()
        return Selector(KeyExpr._trusted(exchange.key), exchange.parameters)

    @property
    def key_expr(self) -> KeyExpr:
        """The key that is asked for."""
        return KeyExpr._trusted(self._check().key)

    @property
    def parameters(self) -> Parameters:
        """The parameters of what is asked for."""
        return Parameters(self._check().parameters)

    @property
    def payload(self) -> ZBytes | None:
        """The value the question carries."""
        body = self._check().body
        return None if body is None else ZBytes(body.payload)

    @property
    def encoding(self) -> Encoding | None:
        """How that value is to be read."""
        body = self._check().body
        if body is None:
            return None
        return Encoding.from_parts(body.encoding.id, body.encoding.schema or None)

    @property
    def attachment(self) -> ZBytes | None:
        """What the one who asks attached."""
        attachment = self._check().attachment
        return None if attachment is None else ZBytes(attachment)

    @property
    def source_info(self) -> SourceInfo | None:
        """Who asks, if it says so."""
        source = self._check().source
        if source is None:
            return None
        return SourceInfo(EntityGlobalId(ZenohId(source.zid), EntityId(source.eid)), source.sn)

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """The points the question passed, if it was instrumented."""
        stack = self._check().stack
        return None if stack is None else read_stack(stack)

    def accepts_replies(self, /) -> ReplyKeyExpr:
        """Which keys answers may have."""
        if has_any_key(self._check().parameters):
            return ReplyKeyExpr.ANY
        return ReplyKeyExpr.MATCHING_QUERY

    @property
    def asker(self) -> str:
        """The one who asks, as far as this node knows: to share what is scarce between askers.

        A user or certificate that the neighbour proved, else its address, else its session. All
        that ask through another router are that router.
        """
        return self._context.read(self._exchange.asker)

    def is_wanted(self) -> bool:
        """Whether the one who asked still waits: it has neither left nor lost patience.

        Further away than the next router that can only be seen when the time it gave is over.
        """
        return not self._dropped and self._context.read(self._exchange.is_wanted)

    def wait_room(self, timeout: float = 5.0) -> bool:
        """Between many answers: wait until those before have left; False if they did not in time.

        Not for callbacks on an event loop, which it would hold up.
        """
        context, has_room = self._context, self._exchange.has_room
        if context.read(has_room):
            return True
        deadline_ns = context.driver.now_ns() + int(timeout * 1e9)
        return context.driver.wait_room(has_room, deadline_ns)

    def reply(
        self,
        /,
        key_expr: IntoKeyExpr,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Answer with a value. Priority and congestion control are the question's.

        Raises:
            InvalidValueError: the key does not intersect the one that is asked for.
            ClosedError: the query was dropped, or the session is closed.
        """
        body = Put(
            octets(payload),
            wire_stamp(timestamp),
            wire_encoding(encoding),
            octets_or_none(attachment),
            wire_source(source_info),
        )
        self.answer(key_expr, body, express=bool(express))

    def reply_del(
        self,
        /,
        key_expr: IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Answer that a key has no value any more; raises as `reply`."""
        source = wire_source(source_info)
        body = Del(wire_stamp(timestamp), octets_or_none(attachment), source)
        self.answer(key_expr, body, express=bool(express))

    def reply_err(self, /, payload: IntoZBytes, *, encoding: IntoEncoding | None = None) -> None:
        """Answer that the question cannot be served.

        Raises:
            ClosedError: the query was dropped, or the session is closed.
        """
        exchange = self._check()
        err = Err(octets(payload), wire_encoding(encoding))
        self._context.call(lambda: exchange.fail(self._eid, err))

    def drop(self, /) -> None:
        """No more answers; again is no error."""
        if not self._dropped:
            self._dropped = True
            self._context.call(self._exchange.finish)

    def answer(self, key_expr: IntoKeyExpr, body: Put | Del, *, express: bool) -> None:
        """Answer with what travels; `reply` and `reply_del` are for applications."""
        exchange = self._check()
        key = key_text(key_expr)
        exchange.check_key(key)
        self._context.call(lambda: exchange.reply(self._eid, key, body, express=express))

    def _check(self) -> Exchange:
        if self._dropped:
            raise ClosedError("Dropped query")
        return self._exchange

    def __del__(self) -> None:
        if not getattr(self, "_dropped", True):
            self._dropped = True
            self._context.later(self._exchange.finish)

    def __str__(self) -> str:
        return f"Query({str(self.selector)!r})"

    __repr__ = __str__


def answer_last(answers: Sequence[tuple[Query, str, bytes]], encoding: Encoding) -> None:
    """Give queries of one session each its only answer, and finish them: one write for all.

    Raises:
        ClosedError: the session is closed.
    """
    written = wire_encoding(encoding)

    def act() -> None:
        for query, key, payload in answers:
            if not query._dropped:
                query._dropped = True
                body = Put(payload, None, written)
                query._exchange.reply(query._eid, key, body, express=False)
                query._exchange.finish()

    if answers:
        answers[0][0]._context.call(act)


def query_maker(context: Context) -> MakeQuery:
    """Makes the queries of one session."""

    def make(exchange: Exchange, answerer: Answerer) -> Query:
        return Query(context, exchange, answerer.id)

    return make

"""Querier: asks on one key, again and again."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Self, Unpack, final, overload

from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.query import ConsolidationMode, ReplyKeyExpr
from elea.sample import Reply
from elea.session.cancellation import CancellationToken
from elea.session.context import Context, Declared
from elea.session.convert import (
    IntoEncoding,
    IntoParameters,
    IntoZBytes,
    checked,
    octets,
    octets_or_none,
    parameters_text,
    wire_encoding,
    wire_source,
)
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    Delivery,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.listeners import MatchingListener, listen_to_matches
from elea.session.matching import MatchingStatus, Writer
from elea.session.queries import Ask
from elea.wire.data.query import QueryBody
from elea.wire.fields import WireEncoding

if TYPE_CHECKING:
    from elea.session.options import QueryOptions


def ask_for(
    context: Context,
    ask: Ask,
    handler: AnyHandler[Reply],
    *,
    token: CancellationToken | None,
    instrumentation: TimestampInstrumentation | None,
) -> object:
    """Start a query; what the caller reads replies from is returned."""
    if token is not None:
        checked("cancellation_token", token, CancellationToken)._check()
    delivery = Delivery(handler, context.pressure)
    core = context.core

    def start() -> None:
        ask.stack = core.stamper.sent(instrumentation)
        get = core.get(ask, delivery.outlet)
        if token is not None:
            token._watch(context, get)

    context.call(start)
    return delivery.handler


def query_body(payload: IntoZBytes | None, encoding: IntoEncoding | None) -> QueryBody | None:
    """The value a query carries; an encoding alone goes with an empty one."""
    if payload is None and encoding is None:
        return None
    return QueryBody(
        wire_encoding(encoding) or WireEncoding(0), b"" if payload is None else octets(payload)
    )


@final
class Querier(Declared):
    """Asks on one key; undeclared when nobody refers to it."""

    __slots__ = ("_accept", "_consolidation", "_qos", "_timeout_ns", "_writer")

    _kind = "querier"

    # As in zenoh-python, where programs write `Querier[...]` in annotations.
    @classmethod
    def __class_getitem__(cls, item: object, /) -> GenericAlias:
        return GenericAlias(cls, item)

    def __init__(
        self,
        context: Context,
        writer: Writer,
        *,
        accept: ReplyKeyExpr,
        consolidation: ConsolidationMode,
        qos: int,
        timeout_ns: int,
    ) -> None:
        super().__init__(context)
        self._writer = writer
        self._accept = accept
        self._consolidation = consolidation
        self._qos = qos
        self._timeout_ns = timeout_ns

    def __enter__(self) -> Self:
        return self

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        self._check()
        return self._context.entity(self._writer.id)

    @property
    def key_expr(self) -> KeyExpr:
        """The key it asks on."""
        self._check()
        return KeyExpr._trusted(self._writer.key)

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        """Which keys replies may have."""
        self._check()
        return self._accept

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are queryables for its key."""
        self._check()
        context = self._context
        return context.read(lambda: context.core.writers.status(self._writer))

    @overload
    def get(
        self,
        /,
        handler: BuiltinHandler[Reply] | None = None,
        *,
        parameters: IntoParameters | None = None,
        **options: Unpack[QueryOptions],
    ) -> Handler[Reply]: ...
    @overload
    def get(
        self,
        /,
        handler: PythonHandler[Reply, H],
        *,
        parameters: IntoParameters | None = None,
        **options: Unpack[QueryOptions],
    ) -> H: ...
    @overload
    def get(
        self,
        /,
        handler: PythonCallback[Reply],
        *,
        parameters: IntoParameters | None = None,
        **options: Unpack[QueryOptions],
    ) -> None: ...
    def get(
        self,
        /,
        handler: AnyHandler[Reply] = None,
        *,
        parameters: IntoParameters | None = None,
        payload: IntoZBytes | None = None,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> object:
        """Ask; replies go to the handler.

        Raises:
            ClosedError: the querier or its session is gone, or the token was cancelled.
        """
        self._check()
        ask = Ask(
            key=self._writer.key,
            parameters=parameters_text(parameters, self._accept),
            target=self._writer.target,
            consolidation=self._consolidation,
            destination=self._writer.destination,
            timeout_ns=self._timeout_ns,
            qos=self._qos,
            body=query_body(payload, encoding),
            attachment=octets_or_none(attachment),
            source=wire_source(source_info),
        )
        return ask_for(
            self._context,
            ask,
            handler,
            token=cancellation_token,
            instrumentation=timestamp_instrumentation,
        )

    @overload
    def declare_matching_listener(
        self, /, handler: BuiltinHandler[MatchingStatus] | None = None
    ) -> MatchingListener[Handler[MatchingStatus]]: ...
    @overload
    def declare_matching_listener(
        self, /, handler: PythonHandler[MatchingStatus, H]
    ) -> MatchingListener[H]: ...
    @overload
    def declare_matching_listener(
        self, /, handler: PythonCallback[MatchingStatus]
    ) -> MatchingListener[None]: ...
    def declare_matching_listener(
        self, /, handler: AnyHandler[MatchingStatus] = None
    ) -> MatchingListener[object]:
        """Be told when the first queryable for its key comes and when the last goes."""
        self._check()
        return listen_to_matches(self._context, self._writer, handler)

    def _end(self) -> None:
        self._context.core.undeclare_writer(self._writer)

    def __repr__(self) -> str:
        return f"Querier({self._writer.key!r})"

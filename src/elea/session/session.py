"""Session and open(): the verbs of the data space, as zenoh-python names them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, Unpack, final, overload

from elea.config.config import Config
from elea.encoding import Encoding
from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.qos import CongestionControl, Locality, Priority, Reliability
from elea.query import QueryTarget, ReplyKeyExpr
from elea.sample import Reply, Sample
from elea.session import runtime
from elea.session.batches import ArrowBatches, sample_delivery
from elea.session.cancellation import CancellationToken
from elea.session.context import Context, Declared
from elea.session.convert import (
    IntoEncoding,
    IntoKeyExpr,
    IntoQueryConsolidation,
    IntoSelector,
    IntoZBytes,
    accepting,
    checked_or,
    consolidation_mode,
    encoding_of,
    key_text,
    nanoseconds,
    octets_or_none,
    qos_octet,
    selector_parts,
    wire_source,
)
from elea.session.face import SESSION_EID
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    Delivery,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.info import SessionInfo
from elea.session.interests import QUERYABLES, SUBSCRIBERS
from elea.session.liveliness import Liveliness
from elea.session.matching import Writer
from elea.session.ports import DriverPort
from elea.session.publication import Publication
from elea.session.publisher import Publisher
from elea.session.querier import Querier, ask_for, query_body
from elea.session.queries import Ask
from elea.session.query import Query, query_maker
from elea.session.queryable import Queryable
from elea.session.settings import IntoConfig, child_config, config_of, settings_of
from elea.session.stack import TimestampCallback
from elea.session.subscriber import Subscriber, subscribe
from elea.timestamp import NTP64, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from elea.session.options import GetOptions, SubscriberOptions
    from elea.session.since import IntoSince

_LOGGER: Final = logging.getLogger("elea.session")


@final
class Session(Publication):
    """The connection of a program to the data space. Closed when nobody refers to it."""

    __slots__ = ("__weakref__", "_config", "_context", "_prefix")

    def __init__(
        self,
        config: Config,
        driver: DriverPort,
        *,
        timestamp_callback: TimestampCallback | None = None,
        reopen: Callable[[], DriverPort] | None = None,
    ) -> None:
        self._config = config
        self._context = Context(
            driver, settings_of(config), query_maker, timestamp_callback, reopen
        )
        self._prefix = self._context.core.face.prefix
        _LOGGER.debug("session open: %s %s", config.mode, self._context.zid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object, **_kwargs: object) -> None:
        self.close()

    @property
    def info(self) -> SessionInfo:
        """Who it is, and who it is connected to."""
        return SessionInfo(self._context)

    @property
    def id(self) -> EntityGlobalId:
        """The identity of the session itself."""
        return self._context.entity(SESSION_EID)

    @property
    def config(self) -> Config:
        """The configuration it was opened with."""
        return self._config

    def zid(self, /) -> ZenohId:
        """The identity of its node."""
        return self._context.zid

    def close(self, /) -> None:
        """Undeclare everything, write what is pending, close all links. Again is no error."""
        if not self._context.closed:
            _LOGGER.debug("session closes: %s", self._context.zid)
        self._context.close()

    def is_closed(self, /) -> bool:
        """Whether it is closed."""
        return self._context.closed

    def undeclare(self, /, obj: IntoKeyExpr | Declared) -> None:
        """Undeclare a key, or anything else that was declared.

        Raises:
            InvalidValueError: the key was not declared.
        """
        if isinstance(obj, Declared):
            obj.undeclare()
            return
        key = key_text(obj)
        if not self._context.call(lambda: self._context.core.keys.undeclare(key)):
            raise InvalidValueError(
                "declared key", f"{key!a}; undeclare what `declare_keyexpr` gave, and only once"
            )

    def new_timestamp(self, /) -> Timestamp:
        """A new timestamp of the node's clock, greater than every one before."""
        stamp = self._context.read(self._context.core.face.stamp)
        return Timestamp(NTP64.from_value(stamp.time), stamp.id)

    def declare_keyexpr(self, /, key_expr: IntoKeyExpr) -> KeyExpr:
        """Say that a key will be used often: it travels as a number of two octets from now on.

        A key with wildcards does so up to its first one. What is in a queue keeps its text.

        Raises:
            ClosedError: the session is closed.
        """
        key = key_text(key_expr)
        self._context.call(lambda: self._context.core.keys.declare(key))
        return KeyExpr._trusted(key)

    @overload
    def get(
        self,
        /,
        selector: IntoSelector,
        handler: BuiltinHandler[Reply] | None = None,
        **options: Unpack[GetOptions],
    ) -> Handler[Reply]: ...
    @overload
    def get(
        self,
        /,
        selector: IntoSelector,
        handler: PythonHandler[Reply, H],
        **options: Unpack[GetOptions],
    ) -> H: ...
    @overload
    def get(
        self,
        /,
        selector: IntoSelector,
        handler: PythonCallback[Reply],
        **options: Unpack[GetOptions],
    ) -> None: ...
    def get(
        self,
        /,
        selector: IntoSelector,
        handler: AnyHandler[Reply] = None,
        *,
        target: QueryTarget | None = None,
        consolidation: IntoQueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: IntoZBytes | None = None,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> object:
        """Ask queryables; replies go to the handler, which ends after the last.

        A query that is not answered in time ends with an error reply.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed, or the token was cancelled.
        """
        key, parameters = selector_parts(selector)
        accept = checked_or(
            "accept_replies", accept_replies, ReplyKeyExpr, ReplyKeyExpr.MATCHING_QUERY
        )
        face = self._context.core.face
        ask = Ask(
            key=key,
            parameters=accepting(parameters, accept),
            target=checked_or("target", target, QueryTarget, QueryTarget.BEST_MATCHING),
            consolidation=consolidation_mode(consolidation),
            destination=_locality("allowed_destination", allowed_destination),
            timeout_ns=nanoseconds("timeout", timeout, face.settings.query_timeout_ns),
            qos=qos_octet(priority, congestion_control, express, CongestionControl.BLOCK),
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
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: BuiltinHandler[Sample] | None = None,
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: ArrowBatches,
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber[Handler[pa.RecordBatch]]: ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonHandler[Sample, H],
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber[H]: ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonCallback[Sample],
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber[None]: ...
    def declare_subscriber(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: AnyHandler[Sample] | ArrowBatches = None,
        *,
        allowed_origin: Locality | None = None,
        since: IntoSince | None = None,
    ) -> Subscriber[object]:
        """Receive the samples of keys that intersect this one.

        Args:
            key_expr: The key.
            handler: What receives them.
            allowed_origin: Whose samples.
            since: First what was published since a time, as "-10m", as far as a historian has it.

        Raises:
            KeyExprError: the key is none.
            InvalidValueError: `since` is no time.
            ClosedError: the session is closed.
        """
        key = key_text(key_expr)
        origin = _locality("allowed_origin", allowed_origin)
        delivery = sample_delivery(self._context, handler)
        return subscribe(self._context, key, delivery, origin, since)

    @overload
    def declare_queryable(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: BuiltinHandler[Query] | None = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Handler[Query]]: ...
    @overload
    def declare_queryable(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonHandler[Query, H],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[H]: ...
    @overload
    def declare_queryable(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: PythonCallback[Query],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[None]: ...
    def declare_queryable(
        self,
        /,
        key_expr: IntoKeyExpr,
        handler: AnyHandler[Query] = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[object]:
        """Answer queries on keys that intersect this one.

        Args:
            key_expr: The key.
            handler: What receives the queries.
            complete: Whether it knows all there is to know of its key.
            allowed_origin: Whose queries it is asked.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
        """
        key = key_text(key_expr)
        origin = _locality("allowed_origin", allowed_origin)
        whole = checked_or("complete", complete, bool, False)
        context = self._context
        delivery = Delivery(handler, context.pressure)

        def declare() -> Queryable[object]:
            answerer = context.core.declare_answerer(
                key, delivery.outlet, complete=whole, origin=origin
            )
            return Queryable(context, delivery, answerer)

        return context.call(declare)

    def declare_publisher(
        self,
        /,
        key_expr: IntoKeyExpr,
        *,
        encoding: IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Prepare to publish on one key again and again.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
        """
        known = Encoding.ZENOH_BYTES if encoding is None else encoding_of(encoding)
        qos = qos_octet(priority, congestion_control, express)
        asked = checked_or("reliability", reliability, Reliability, Reliability.RELIABLE)
        reliable = asked is Reliability.RELIABLE
        overwrite = self._context.core.face.settings.publication.find(key_text(key_expr))
        if overwrite is not None:
            qos = overwrite.octet(qos)
            reliable = reliable if overwrite.reliable is None else overwrite.reliable
            allowed_destination = overwrite.destination or allowed_destination
        writer = self._declare_writer(key_expr, SUBSCRIBERS, allowed_destination)
        return Publisher(self._context, writer, encoding=known, qos=qos, reliable=reliable)

    def declare_querier(
        self,
        /,
        key_expr: IntoKeyExpr,
        *,
        target: QueryTarget | None = None,
        consolidation: IntoQueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
    ) -> Querier:
        """Prepare to ask on one key again and again.

        Raises:
            KeyExprError: the key is none.
            ClosedError: the session is closed.
        """
        face = self._context.core.face
        accept = checked_or(
            "accept_replies", accept_replies, ReplyKeyExpr, ReplyKeyExpr.MATCHING_QUERY
        )
        mode = consolidation_mode(consolidation)
        timeout_ns = nanoseconds("timeout", timeout, face.settings.query_timeout_ns)
        qos = qos_octet(priority, congestion_control, express, CongestionControl.BLOCK)
        chosen = checked_or("target", target, QueryTarget, QueryTarget.BEST_MATCHING)
        writer = self._declare_writer(key_expr, QUERYABLES, allowed_destination, chosen)
        return Querier(
            self._context,
            writer,
            accept=accept,
            consolidation=mode,
            qos=qos,
            timeout_ns=timeout_ns,
        )

    def liveliness(self, /) -> Liveliness:
        """Tokens, and who watches them."""
        return Liveliness(self._context)

    def _declare_writer(
        self,
        key_expr: IntoKeyExpr,
        options: int,
        allowed_destination: Locality | None,
        target: QueryTarget = QueryTarget.BEST_MATCHING,
    ) -> Writer:
        key = key_text(key_expr)
        destination = _locality("allowed_destination", allowed_destination)
        core = self._context.core

        def declare() -> Writer:
            core.face.check_open()
            writer = Writer(core.face.new_id(), key, options, destination, target)
            core.writers.declare(writer)
            return writer

        return self._context.call(declare)

    def __del__(self) -> None:
        context: Context | None = getattr(self, "_context", None)
        if context is not None:
            context.close_from_finaliser()

    def __reduce__(self) -> tuple[Callable[[Config], Session], tuple[Config]]:
        """A session is pickled as its configuration: another one is opened where it arrives."""
        return open, (child_config(self._config),)

    def __repr__(self) -> str:
        return f"Session({str(self._context.zid)!r})"


def open(
    config: IntoConfig | None = None,
    *,
    timestamp_callback: TimestampCallback | None = None,
) -> Session:
    """Open a session.

    Args:
        config: A `Config`, a mapping with the same layout, or the path of a file; none is a peer
            with default settings.
        timestamp_callback: Makes the records of instrumented messages, in place of the clock.

    Raises:
        ConfigError: the configuration cannot be used.
        LinkError: no connection that must be made could be made.
    """
    chosen = config_of(config)
    driver = runtime.open_driver(chosen)
    session = Session(
        chosen,
        driver,
        timestamp_callback=timestamp_callback,
        reopen=lambda: runtime.open_driver(child_config(chosen)),
    )
    runtime.describe(session, driver)
    return session


def _locality(name: str, value: Locality | None) -> Locality:
    return checked_or(name, value, Locality, Locality.ANY)

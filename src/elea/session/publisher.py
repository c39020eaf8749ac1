"""Publisher: sends samples on one key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self, Unpack, final, overload

from elea.encoding import Encoding
from elea.fast.egress import Origin as Origin  # of samples that the caller numbers
from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.qos import CongestionControl, Locality, Priority, QoS, Reliability
from elea.records import dataclass
from elea.session.context import Context, Declared
from elea.session.convert import (
    IntoEncoding,
    IntoZBytes,
    octets,
    octets_or_none,
    wire_encoding,
    wire_source,
    wire_stamp,
    without_drops,
)
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.listeners import MatchingListener, listen_to_matches
from elea.session.matching import MatchingStatus, Writer
from elea.session.promise import Promise
from elea.session.publish import Lane
from elea.timestamp import Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put import Put

# What is imported from `ack` below is imported late: few programs put with `ack`.
if TYPE_CHECKING:
    from elea.session.ack import Ack, StoredAck
    from elea.session.options import PublicationOptions


@dataclass(frozen=True, slots=True)
class PublisherStats:
    """What became of the samples of a publisher at this node."""

    sent_count: int
    dropped_count: int  # a queue was full


@final
class Publisher(Declared):
    """Sends samples on one key; undeclared when nobody refers to it.

    Example:
        >>> from elea.session.session import Session
        >>> Session.declare_publisher.__name__
        'declare_publisher'
    """

    __slots__ = ("_encoding", "_lane", "_writer")

    _kind = "publisher"

    def __init__(
        self, context: Context, writer: Writer, *, encoding: Encoding, qos: int, reliable: bool
    ) -> None:
        super().__init__(context)
        self._writer = writer
        self._encoding = encoding
        core = context.core
        self._lane = Lane(
            core.outbox,
            writer.key,
            core.face.wire_key(writer.key),
            wire_encoding(encoding),
            qos,
            reliable,
            writer.destination is not Locality.REMOTE,
            writer.destination is not Locality.SESSION_LOCAL,
        )

    def __enter__(self) -> Self:
        return self

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        self._check()
        return self._context.entity(self._writer.id)

    @property
    def key_expr(self) -> KeyExpr:
        """The key it publishes on."""
        self._check()
        return KeyExpr._trusted(self._writer.key)

    @property
    def encoding(self) -> Encoding:
        """How its payloads are to be read, unless a `put` says otherwise."""
        self._check()
        return self._encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """What happens to its samples where a queue is full."""
        self._check()
        return QoS.from_octet(self._lane.qos).congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
        self._check()
        return QoS.from_octet(self._lane.qos).priority

    @property
    def reliability(self) -> Reliability:
        """Whether lost samples are repaired on the way."""
        self._check()
        return Reliability.RELIABLE if self._lane.reliable else Reliability.BEST_EFFORT

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are subscribers for its key."""
        self._check()
        context = self._context
        return context.read(lambda: context.core.writers.status(self._writer))

    @property
    def stats(self) -> PublisherStats:
        """What became of its samples."""
        return PublisherStats(self._lane.sent_count, self._lane.dropped_count)

    @overload
    def put(
        self,
        /,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: None = None,
        **options: Unpack[PublicationOptions],
    ) -> None: ...
    @overload
    def put(
        self,
        /,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        ack: Ack,
        timeout: float | None = None,
        **options: Unpack[PublicationOptions],
    ) -> StoredAck: ...
    def put(
        self,
        /,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> StoredAck | None:
        """Publish a value; `ack` and `timeout`, and what they raise, are those of `Session.put`.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        if self._gone:
            self._check()
        if (
            encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
            and ack is None
            and timeout is None
        ):
            self._lane.put(payload if type(payload) is bytes else octets(payload))
            return None
        body = Put(
            octets(payload),
            wire_stamp(timestamp),
            self._lane.encoding if encoding is None else wire_encoding(encoding),
            octets_or_none(attachment),
            wire_source(source_info),
        )
        if ack is not None or timeout is not None:
            from elea.session.ack import finish

            return finish(
                self._context, self.send_stored(body, timestamp_instrumentation, ack, timeout)
            )
        self.send(body, timestamp_instrumentation)
        return None

    def put_many(self, payloads: Iterable[IntoZBytes]) -> None:
        """Publish one value after the other; several times as fast as a `put` for each.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        self._check()
        self._lane.put_many([one if type(one) is bytes else octets(one) for one in payloads])

    def try_put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """Publish a value if there is room for it now; False, and nothing sent, if not.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        self._check()
        lane = self._lane
        return lane.try_send(
            Put(
                octets(payload),
                wire_stamp(timestamp),
                lane.encoding if encoding is None else wire_encoding(encoding),
                octets_or_none(attachment),
                wire_source(source_info),
            )
        )

    def try_put_many(
        self,
        payloads: list[bytes],
        times: list[int],
        clock: bytes,
        origin: Origin | None = None,
        start: int = 0,
    ) -> int:
        """Publish values while there is room for them; where it stopped. Never waits.

        Args:
            payloads: The values, in order.
            times: The NTP64 times of their timestamps; 0: the node's own time.
            clock: The id in these timestamps.
            origin: Numbers them, if given.
            start: The first one to publish.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        self._check()
        return self._lane.try_many(payloads, times, clock, origin, start)

    def try_delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """Publish the end of the key's value if there is room for it now; False if not.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        self._check()
        source = wire_source(source_info)
        return self._lane.try_send(Del(wire_stamp(timestamp), octets_or_none(attachment), source))

    @overload
    def delete(self, /, *, ack: None = None, **options: Unpack[PublicationOptions]) -> None: ...
    @overload
    def delete(
        self, /, *, ack: Ack, timeout: float | None = None, **options: Unpack[PublicationOptions]
    ) -> StoredAck: ...
    def delete(
        self,
        /,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> StoredAck | None:
        """Publish the end of the key's value; `ack` and `timeout` as of `Session.put`.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        source = wire_source(source_info)
        body = Del(wire_stamp(timestamp), octets_or_none(attachment), source)
        if ack is not None or timeout is not None:
            from elea.session.ack import finish

            return finish(
                self._context, self.send_stored(body, timestamp_instrumentation, ack, timeout)
            )
        self.send(body, timestamp_instrumentation)
        return None

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
        """Be told when the first subscriber for its key comes and when the last goes."""
        self._check()
        return listen_to_matches(self._context, self._writer, handler)

    def send(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        """Publish what travels; `put` and `delete` are for applications."""
        self._check()
        self._lane.send(body, self._context.instrument(instrumentation))

    def send_stored(
        self,
        body: Put | Del,
        instrumentation: TimestampInstrumentation | None,
        ack: object,
        timeout: float | None,
    ) -> Promise[StoredAck]:
        """The same with an acknowledgement."""
        from elea.session.ack import begin

        self._check()
        lane = self._lane
        future = begin(
            self._context,
            lane.key,
            body,
            without_drops(lane.qos),
            destination=self._writer.destination,
            stack=self._context.instrument(instrumentation),
            ack=ack,
            timeout=timeout,
        )
        lane.sent_count += 1
        return future

    def begin_stored(
        self,
        payload: IntoZBytes | None,
        encoding: IntoEncoding | None,
        options: PublicationOptions,
        ack: object,
        timeout: float | None,
    ) -> Promise[StoredAck]:
        """`put` and, without a payload, `delete` with an acknowledgement, for event loops."""
        stamp, source = wire_stamp(options.get("timestamp")), options.get("source_info")
        attachment = octets_or_none(options.get("attachment"))
        body: Put | Del
        if payload is None:
            body = Del(stamp, attachment, wire_source(source))
        else:
            known = self._lane.encoding if encoding is None else wire_encoding(encoding)
            body = Put(octets(payload), stamp, known, attachment, wire_source(source))
        return self.send_stored(body, options.get("timestamp_instrumentation"), ack, timeout)

    def _end(self) -> None:
        self._context.core.undeclare_writer(self._writer)

    def __repr__(self) -> str:
        return f"Publisher({self._writer.key!r})"

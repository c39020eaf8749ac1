"""Publisher: sends samples on one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self, final, overload

from elea.encoding import Encoding
from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo, TimestampInstrumentation
from elea.qos import CongestionControl, Priority, QoS, Reliability
from elea.session.context import Context, Declared
from elea.session.convert import (
    IntoEncoding,
    IntoZBytes,
    octets,
    octets_or_none,
    wire_encoding,
    wire_source,
    wire_stamp,
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
from elea.session.ports import DROPPED, NOT_PLAIN
from elea.timestamp import Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put_hot import Put

_QOS_EXPRESS: Final = 0x10


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

    __slots__ = (
        "_destination",
        "_dropped_count",
        "_encoding",
        "_express",
        "_key",
        "_publication",
        "_qos",
        "_reliable",
        "_sent_count",
        "_wire_encoding",
        "_wire_key",
        "_writer",
    )

    _kind = "publisher"

    def __init__(
        self, context: Context, writer: Writer, *, encoding: Encoding, qos: int, reliable: bool
    ) -> None:
        super().__init__(context)
        self._writer = writer
        self._key = writer.key
        self._wire_key = context.core.face.wire_key(writer.key)
        self._encoding = encoding
        self._wire_encoding = wire_encoding(encoding)
        self._qos = qos
        self._reliable = reliable
        self._destination = writer.destination
        self._sent_count = 0
        self._dropped_count = 0
        self._express = bool(qos & _QOS_EXPRESS)
        self._publication = context.publication(
            self._wire_key, self._wire_encoding, qos, reliable, writer.destination
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
        return KeyExpr._trusted(self._key)

    @property
    def encoding(self) -> Encoding:
        """How its payloads are to be read, unless a `put` says otherwise."""
        self._check()
        return self._encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """What happens to its samples where a queue is full."""
        self._check()
        return QoS.from_octet(self._qos).congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
        self._check()
        return QoS.from_octet(self._qos).priority

    @property
    def reliability(self) -> Reliability:
        """Whether lost samples are repaired on the way."""
        self._check()
        return Reliability.RELIABLE if self._reliable else Reliability.BEST_EFFORT

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are subscribers for its key."""
        self._check()
        context = self._context
        return context.read(lambda: context.core.writers.status(self._writer))

    @property
    def stats(self) -> PublisherStats:
        """What became of its samples."""
        return PublisherStats(self._sent_count, self._dropped_count)

    def put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        if (
            encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
            and type(payload) is bytes
            and self._publication is not None
        ):
            self._check()
            result = self._context.publish_plain(self._publication, payload, self._express)
            if result != NOT_PLAIN:
                self._count(result)
                return
        body = Put(
            octets(payload),
            None if timestamp is None else wire_stamp(timestamp),
            self._wire_encoding if encoding is None else wire_encoding(encoding),
            None if attachment is None else octets_or_none(attachment),
            None if source_info is None else wire_source(source_info),
        )
        self._publish(body, timestamp_instrumentation)

    def try_put(
        self,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> bool:
        """Publish a value if there is room for it now; False, and nothing sent, if not.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        self._check()
        context = self._context
        core = context.core
        if not context.read(lambda: core.face.node.has_room(core.face.id)):
            self._dropped_count += 1
            return False
        dropped = self._dropped_count
        self.put(payload, encoding=encoding, attachment=attachment, timestamp=timestamp)
        return self._dropped_count == dropped

    def delete(
        self,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish the end of the key's value.

        Raises:
            ClosedError: the publisher or its session is gone.
        """
        source = wire_source(source_info)
        body = Del(wire_stamp(timestamp), octets_or_none(attachment), source)
        self._publish(body, timestamp_instrumentation)

    @overload
    def declare_matching_listener(
        self, handler: BuiltinHandler[MatchingStatus] | None = None
    ) -> MatchingListener[Handler[MatchingStatus]]: ...
    @overload
    def declare_matching_listener(
        self, handler: PythonHandler[MatchingStatus, H]
    ) -> MatchingListener[H]: ...
    @overload
    def declare_matching_listener(
        self, handler: PythonCallback[MatchingStatus]
    ) -> MatchingListener[None]: ...
    def declare_matching_listener(
        self, handler: AnyHandler[MatchingStatus] = None
    ) -> MatchingListener[object]:
        """Be told when the first subscriber for its key comes and when the last goes."""
        self._check()
        return listen_to_matches(self._context, self._writer, handler)

    def _publish(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        self._check()
        result = self._context.publish(
            self._key,
            self._wire_key,
            body,
            self._qos,
            self._reliable,
            self._destination,
            instrumentation,
        )
        self._count(result)

    def _count(self, result: int) -> None:
        if result == DROPPED:
            self._dropped_count += 1
        else:
            self._sent_count += 1

    def _end(self) -> None:
        self._context.core.undeclare_writer(self._writer)

    def __repr__(self) -> str:
        return f"Publisher({self._key!r})"

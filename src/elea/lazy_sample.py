"""Sample: what a subscriber or a query receives. Built from a wire message without converting it.

A node may deliver a million samples a second of which an application looks at the payload alone.
So the fields are kept as they came, texts and octets, and each property makes the public value when
it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, final

from elea.encoding import NAMES, Encoding
from elea.hints import mypyc_attr
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SampleKind, SourceInfo, TimestampStack
from elea.qos import CongestionControl, Priority, QoS
from elea.timestamp import NTP64, Timestamp
from elea.zbytes import ZBytes

QOS_UNSET: Final = -1
_QOS: Final = [QoS.from_octet(octet) for octet in range(256)]
_ENCODINGS: Final = [Encoding.from_parts(number) for number in range(len(NAMES))]
_ENCODING: Final = _ENCODINGS[0]
_KEYS_COUNT_MAX: Final = 4_096
_KEYS: Final[dict[str, KeyExpr]] = {}  # keys that were asked for; they come again


class RawStamp(Protocol):
    """A timestamp as it travels."""

    @property
    def time(self) -> int: ...
    @property
    def id(self) -> bytes: ...


class _Stamp:
    """A timestamp in the form in which others travelled."""

    __slots__ = ("id", "time")

    def __init__(self, time: int, id: bytes) -> None:
        self.time = time
        self.id = id


class RawEncoding(Protocol):
    """An encoding as it travels; an empty schema is none."""

    id: int
    schema: bytes


class RawSource(Protocol):
    """The source of a sample as it travels."""

    zid: bytes
    eid: int
    sn: int


@mypyc_attr(acyclic=True)
@final
class Sample:
    """A value, or the end of one, as a subscriber or a query receives it.

    Args:
        key_expr: The key; a `str` is taken as canonical.
        qos: The octet of priority, congestion control and express, in place of these three.

    Example:
        >>> sample = Sample(key_expr=KeyExpr("room/1/temperature"), payload=ZBytes("21.5"))
        >>> sample.kind, sample.payload.to_string(), str(sample.encoding)
        (SampleKind.PUT, '21.5', 'zenoh/bytes')
    """

    __slots__ = (
        "_attachment",
        "_encoding",
        "_key",
        "_kind",
        "_payload",
        "_qos",
        "_source",
        "_stack",
        "_timestamp",
    )

    def __init__(
        self,
        *,
        key_expr: KeyExpr | str,
        payload: ZBytes | bytes = b"",
        kind: SampleKind = SampleKind.PUT,
        encoding: Encoding | RawEncoding | None = None,
        timestamp: Timestamp | RawStamp | None = None,
        congestion_control: CongestionControl = CongestionControl.DROP,
        priority: Priority = Priority.DATA,
        express: bool = False,
        attachment: ZBytes | bytes | None = None,
        source_info: SourceInfo | RawSource | None = None,
        timestamp_stack: TimestampStack | None = None,
        qos: int = QOS_UNSET,
    ) -> None:
        if qos == QOS_UNSET:
            qos = QoS(priority, congestion_control, express).to_octet()
        self._key = key_expr
        self._payload = payload
        self._kind = kind
        self._encoding = encoding
        self._timestamp = timestamp
        self._qos = qos
        self._attachment = attachment
        self._source = source_info
        self._stack = timestamp_stack

    @property
    def key_expr(self) -> KeyExpr:
        """The key it was published on."""
        key = self._key
        return key if isinstance(key, KeyExpr) else _key_expr(key)

    @property
    def key_text(self) -> str:
        """The key as text, without making a `KeyExpr` of it."""
        key = self._key
        return str(key) if isinstance(key, KeyExpr) else key

    @property
    def payload(self) -> ZBytes:
        """The octets; none if it is a deletion."""
        payload = self._payload
        return payload if isinstance(payload, ZBytes) else ZBytes(payload)

    @property
    def kind(self) -> SampleKind:
        """Whether it brings a value or takes it away."""
        return self._kind

    @property
    def encoding(self) -> Encoding:
        """How the payload is to be read."""
        encoding = self._encoding
        if encoding is None:
            return _ENCODING
        if isinstance(encoding, Encoding):
            return encoding
        number = encoding.id
        if not encoding.schema and number < len(_ENCODINGS):
            return _ENCODINGS[number]
        return Encoding.from_parts(number, encoding.schema or None)

    @property
    def timestamp(self) -> Timestamp | None:
        """When it was published, if somebody on the way stamped it."""
        stamp = self._timestamp
        if stamp is None or isinstance(stamp, Timestamp):
            return stamp
        return Timestamp(NTP64.from_value(stamp.time), stamp.id)

    @property
    def raw_stamp(self) -> RawStamp | None:
        """The timestamp as it travelled, without making a `Timestamp` of it."""
        stamp = self._timestamp
        if isinstance(stamp, Timestamp):
            return _Stamp(stamp.time.value, stamp.id.to_bytes())
        return stamp

    @property
    def raw_source(self) -> tuple[bytes, int] | None:
        """The node and the entity that published it, without making a `SourceInfo` of them."""
        source = self._source
        if source is None:
            return None
        if isinstance(source, SourceInfo):
            return source.source_id.zid.to_bytes(), int(source.source_id.eid)
        return source.zid, source.eid

    @property
    def congestion_control(self) -> CongestionControl:
        """What happened to it on the way where a queue was full."""
        return _QOS[self._qos].congestion_control

    @property
    def priority(self) -> Priority:
        """The priority it travelled with."""
        return _QOS[self._qos].priority

    @property
    def express(self) -> bool:
        """Whether it did not wait for others to share a batch with."""
        return _QOS[self._qos].express

    @property
    def attachment(self) -> ZBytes | None:
        """What the publisher attached."""
        attachment = self._attachment
        if attachment is None or isinstance(attachment, ZBytes):
            return attachment
        return ZBytes(attachment)

    @property
    def source_info(self) -> SourceInfo | None:
        """Who published it, if the publisher says so."""
        source = self._source
        if source is None or isinstance(source, SourceInfo):
            return source
        entity = EntityGlobalId(ZenohId(source.zid), EntityId(source.eid))
        return SourceInfo(entity, source.sn)

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """The points it passed, if it was instrumented."""
        return self._stack

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sample):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return (
            f"Sample(key_expr={self.key_expr!r}, payload={self.payload!r}, kind={self.kind!r}, "
            f"encoding={self.encoding!r}, timestamp={self.timestamp!r}, "
            f"congestion_control={self.congestion_control!r}, priority={self.priority!r}, "
            f"express={self.express!r}, attachment={self.attachment!r}, "
            f"source_info={self.source_info!r}, timestamp_stack={self.timestamp_stack!r})"
        )

    def __reduce__(self) -> tuple[Callable[..., Sample], tuple[object, ...]]:
        return _restore, self._values()

    def _values(self) -> tuple[object, ...]:
        return (
            self.key_expr,
            self.payload,
            self._kind,
            self.encoding,
            self.timestamp,
            self._qos,
            self.attachment,
            self.source_info,
            self._stack,
        )


def _key_expr(text: str) -> KeyExpr:
    key = _KEYS.get(text)
    if key is None:
        if len(_KEYS) >= _KEYS_COUNT_MAX:
            _KEYS.clear()
        key = KeyExpr._trusted(text)
        _KEYS[text] = key
    return key


def _restore(
    key_expr: KeyExpr,
    payload: ZBytes,
    kind: SampleKind,
    encoding: Encoding,
    timestamp: Timestamp | None,
    qos: int,
    attachment: ZBytes | None,
    source_info: SourceInfo | None,
    timestamp_stack: TimestampStack | None,
) -> Sample:
    return Sample(
        key_expr=key_expr,
        payload=payload,
        kind=kind,
        encoding=encoding,
        timestamp=timestamp,
        attachment=attachment,
        source_info=source_info,
        timestamp_stack=timestamp_stack,
        qos=qos,
    )

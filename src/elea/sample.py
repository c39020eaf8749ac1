"""The values handed to applications: samples, replies, and nodes found by scouting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag
from typing import Final

from elea.encoding import Encoding
from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, WhatAmI, ZenohId
from elea.keyexpr import KeyExpr
from elea.qos import CongestionControl, Priority
from elea.timestamp import Timestamp
from elea.zbytes import ZBytes

_EMPTY: Final = ZBytes()


class SampleKind(Enum):
    """Whether a sample brings a value or takes it away."""

    PUT = 0
    DELETE = 1

    def __int__(self) -> int:
        return int(self.value)


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Who published a sample, and its number in that publisher's sequence (wire.md 2.14)."""

    source_id: EntityGlobalId
    source_sn: int

    def __post_init__(self) -> None:
        if not 0 <= self.source_sn <= 0xFFFF_FFFF:
            raise InvalidValueError("SourceInfo", f"source_sn has 32 bits, got {self.source_sn}")


class InterceptionPoint(Flag):
    """Where on its way a message got a record of the time; the values travel (wire.md 2.18)."""

    SEND = 1
    ROUTE = 2
    RECEIVE = 4


@dataclass(frozen=True, slots=True)
class TimestampInstrumentation:
    """The points at which nodes are asked to record the time."""

    points: InterceptionPoint

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidValueError("TimestampInstrumentation", "no point is enabled")

    def is_instrumented(self, point: InterceptionPoint) -> bool:
        """Whether this point is to record the time."""
        return point in self.points


@dataclass(frozen=True, slots=True)
class TimestampStackRecord:
    """One point passed: when, by the node's clock or in octets that an application made."""

    point: InterceptionPoint
    value: Timestamp | bytes

    @property
    def is_custom(self) -> bool:
        """Whether an application made the value."""
        return isinstance(self.value, bytes)

    def timestamp(self) -> Timestamp | bytes:
        """The value: a `Timestamp`, or the application's octets."""
        return self.value


@dataclass(frozen=True, slots=True)
class TimestampStack:
    """All points a message passed, in their order."""

    instrumentation: TimestampInstrumentation
    records: tuple[TimestampStackRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value, or the end of one, as a subscriber or a query receives it.

    Example:
        >>> sample = Sample(key_expr=KeyExpr("room/1/temperature"), payload=ZBytes("21.5"))
        >>> sample.kind, sample.payload.to_string(), str(sample.encoding)
        (<SampleKind.PUT: 0>, '21.5', 'zenoh/bytes')
    """

    key_expr: KeyExpr
    payload: ZBytes = _EMPTY
    kind: SampleKind = SampleKind.PUT
    encoding: Encoding = Encoding.ZENOH_BYTES
    timestamp: Timestamp | None = None
    congestion_control: CongestionControl = CongestionControl.DROP
    priority: Priority = Priority.DATA
    express: bool = False
    attachment: ZBytes | None = None
    source_info: SourceInfo | None = None
    timestamp_stack: TimestampStack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyError:
    """What a queryable answers instead of a sample when it cannot serve a query."""

    payload: ZBytes = _EMPTY
    encoding: Encoding = Encoding.ZENOH_BYTES
    timestamp_stack: TimestampStack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer to a query."""

    result: Sample | ReplyError
    replier_id: EntityGlobalId | None = None

    @property
    def ok(self) -> Sample | None:
        """The sample, or None if the reply is an error."""
        return self.result if isinstance(self.result, Sample) else None

    @property
    def err(self) -> ReplyError | None:
        """The error, or None if the reply is a sample."""
        return self.result if isinstance(self.result, ReplyError) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A node found by scouting: its role, its identity and where to reach it."""

    whatami: WhatAmI
    zid: ZenohId
    locators: tuple[str, ...] = ()  # as they were told, unchecked

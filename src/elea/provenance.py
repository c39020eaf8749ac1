"""Where a sample comes from: its kind, who published it, and the points it passed on its way."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Final

from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, WhatAmI, ZenohId
from elea.records import dataclass, field, replace
from elea.timestamp import Timestamp


class SampleKind(Enum):
    """Whether a sample brings a value or takes it away."""

    PUT = 0
    DELETE = 1

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


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

    def __int__(self) -> int:
        return self.value.bit_length() - 1  # zenoh-python counts them

    __repr__ = Flag.__str__


_NOWHERE: Final = InterceptionPoint(0)


@dataclass(frozen=True, slots=True)
class TimestampInstrumentation:
    """The points at which nodes are asked to record the time."""

    points: InterceptionPoint

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidValueError("TimestampInstrumentation", "no point is enabled")

    def is_instrumented(self, /, point: InterceptionPoint) -> bool:
        """Whether this point is to record the time."""
        return point in self.points


@dataclass(frozen=True, slots=True)
class TimestampInstrumentationBuilder:
    """Chooses points; each setter returns a new builder, as in zenoh-python.

    Example:
        >>> instrumentation = TimestampInstrumentationBuilder().set_send(True).build()
        >>> instrumentation.is_instrumented(InterceptionPoint.ROUTE)
        False
    """

    points: InterceptionPoint = _NOWHERE

    def set_send(self, /, enabled: bool) -> TimestampInstrumentationBuilder:
        """Record the time when a message leaves the application, or not."""
        return self._set(InterceptionPoint.SEND, enabled)

    def set_route(self, /, enabled: bool) -> TimestampInstrumentationBuilder:
        """Record the time when a node routes a message, or not."""
        return self._set(InterceptionPoint.ROUTE, enabled)

    def set_receive(self, /, enabled: bool) -> TimestampInstrumentationBuilder:
        """Record the time when a message reaches an application, or not."""
        return self._set(InterceptionPoint.RECEIVE, enabled)

    def build(self, /) -> TimestampInstrumentation:
        """The chosen points.

        Raises:
            InvalidValueError: if no point is enabled.
        """
        return TimestampInstrumentation(self.points)

    def _set(self, point: InterceptionPoint, enabled: bool) -> TimestampInstrumentationBuilder:
        return replace(self, points=self.points | point if enabled else self.points & ~point)


@dataclass(frozen=True, slots=True)
class TimestampContext:
    """What a callback that makes timestamps is told: the node it runs on."""

    zid: ZenohId
    whatami: WhatAmI


@dataclass(frozen=True, slots=True)
class TimestampStackRecord:
    """One point passed: when, by the node's clock or in octets that an application made."""

    point: InterceptionPoint
    value: Timestamp | bytes

    @property
    def is_custom(self) -> bool:
        """Whether an application made the value."""
        return isinstance(self.value, bytes)

    def timestamp(self, /) -> Timestamp | bytes:
        """The value: a `Timestamp`, or the application's octets."""
        return self.value


@dataclass(frozen=True, slots=True)
class TimestampStack:
    """All points a message passed, in their order."""

    instrumentation: TimestampInstrumentation
    records: list[TimestampStackRecord] = field(default_factory=list, hash=False)

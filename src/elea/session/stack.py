"""The timestamp stack of instrumented messages, to and from the wire (wire.md 2.18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.errors import DecodeError
from elea.ids import WhatAmI, ZenohId
from elea.provenance import (
    InterceptionPoint,
    TimestampContext,
    TimestampInstrumentation,
    TimestampStack,
    TimestampStackRecord,
)
from elea.timestamp import NTP64, Timestamp
from elea.wire.buffer import Reader, Writer
from elea.wire.fields import Stamp, read_stamp, write_stamp
from elea.wire.shared_extensions import StackRecord
from elea.wire.shared_extensions import TimestampStack as WireStack

_POINTS: Final = 0x07
_CUSTOM: Final = 0x80  # the record holds octets of the application, not a timestamp

TimestampCallback = Callable[[TimestampContext], bytes]


class Stamper:
    """Adds records of this session to messages, by its clock or by the application's function.

    The application's function runs under the node's lock and must not use the session.
    """

    __slots__ = ("_callback", "_clock", "_context")

    def __init__(
        self,
        zid: bytes,
        whatami: WhatAmI,
        clock: Callable[[], Stamp],
        callback: TimestampCallback | None,
    ) -> None:
        self._context = TimestampContext(ZenohId(zid), whatami)
        self._clock = clock
        self._callback = callback

    def move(self, zid: bytes, whatami: WhatAmI) -> None:
        """Stamp in the name of another node from now on."""
        self._context = TimestampContext(ZenohId(zid), whatami)

    def sent(self, instrumentation: TimestampInstrumentation | None) -> WireStack | None:
        """The stack of a new message."""
        if instrumentation is None:
            return None
        empty = WireStack(instrumentation.points.value, 0, b"")
        return self._record(empty, InterceptionPoint.SEND)

    def answered(self, stack: WireStack) -> WireStack:
        """The stack of an answer: the question's, and when the answer was sent."""
        return self._record(stack, InterceptionPoint.SEND)

    def received(self, stack: WireStack) -> TimestampStack | None:
        """The stack of a message that is delivered to the application."""
        return read_stack(self.stamped(stack))

    def stamped(self, stack: WireStack) -> WireStack:
        """The stack of a message that is delivered, as it would travel on."""
        return self._record(stack, InterceptionPoint.RECEIVE)

    def _record(self, stack: WireStack, point: InterceptionPoint) -> WireStack:
        if not stack.conf_flags & point.value:
            return stack
        if self._callback is not None:
            flags, octets = point.value | _CUSTOM, bytes(self._callback(self._context))
        else:
            writer = Writer()
            write_stamp(writer, self._clock())
            flags, octets = point.value, writer.to_bytes()
        return WireStack.of(stack.conf_flags, [*stack.records, StackRecord(flags, octets)])


def read_stack(stack: WireStack) -> TimestampStack | None:
    """The stack as applications see it; None if it cannot be read."""
    points = InterceptionPoint(stack.conf_flags & _POINTS)
    if not points:
        return None
    try:
        records = [_read_record(record) for record in stack.records]
    except DecodeError:
        return None
    return TimestampStack(TimestampInstrumentation(points), records)


def _read_record(record: StackRecord) -> TimestampStackRecord:
    point = InterceptionPoint(record.flags & _POINTS)
    if record.flags & _CUSTOM:
        return TimestampStackRecord(point, record.stamp)
    stamp = read_stamp(Reader(record.stamp))
    return TimestampStackRecord(point, Timestamp(NTP64.from_value(stamp.time), stamp.id))

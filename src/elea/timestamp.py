"""Time as Zenoh tells it: NTP64, timestamps with an author, a hybrid logical clock (wire.md 2.7).

No clock is read here. `HybridClock` is told the wall clock in nanoseconds since 1970 each time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from elea.errors import InvalidValueError
from elea.ids import ZenohId
from elea.records import dataclass

TimestampId = ZenohId  # the clock that issued a timestamp: normally the node it runs on

NANOS_PER_SECOND: Final = 1_000_000_000
DRIFT_NS_MAX: Final = 500_000_000  # how far ahead a neighbour's clock is believed
COUNTER_MASK: Final = 0xF  # the low bits of an NTP64 that a hybrid clock counts with

_SECONDS_MAX: Final = 0xFFFF_FFFF  # until 2106-02-07T06:28:15Z
_NTP64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?Z"
)


@dataclass(frozen=True, slots=True, order=True, init=False, repr=False)
class NTP64:
    """Seconds since 1970 in the high 32 bits, fractions of 2^-32 s in the low 32.

    Args:
        seconds: whole seconds since 1970-01-01T00:00:00Z, up to 2^32-1.
        nanoseconds: added to them.

    Raises:
        InvalidValueError: if the time is before 1970 or after 2106.

    Example:
        >>> NTP64(1, 500_000_000).value == 0x1_8000_0000
        True
    """

    value: int

    def __init__(self, seconds: int, nanoseconds: int) -> None:
        total_ns = seconds * NANOS_PER_SECOND + nanoseconds
        whole, rest = divmod(total_ns, NANOS_PER_SECOND)
        if not 0 <= whole <= _SECONDS_MAX:
            raise InvalidValueError("NTP64", f"{whole} s is outside of 1970 to 2106")
        object.__setattr__(self, "value", (whole << 32) | (rest << 32) // NANOS_PER_SECOND)

    @classmethod
    def from_value(cls, value: int) -> Self:
        """The time whose 64 bits are `value`, as it travels."""
        if not 0 <= value <= _NTP64_MAX:
            raise InvalidValueError("NTP64", f"64 bits are legal, got {value}")
        time = cls.__new__(cls)
        object.__setattr__(time, "value", value)
        return time

    @classmethod
    def from_nanos(cls, nanoseconds: int) -> Self:
        """The time this many nanoseconds after 1970-01-01T00:00:00Z, rounded down to 2^-32 s."""
        return cls(0, nanoseconds)

    @classmethod
    def from_datetime(cls, time: datetime) -> Self:
        """The time of an aware `datetime`; a naive one is a TypeError, for it names no instant."""
        if time.tzinfo is None:
            raise TypeError("a datetime without time zone names no instant; give it tzinfo")
        return cls(0, (time - _EPOCH) // timedelta(microseconds=1) * 1_000)

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """The time written as RFC 3339 in UTC, such as "2024-07-01T13:51:12.129693Z"."""
        match = _RFC3339.fullmatch(s)
        if match is None:
            raise InvalidValueError(
                "NTP64",
                f"{s[:40]!a} is not RFC 3339 in UTC, as 2024-07-01T13:51:12.129693Z",
            )
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        nanoseconds = int((match[7] or "0")[:9].ljust(9, "0"))
        second = 59 if second == 60 else second  # a leap second repeats the one before
        try:
            whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH
        except ValueError as error:
            raise InvalidValueError("NTP64", f"{s[:40]}: {error}") from None
        return cls(whole // timedelta(seconds=1), nanoseconds)

    def as_secs(self, /) -> int:
        """The whole seconds."""
        return self.value >> 32

    def subsec_nanos(self, /) -> int:
        """The fraction in nanoseconds, rounded up so that nanoseconds survive both ways."""
        return -(-(self.value & 0xFFFF_FFFF) * NANOS_PER_SECOND >> 32)

    def as_nanos(self, /) -> int:
        """Nanoseconds since 1970."""
        return self.as_secs() * NANOS_PER_SECOND + self.subsec_nanos()

    def as_secs_f64(self, /) -> float:
        """Seconds since 1970 as a float: microseconds are all it can hold. Do not compare it."""
        return self.value / 2**32

    def to_datetime(self, /) -> datetime:
        """The time in UTC, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.as_nanos() // 1_000)

    def to_string_rfc3339_lossy(self, /) -> str:
        """RFC 3339 in UTC with nine digits; some of the 32 bits of fraction are lost."""
        return format_rfc3339(self.as_nanos(), digits=9)

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return str(self.value)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, order=True, init=False, repr=False)
class Timestamp:
    """A time and the clock that issued it. Totally ordered: by time, then by the id's octets.

    Args:
        time: an `NTP64`, or an aware `datetime`.
        id: the clock; its octets in wire order are accepted too.

    Raises:
        InvalidValueError: if the time is outside of 1970 to 2106, or the octets are no id.

    Example:
        >>> Timestamp.parse("7386690599959157260/33").to_string_rfc3339_lossy()
        '2024-07-01T15:32:06.860479001Z/33'
    """

    time: NTP64
    id: TimestampId

    def __init__(
        self, time: datetime | NTP64, id: TimestampId | bytes | bytearray | memoryview
    ) -> None:
        if isinstance(time, datetime):
            time = NTP64.from_datetime(time)
        elif not isinstance(time, NTP64):
            raise TypeError(f"expected a datetime or an NTP64, got {type(time).__name__}")
        object.__setattr__(self, "time", time)
        object.__setattr__(
            self, "id", id if isinstance(id, TimestampId) else TimestampId.from_bytes(id)
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The timestamp whose `str` is `text`: "<ntp64>/<hex id>", without loss."""
        time, slash, id = text.partition("/")
        if not (slash and time.isascii() and time.isdigit() and len(time) <= 20):
            raise InvalidValueError(
                "Timestamp",
                f"{text[:60]!a} is not <ntp64>/<hex id>, as 7386690599959157260/33",
            )
        return cls(NTP64.from_value(int(time)), TimestampId.parse(id))

    @classmethod
    def parse_rfc3339(cls, s: str) -> Self:
        """The timestamp written as "<RFC 3339 in UTC>/<hex id>"."""
        if not isinstance(s, str):
            raise TypeError(f"a timestamp is read from a text, got {type(s).__name__}")
        time, slash, id = s.partition("/")
        if not slash:
            raise InvalidValueError("Timestamp", f"{s[:60]!a} has no '/' before the id")
        return cls(NTP64.parse_rfc3339(time), TimestampId.parse(id.lower()))

    def get_time(self, /) -> datetime:
        """The time in UTC, to the microsecond."""
        return self.time.to_datetime()

    def get_time_as_ntp64(self, /) -> NTP64:
        """The time, exact."""
        return self.time

    def get_id(self, /) -> TimestampId:
        """The clock that issued it."""
        return self.id

    def get_diff_duration(self, /, other: Timestamp) -> timedelta:
        """The time from `other` to this, to the microsecond; negative if `other` is later."""
        difference = self.time.value - other.time.value
        microseconds = NTP64.from_value(abs(difference)).as_nanos() // 1_000
        return timedelta(microseconds=microseconds if difference >= 0 else -microseconds)

    def to_string_rfc3339_lossy(self, /) -> str:
        """ "<RFC 3339 in UTC>/<hex id>": for people; the last bits of the fraction are lost."""
        return f"{self.time.to_string_rfc3339_lossy()}/{self.id}"

    def __str__(self) -> str:
        return f"{self.time}/{self.id}"

    __repr__ = __str__


def format_rfc3339(nanoseconds: int, *, digits: int = 0) -> str:
    """RFC 3339 in UTC for nanoseconds since 1970, with the fraction that is needed or `digits`."""
    seconds, fraction = divmod(nanoseconds, NANOS_PER_SECOND)
    whole = _EPOCH + timedelta(seconds=seconds)
    decimals = f"{fraction:09}".rstrip("0").ljust(digits, "0")
    return f"{whole:%Y-%m-%dT%H:%M:%S}{'.' if decimals else ''}{decimals}Z"


class HybridClock:
    """A clock whose timestamps never repeat and never go back, whatever the wall clock does.

    The low four bits of a time count; the rest is the wall clock, or the latest time seen if that
    is ahead. A neighbour's time is followed only within `max_drift_ns`: one node with a clock a
    year ahead must not drag every other with it.

    Args:
        id: the author of the timestamps.
        max_drift_ns: how far ahead of the wall clock a neighbour's time may be.

    Example:
        >>> clock = HybridClock(ZenohId(b"\\x33"))
        >>> clock.now(2_000_000_000) < clock.now(1_000_000_000)
        True
    """

    __slots__ = ("_last", "id", "max_drift_ns", "refused_count")

    def __init__(self, id: TimestampId, max_drift_ns: int = DRIFT_NS_MAX) -> None:
        self.id = id
        self.max_drift_ns = max_drift_ns
        self.refused_count = 0
        self._last = -1

    def now(self, wall_ns: int) -> Timestamp:
        """A new timestamp, greater than every one issued or accepted before."""
        return Timestamp(NTP64.from_value(self.tick(wall_ns)), self.id)

    def tick(self, wall_ns: int) -> int:
        """As `now`: the time alone, as 64 bits."""
        physical = (wall_ns << 32) // NANOS_PER_SECOND & ~COUNTER_MASK
        self._last = max(physical, self._last + 1)
        return self._last

    def floor(self, wall_ns: int) -> int:
        """The time after which the next timestamp comes, as 64 bits."""
        physical = (wall_ns << 32) // NANOS_PER_SECOND & ~COUNTER_MASK
        return max(physical - 1, self._last, 0)

    def advance(self, time: int) -> None:
        """Timestamps up to this one were issued in this clock's name."""
        self._last = max(self._last, time)

    def update(self, wall_ns: int, remote: Timestamp) -> bool:
        """Learn of a neighbour's timestamp.

        Returns:
            Whether it was believed. False means that it lies too far in the future: this clock is
            unmoved, `refused_count` grew, and the sample needs a timestamp of our own.
        """
        return self.accept(wall_ns, remote.time.value)

    def latest(self, wall_ns: int) -> int:
        """The latest time that is believed, as 64 bits."""
        drift = (self.max_drift_ns << 32) // NANOS_PER_SECOND
        return (wall_ns << 32) // NANOS_PER_SECOND + drift

    def accept(self, wall_ns: int, time: int) -> bool:
        """As `update`, for a time as 64 bits."""
        if time > self.latest(wall_ns):
            self.refused_count += 1
            return False
        self._last = max(self._last, time)
        return True

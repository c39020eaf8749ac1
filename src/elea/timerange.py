"""The `_time` language: ranges of time, fixed or relative to now (wire.md 10.7).

    range    = open ( [instant] ".." [instant] | instant ";" duration ) close
    open     = "[" | "]"                ; "]" leaves the start out
    close    = "]" | "["                ; "[" leaves the end out
    instant  = RFC 3339 in UTC | "now(" [ ["-"] duration ] ")"
    duration = decimal [ "u" | "ms" | "s" | "m" | "h" | "d" | "w" ]     ; seconds without unit

A range is resolved where it is evaluated: `now()` is the evaluating node's time, which it is told.
"""

from __future__ import annotations

import re
from typing import Final, Self

from elea.errors import InvalidValueError, SelectorError
from elea.records import dataclass
from elea.timestamp import NANOS_PER_SECOND, NTP64, Timestamp, format_rfc3339

_UNITS_NS: Final = {
    "w": 7 * 86_400 * NANOS_PER_SECOND,
    "d": 86_400 * NANOS_PER_SECOND,
    "h": 3_600 * NANOS_PER_SECOND,
    "m": 60 * NANOS_PER_SECOND,
    "s": NANOS_PER_SECOND,
    "ms": 1_000_000,
    "u": 1_000,
    "": NANOS_PER_SECOND,
}
# 200 years: more than NTP64 spans, and sums of two still have a year of four digits.
_DURATION_NS_MAX: Final = 200 * 365 * _UNITS_NS["d"]
_TEXT_LEN_MAX: Final = 256  # the longest sensible range has about 80 characters
_DURATION: Final = re.compile(r"([0-9]+)(?:\.([0-9]*))?(u|ms|s|m|h|d|w|)")
_NOW: Final = re.compile(r"now\((-?)([^()]*)\)")


@dataclass(frozen=True, slots=True)
class TimeExpr:
    """An instant: nanoseconds since 1970, or relative to now."""

    ns: int
    relative: bool = False

    @classmethod
    def parse(cls, text: str) -> TimeExpr:
        """The instant that a text is.

        Raises:
            SelectorError: it is none.

        Example:
            >>> TimeExpr.parse("now(-10m)").resolve(600_000_000_001)
            1
        """
        return _instant(text, 0, text)

    def resolve(self, now_ns: int) -> int:
        """Nanoseconds since 1970, if now is `now_ns`."""
        return now_ns + self.ns if self.relative else self.ns

    def __add__(self, duration_ns: int) -> TimeExpr:
        return TimeExpr(self.ns + duration_ns, self.relative)

    def __str__(self) -> str:
        if not self.relative:
            return format_rfc3339(self.ns)
        sign = "-" if self.ns < 0 else ""
        return f"now({sign}{_format_duration(abs(self.ns)) if self.ns else ''})"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time; a bound that is None is open to that side.

    Example:
        >>> last_hour = TimeRange.parse("[now(-1h)..now()[")
        >>> noon_ns = 1_719_835_200 * 10**9
        >>> str(last_hour.resolve(noon_ns))
        '[2024-07-01T11:00:00Z..2024-07-01T12:00:00Z['
    """

    start: TimeExpr | None = None
    end: TimeExpr | None = None
    start_included: bool = True
    end_included: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """The range of a `_time` value.

        Raises:
            SelectorError: with the offset where the text stops being a range.
        """
        if len(text) > _TEXT_LEN_MAX:
            raise SelectorError(text, _TEXT_LEN_MAX, "a time range is at most 256 characters long")
        if not text or text[0] not in "[]":
            raise SelectorError(text, 0, "expected '[' or ']' before the start")
        if len(text) == 1 or text[-1] not in "[]":
            raise SelectorError(text, len(text), "expected ']' or '[' after the end")
        body = text[1:-1]
        left, separator, right = body.partition("..")
        if separator:
            start = _instant(text, 1, left) if left else None
            end = _instant(text, 3 + len(left), right) if right else None
        else:
            left, separator, right = body.partition(";")
            if not separator:
                raise SelectorError(text, len(text) - 1, "expected '..' or ';' inside the range")
            start = _instant(text, 1, left)
            end = start + _duration(text, 2 + len(left), right)
        return cls(start, end, text[0] == "[", text[-1] == "]")

    def resolve(self, now_ns: int) -> TimeRange:
        """The same range with fixed bounds, if now is `now_ns` since 1970."""
        return TimeRange(
            None if self.start is None else TimeExpr(self.start.resolve(now_ns)),
            None if self.end is None else TimeExpr(self.end.resolve(now_ns)),
            self.start_included,
            self.end_included,
        )

    def contains(self, time: NTP64 | Timestamp, now_ns: int) -> bool:
        """Whether a time lies in the range, to the nanosecond, if now is `now_ns` since 1970."""
        ntp64 = time.time if isinstance(time, Timestamp) else time
        ns = ntp64.as_nanos()
        if self.start is not None:
            start_ns = self.start.resolve(now_ns)
            if ns < start_ns or (ns == start_ns and not self.start_included):
                return False
        if self.end is not None:
            end_ns = self.end.resolve(now_ns)
            if ns > end_ns or (ns == end_ns and not self.end_included):
                return False
        return True

    def bits(self, now_ns: int) -> tuple[int, int]:
        """The range as 64-bit times, from the first inside of it to before the second.

        A time is inside exactly if `contains` says so.

        Example:
            >>> TimeRange.parse("[..1970-01-01T00:00:00.5Z[").bits(0)
            (0, 2147483644)
        """
        since, until = 0, 1 << 64
        if self.start is not None:
            since = _first_bits(self.start.resolve(now_ns) + (not self.start_included))
        if self.end is not None:
            until = _first_bits(self.end.resolve(now_ns) + self.end_included)
        return since, until

    def __str__(self) -> str:
        start = "" if self.start is None else str(self.start)
        end = "" if self.end is None else str(self.end)
        left, right = "[" if self.start_included else "]", "]" if self.end_included else "["
        return f"{left}{start}..{end}{right}"


def _first_bits(ns: int) -> int:
    """The first time, as 64 bits, that is so many nanoseconds since 1970: they are rounded up."""
    return min(max(((ns - 1) << 32) // NANOS_PER_SECOND + 1, 0), 1 << 64)


def _instant(text: str, at: int, part: str) -> TimeExpr:
    now = _NOW.fullmatch(part)
    if now:
        sign = -1 if now[1] else 1
        if not now[2] and sign == 1:
            return TimeExpr(0, relative=True)
        return TimeExpr(sign * _duration(text, at + now.start(2), now[2]), relative=True)
    # A blank for the T and a missing Z are accepted, as other nodes accept them here.
    strict = part.replace(" ", "T", 1) + ("" if part.endswith("Z") else "Z")
    try:
        return TimeExpr(NTP64.parse_rfc3339(strict).as_nanos())
    except InvalidValueError as error:
        reason = f"{part[:40]!a} is neither now(...) nor RFC 3339 in UTC ({error.reason})"
        raise SelectorError(text, at, reason) from None


def _duration(text: str, at: int, part: str) -> int:
    match = _DURATION.fullmatch(part)
    if match is None:
        raise SelectorError(text, at, f"{part[:40]!a} is no duration, as 90, 1.5h or 250ms")
    unit_ns = _UNITS_NS[match[3]]
    fraction = match[2] or ""
    ns: int = int(match[1]) * unit_ns + int(fraction or "0") * unit_ns // 10 ** len(fraction)
    if ns > _DURATION_NS_MAX:
        raise SelectorError(text, at, "a duration is at most 200 years")
    return ns


def _format_duration(ns: int) -> str:
    for unit, unit_ns in _UNITS_NS.items():
        if ns % unit_ns == 0:
            return f"{ns // unit_ns}{unit}"
    return f"{ns // 1_000}.{ns % 1_000:03}u"

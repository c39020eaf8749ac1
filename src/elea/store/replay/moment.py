"""Moments as people write them: fixed, relative to now, or to the ends of what is recorded.

2024-07-01T13:51:12.5Z      RFC 3339 in UTC
now(-1h)                    relative to now
start+90s, start            after the first row
end-10m, end                before the last row
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from elea.errors import InvalidValueError, SelectorError
from elea.timerange import TimeExpr, TimeRange

_RELATIVE: Final = re.compile(r"(start|end)(?:([+-])([0-9.a-z]+))?")
_LEGAL: Final = "legal are 2024-07-01T13:51:12Z, now(-1h), start+90s and end-10m"


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when there are rows; nanoseconds since 1970, the end is included."""

    first_ns: int
    last_ns: int


def moment_ns(text: str, span: Span, now_ns: int) -> int:
    """Nanoseconds since 1970 of a moment.

    Raises:
        InvalidValueError: the text is none.

    Example:
        >>> moment_ns("start+2s", Span(1_000_000_000, 9_000_000_000), now_ns=0)
        3000000000
    """
    relative = _RELATIVE.fullmatch(text.strip())
    try:
        if relative is None:
            return _instant(text.strip()).resolve(now_ns)
        edge, sign, duration = relative.groups()
        base_ns = span.first_ns if edge == "start" else span.last_ns
        if duration is None:
            return base_ns
        length_ns = _instant(f"now({duration})").ns
        return base_ns + (length_ns if sign == "+" else -length_ns)
    except SelectorError as error:
        raise InvalidValueError("time", f"saw {text[:80]!a}; {_LEGAL}") from error


def _instant(text: str) -> TimeExpr:
    found = TimeRange.parse(f"[{text}..]").start
    if found is None:
        raise SelectorError(text, 0, "no moment")
    return found

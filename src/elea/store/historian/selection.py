"""Selection: what a query asks a historian for, read from its selector. Pure.

| parameter | means |
| --- | --- |
| `_time=RANGE` | all versions in a range of time; without it, the last version of each key |
| `_at=TIME` | the last version of each key as of a time |
| `_kinds=put,delete` | which versions are replied; `put` without it |
| `_filter=PREDICATE` | only versions that a predicate is true for |
| `_project=FIELDS` | some fields of the payload, as JSON |
| `_order=asc` | by key, then time; `desc`: the newest of a key first; `time`: by time alone |
| `_max=N` | the first N in that order |
| `_series=FIELDS`, `_columns=N` | numbers of one key as one reply, thinned to pixels: `series.py` |
| `_after=KEY` | keys behind this one, by their octets: to go on where an answer was cut |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from elea.errors import SelectorError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS, Limits
from elea.parameters import Parameters
from elea.predicate.model import Predicate
from elea.predicate.projection import Projection, filter_of, projection_of, value_of
from elea.selector import TIME_RANGE_KEY, time_range_of
from elea.store.log.schema import RowKind
from elea.timerange import TimeExpr, TimeRange
from elea.timestamp import Timestamp

AT_KEY: Final = "_at"
KINDS_KEY: Final = "_kinds"
ORDER_KEY: Final = "_order"
MAX_KEY: Final = "_max"
AFTER_KEY: Final = "_after"

_KINDS: Final = {"put": RowKind.PUT, "delete": RowKind.DELETE}


class Order(Enum):
    """In which order versions are replied; the value of `_order`."""

    ASCENDING = "asc"
    DESCENDING = "desc"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for. Times are those of timestamps, as 64 bits.

    Example:
        >>> asked = Selection.of("a/**", Parameters("_time=[..];_max=3;_order=desc"), now_ns=0)
        >>> asked.all_versions, asked.count_max, asked.order
        (True, 3, <Order.DESCENDING: 'desc'>)
    """

    key_expr: str
    parameters: str
    since: int
    until: int  # not included
    all_versions: bool
    kinds: frozenset[RowKind]
    order: Order
    count_max: int | None
    after: str | None
    predicate: Predicate | None
    projection: Projection | None

    @classmethod
    def of(
        cls,
        key_expr: KeyExpr | str,
        parameters: Parameters,
        now_ns: int,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Selection:
        """What a selector asks for, if now is `now_ns` since 1970.

        Raises:
            SelectorError, PredicateError, LimitError: a parameter is not legal.
        """
        times = time_range_of(parameters)
        at = value_of(parameters, AT_KEY)
        if at is not None and times is not None:
            raise SelectorError(str(parameters), 0, "saw _time and _at; one of them is legal")
        order = _order(value_of(parameters, ORDER_KEY))
        if order is Order.TIME and times is None:
            raise SelectorError("time", 0, "_order=time is for all versions; give _time as well")
        since, until = (times or TimeRange()).bits(now_ns)
        return cls(
            key_expr=str(key_expr),
            parameters=str(parameters),
            since=since,
            until=until if at is None else _instant(at, now_ns),
            all_versions=times is not None,
            kinds=_kinds(value_of(parameters, KINDS_KEY)),
            order=order,
            count_max=_count(value_of(parameters, MAX_KEY)),
            after=value_of(parameters, AFTER_KEY) or None,
            predicate=filter_of(parameters, limits=limits),
            projection=projection_of(parameters, limits=limits),
        )

    def rest(self, ns: int) -> TimeRange:
        """The range of time that is left from a moment on; up to it, if the newest go first."""
        times = time_range_of(Parameters(self.parameters)) or TimeRange()
        # The one end is replaced; the other one, which may be relative to now, stays as written.
        if self.order is Order.DESCENDING:
            return replace(times, end=TimeExpr(ns), end_included=True)
        return replace(times, start=TimeExpr(ns), start_included=True)

    def after_time(self, ns: int, key: str | None = None) -> str:
        """A selector for what is left from a moment on, of one key or all."""
        rest = _without(_without(self.parameters, TIME_RANGE_KEY), AFTER_KEY)
        parts = [f"{TIME_RANGE_KEY}={self.rest(ns)}", rest]
        return f"{key or self.key_expr}?{';'.join(filter(None, parts))}"

    def after_key(self, key: str) -> str:
        """A selector for the keys behind one."""
        rest = _without(self.parameters, AFTER_KEY)
        return f"{self.key_expr}?{';'.join(filter(None, [rest, f'{AFTER_KEY}={key}']))}"


def _instant(text: str, now_ns: int) -> int:
    """The time after an instant, as 64 bits."""
    if "/" in text:
        return Timestamp.parse(text).time.value + 1
    end = TimeExpr.parse(text)
    return TimeRange(None, end).bits(now_ns)[1]


def _kinds(text: str | None) -> frozenset[RowKind]:
    names = ["put"] if text is None else text.split(",")
    for name in names:
        if name.strip() not in _KINDS:
            raise SelectorError(text or "", 0, f"saw the kind {name!a}; put and delete are legal")
    return frozenset(_KINDS[name.strip()] for name in names)


def _order(text: str | None) -> Order:
    try:
        return Order.ASCENDING if text is None else Order(text)
    except ValueError:
        raise SelectorError(text or "", 0, "asc, desc and time are legal for _order") from None


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text)):
        raise SelectorError(text, 0, "_max is a number from 1 on")
    return int(text)


def _without(parameters: str, name: str) -> str:
    """Parameters without one of them; a `;` inside its value goes with it."""
    value = value_of(Parameters(parameters), name)
    if value is None:
        return parameters
    if name == TIME_RANGE_KEY:
        value = _whole_range(parameters, value)
    at = parameters.index(f"{name}={value}")
    end = at + len(name) + 1 + len(value)
    return ";".join(filter(None, [parameters[:at].rstrip(";"), parameters[end:].lstrip(";")]))


def _whole_range(parameters: str, value: str) -> str:
    """A `_time=[start;duration]` holds the character that separates parameters."""
    if value[-1:] in ("[", "]"):
        return value
    start = parameters.index(f"{TIME_RANGE_KEY}={value}") + len(TIME_RANGE_KEY) + 1
    end = parameters.find(";", start + len(value) + 1)
    return parameters[start : len(parameters) if end < 0 else end]

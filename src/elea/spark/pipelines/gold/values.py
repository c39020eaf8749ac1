"""What options of gold tables may be. A `ValueError` of a function here says what is legal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.template import KeyFormat
from elea.predicate import Predicate, compile_predicate, parse

SECOND: Final = 1_000_000  # durations are microseconds, as times in tables are

_DURATION: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS: Final = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * SECOND),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * SECOND),
    **dict.fromkeys(("d", "day", "days"), 86_400 * SECOND),
}
_AGGREGATES: Final = ("count", "min", "max", "avg", "sum", "first", "last", "stddev")
OF_ANY_TYPE: Final = ("count", "min", "max", "first", "last")  # others need numbers
_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)")


def duration(value: object) -> int:
    """A length of time, as microseconds.

    Example:
        >>> duration("1 second"), duration("250ms"), duration("1.5 h")
        (1000000, 250000, 5400000000)
    """
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError('legal is a duration such as "1 second", "250 ms", "2 hours"')
    return round(float(match[1]) * unit)


def some_time(value: object) -> int:
    """A duration above 0."""
    found = duration(value)
    if found <= 0:
        raise ValueError("legal is a duration above 0")
    return found


def count(value: object) -> int:
    """A number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError("legal is a whole number above 0")
    return value


def names(value: object) -> tuple[str, ...]:
    """Columns: a list, or one of them."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise ValueError("legal is a list of columns")
    if len(set(given)) < len(given) or not all(given):
        raise ValueError("legal are columns that have a name, each once")
    return tuple(given)


def some_names(value: object) -> tuple[str, ...]:
    """One column at least."""
    found = names(value)
    if not found:
        raise ValueError("legal is a list of columns, one at least")
    return found


def aggregates(value: object) -> dict[str, tuple[str, ...]]:
    """Columns, and what is wanted of each.

    Example:
        >>> aggregates({"ax": "avg", "temp": ["max", "p99"]})
        {'ax': ('avg',), 'temp': ('max', 'p99')}
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"legal are columns with what is wanted of each: {_legal()}")
    found = {}
    for column, wanted in value.items():
        chosen = names(wanted)
        for one in chosen:
            if one not in _AGGREGATES and _PERCENTILE.fullmatch(one) is None:
                raise ValueError(f"of {column} legal are {_legal()}, not {one}")
        found[str(column)] = chosen
    return found


def percentage(aggregate: str) -> float | None:
    """The fraction that a percentile is at; None: it is another aggregate.

    Example:
        >>> percentage("p95"), percentage("max")
        (0.95, None)
    """
    match = _PERCENTILE.fullmatch(aggregate)
    return float(match[1]) / 100 if match else None


def column_name(value: object) -> str:
    """One column."""
    if not isinstance(value, str) or not value:
        raise ValueError("legal is the name of a column")
    return value


def choice(*legal: str) -> Callable[[object], str]:
    """One of some words."""

    def parse_choice(value: object) -> str:
        if not isinstance(value, str) or value not in legal:
            raise ValueError(f"legal are {', '.join(legal)}")
        return value

    return parse_choice


def template(value: object) -> KeyFormat:
    """A key with fields: `fleet/{robot}/alive`."""
    try:
        return KeyFormat(value if isinstance(value, str) else "")
    except EleaError as error:
        raise ValueError(f"legal is a key with fields, `fleet/{{robot}}/alive`: {error}") from error


def key_exprs(value: object) -> tuple[str, ...]:
    """Key expressions: a list, or one of them."""
    try:
        return tuple(str(KeyExpr.autocanonize(one)) for one in some_names(value))
    except EleaError as error:
        raise ValueError(f"legal are key expressions: {error}") from error


def predicate(value: object) -> Predicate:
    """A condition in the language of predicates."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("legal is a predicate such as `temp > 80`")
    try:
        found = parse(value)
        compile_predicate(found)
    except EleaError as error:
        raise ValueError(f"legal is a predicate such as `temp > 80`: {error}") from error
    return found


def _legal() -> str:
    return f"{', '.join(_AGGREGATES)}, and percentiles as p50, p99.9"

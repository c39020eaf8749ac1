"""What payloads hold: found out by looking at some, to make a plan or to see that one is old."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from elea.decode.columns.base import Decoder
from elea.decode.columns.rules import Rule
from elea.decode.layout import (
    PRIMITIVES,
    Layout,
    ListOf,
    Primitive,
    Structure,
    layout_text,
    parse_layout,
)
from elea.limits import DEFAULT_LIMITS

_TEXT: Final = PRIMITIVES["string"]
_UNFIT: Final = (ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Drift:
    """A member that payloads of a rule have, and its layout does not."""

    rule: int  # the place of the rule in its plan
    name: str
    layout: str  # what the member seems to be


def widened(rule: Rule, drift: Iterable[Drift]) -> Rule:
    """The rule with these members; those that it has already stay as they are."""
    layout = None if rule.layout is None else parse_layout(rule.layout)
    if not isinstance(layout, Structure):
        return rule
    members = dict(layout.members)
    for one in drift:
        members.setdefault(one.name, parse_layout(one.layout))
    return replace(rule, layout=layout_text(Structure(tuple(members.items()))))


def drift_of(place: int, decoder: Decoder, payloads: pa.Array) -> list[Drift]:
    """What some payloads hold and their layout does not."""
    if not isinstance(decoder.layout, Structure):
        return []
    known = {name.lower() for name, _ in decoder.layout.members}
    found: dict[str, Layout] = {}
    for payload in payloads:
        try:
            value = decoder.unknown(payload.as_py())
        except _UNFIT:
            continue  # it is a dead letter
        if not isinstance(value, dict):
            continue
        for name, inner in value.items():
            if name.lower() in known or len(found) >= DEFAULT_LIMITS.decode_columns_count:
                continue
            if not _is_text(name):
                continue
            seen = layout_of_values([inner])
            if seen is not None:
                found[name] = _merged(found[name], seen) if name in found else seen
    return [Drift(place, name, layout_text(layout)) for name, layout in found.items()]


def columns_count(drift: Drift) -> int:
    """How many columns a member is, those of structures counted."""
    return _leaves_count(parse_layout(drift.layout))


def _leaves_count(layout: Layout) -> int:
    match layout:
        case Structure():
            return sum(_leaves_count(member) for _, member in layout.members)
        case ListOf():
            return _leaves_count(layout.item)
        case _:
            return 1


def layout_of_values(values: Iterable[object]) -> Layout | None:
    """The layout that plain values have in common; None if all of them are null.

    Integers and floats make floats; what has nothing in common is a text, of which JSON is made.
    """
    found: Layout | None = None
    for value in values:
        seen = _layout_of(value)
        if seen is not None:
            found = seen if found is None else _merged(found, seen)
    return found


def _layout_of(value: object) -> Layout | None:
    match value:
        case None:
            return None
        case bool():
            return PRIMITIVES["bool"]
        case int():
            return PRIMITIVES["i64" if -(1 << 63) <= value < 1 << 63 else "f64"]
        case float():
            return PRIMITIVES["f64"]
        case bytes():
            return PRIMITIVES["bytes"]
        case list():
            item = layout_of_values(value)
            return None if item is None else ListOf(item)
        case dict():
            named = [(str(name), inner) for name, inner in value.items()]
            members = [(name, _layout_of(inner)) for name, inner in named if _is_text(name)]
            known = {name.lower(): (name, inner) for name, inner in members if inner is not None}
            return Structure(tuple(known.values())) if known else None
        case _:
            return _TEXT


def _is_text(name: str) -> bool:
    """Whether a column may have this name: JSON can name half a character, and no table can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _merged(a: Layout, b: Layout) -> Layout:
    match a, b:
        case _ if a == b:
            return a
        case Structure(), Structure():
            members = dict(a.members)
            for name, inner in b.members:
                members[name] = _merged(members[name], inner) if name in members else inner
            distinct = {name.lower(): (name, inner) for name, inner in members.items()}
            return Structure(tuple(distinct.values()))
        case ListOf(), ListOf():
            return ListOf(_merged(a.item, b.item))
        case Primitive(), Primitive() if {a.name, b.name} == {"i64", "f64"}:
            return PRIMITIVES["f64"]
        case _:
            return _TEXT

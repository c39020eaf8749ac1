"""Pipelines: what runners tell of themselves, as a browser is shown it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from elea.errors import KeyExprError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.operate.text import escape

PREFIX: Final = "@elea/pipeline/"
PARTS: Final = ("status", "definition", "batches")
_TABLES_COUNT: Final = 200
_BATCHES_COUNT: Final = 120
_EVENTS_COUNT: Final = 50
_TEXT_LEN: Final = 500
_STEADY: Final = 0.2  # of the lag: less change than that is none

Told = Mapping[str, Mapping[str, Json]]  # parts by name, of pipelines by name


def pipelines(told: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    """All pipelines that tell of themselves."""
    return {"pipelines": [_pipeline(name, told[name]) for name in sorted(told)]}


def lineage(told: Mapping[str, Mapping[str, Json]], key: str) -> list[Json]:
    """The tables that samples of a key go into: pipeline, table, level, kind."""
    found: list[Json] = []
    for name in sorted(told):
        tables = [_facts(one) for one in _items(_facts(told[name].get("definition")).get("tables"))]
        reached: set[str] = set()
        for _ in tables:  # whatever order they are in
            before = len(reached)
            for one in tables:
                keys = [str(expr) for expr in _items(one.get("keys"))]
                from_ = {str(source) for source in _items(one.get("from"))}
                if _is_of(keys, key) or from_ & reached:
                    reached.add(str(one.get("name")))
            if len(reached) == before:
                break
        for one in tables:
            if str(one.get("name")) in reached:
                texts = [_text(one.get(part)) for part in ("name", "level", "kind")]
                found.append([escape(name), *texts])
    return found[:_TABLES_COUNT]


def _is_of(expressions: Sequence[str], key: str) -> bool:
    try:
        asked = KeyExpr(key)
        return any(KeyExpr.autocanonize(one).intersects(asked) for one in expressions)
    except KeyExprError:
        return False


def _pipeline(name: str, parts: Mapping[str, Json]) -> Json:
    status, definition = _facts(parts.get("status")), _facts(parts.get("definition"))
    batches = _facts(_facts(parts.get("batches")).get("tables"))
    states = _facts(status.get("tables"))
    defined = [_facts(one) for one in _items(definition.get("tables"))]
    known = {str(one.get("name")) for one in defined}
    further = [{"name": one, "level": "bad"} for one in states if one not in known]
    rows: list[Json] = [
        _table(one, _facts(states.get(str(one.get("name")))), batches)
        for one in [*defined, *further][:_TABLES_COUNT]
    ]
    events = [_text(one) for one in _items(status.get("events"))][-_EVENTS_COUNT:]
    return {
        "name": escape(name),
        "state": _text(status.get("state")) or "unknown",
        "host": _text(status.get("host")),
        "pid": _number(status.get("pid")),
        "since": _number(status.get("since_s")),
        "at": _number(status.get("at_s")),
        "log": _text(definition.get("log")),
        "storage": _text(definition.get("storage")),
        "lag_error": _text(status.get("lag_error")),
        "tables": rows,
        "events": [*events[::-1]],
    }


def _table(one: Mapping[str, Json], state: Mapping[str, Json], batches: Mapping[str, Json]) -> Json:
    name = str(one.get("name"))
    history = [_items(batch) for batch in _items(batches.get(name))][-_BATCHES_COUNT:]
    lags = [batch[5] for batch in history if len(batch) > 5]
    publish = _facts(one.get("publish"))
    found: dict[str, Json] = {
        "name": escape(name),
        "kind": _text(one.get("kind")) or _text(state.get("kind")),
        "level": _text(one.get("level")),
        "from": [_text(source) for source in _items(one.get("from"))],
        "keys": [_text(key) for key in _items(one.get("keys"))],
        "publish": _text(publish.get("key")),
        "state": _text(state.get("state")) or "unknown",
        "error": _text(state.get("error")),
        "trend": trend([lag for lag in lags if isinstance(lag, int | float)]),
        "batches": [
            [_number(batch[0]), _number(batch[2]), _number(batch[3]), _number(batch[5])]
            for batch in history
            if len(batch) > 5
        ],
    }
    for field in ("rows", "added", "rate", "lag", "lag_s", "late", "batch_s", "restarts"):
        found[field] = _number(state.get(field))
    return found


def trend(lags: Sequence[float]) -> str:
    """Whether a lag grows: compared are the first and the last third of what is known.

    Example:
        >>> trend([1, 1, 2, 3, 4, 5]), trend([5, 4, 1]), trend([2, 2, 2]), trend([2])
        ('growing', 'falling', 'steady', '')
    """
    part = len(lags) // 3
    if not part:
        return ""
    before, now = sum(lags[:part]) / part, sum(lags[-part:]) / part
    if abs(now - before) <= _STEADY * max(abs(before), abs(now), 1.0):
        return "steady"
    return "growing" if now > before else "falling"


def _facts(value: object) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return escape(value)[:_TEXT_LEN] if isinstance(value, str) else ""


def _number(value: object) -> float | int | None:
    legal = isinstance(value, int | float) and not isinstance(value, bool) and -1e18 < value < 1e18
    return value if legal else None  # type: ignore[return-value]  # narrowed by `legal`

"""Feeds: traffic by key, what happened, the audit, pipelines, alerts, as parts of a frame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from elea.json5 import Json
from elea.operate.text import escape
from elea.web.ui.network import Network
from elea.web.ui.pipelines import lineage, pipelines
from elea.web.ui.told import KeyRate, loudest

_ROWS_COUNT: Final = 30
_TEXT_LEN: Final = 300
_MARKS: Final = {
    "joined": "joined",
    "left": "left",
    "refused": "refused",
    "login_refused": "refused",
    "over_quota": "dropped",
    "left_out": "refused",
}


def traffic(network: Network) -> dict[str, Json]:
    """The keys with the most traffic."""
    rows = network.told.traffic
    if rows is None:
        return {"traffic": None}
    total = sum(one.rate or 0.0 for one in rows)
    measured = not rows or any(one.rate is not None for one in rows)
    return {
        "traffic": [
            [escape(key), count, _round(rate), _round(octets), _round(100 * rate / (total or 1))]
            for key, count, rate, octets in loudest(rows)[:_ROWS_COUNT]
        ],
        "measured": measured,
        "keys": len(rows),
        "others": _others(network.told.others),
    }


def _others(one: KeyRate | None) -> Json:
    return None if one is None else [one.messages, _round(one.rate or 0.0)]


def events(network: Network, most: int) -> list[Json]:
    """What happened: told by the router, or else seen by the page; the newest last."""
    told = network.told.events
    if told is None:
        return [[at, mark, text] for at, mark, text in list(network.events)[-most:]]
    rows: list[tuple[float, str, str]] = []
    for one in told:
        name = str(one.get("event", ""))
        if name not in ("started", "admin_write"):
            rows.append((_time(one.get("time")), _MARKS.get(name, "other"), _event(network, one)))
    rows += [one for one in network.events if one[1] == "dropped"]
    return _merged(sorted(rows))[-most:]


def _merged(rows: list[tuple[float, str, str]]) -> list[Json]:
    """What happens again and again, once with its count and the last time."""
    found: list[tuple[float, str, str, int]] = []
    for at_s, mark, text in rows:
        if found and found[-1][1:3] == (mark, text):
            found[-1] = (at_s, mark, text, found[-1][3] + 1)
        else:
            found.append((at_s, mark, text, 1))
    return [
        [at_s, mark, text if count == 1 else f"{text}, {count} times"]
        for at_s, mark, text, count in found
    ]


def _event(network: Network, one: Mapping[str, Json]) -> str:
    name = str(one.get("event", ""))
    who = _who(network, one)
    rule = f", rule {one['rule']}" if one.get("rule") else ""
    what = " ".join(str(one[part]).replace("_", " ") for part in ("action", "key") if part in one)
    match name:
        case "joined" | "left":
            text = f"{who} {name}"
        case "refused":
            text = f"{who} refused: {what}{rule}"
        case "login_refused":
            text = f"login refused from {one.get('address', '?')}: {one.get('why', '')}"
        case "over_quota":
            text = f"{who} exceeds quota {one.get('quota', '')}"
        case "left_out":
            text = f"{one.get('count', '?')} further refusals of {who}"
        case _:
            text = f"{name.replace('_', ' ')} {what}".strip()
    return escape(text)[:_TEXT_LEN]


def _who(network: Network, one: Mapping[str, Json]) -> str:
    zid, proven = one.get("zid"), one.get("user")
    if isinstance(zid, str) and zid and not proven:
        return network.labels.label(zid, "client")
    return str(proven or one.get("identity") or "a node")


def refusals(network: Network, most: int) -> list[Json]:
    """What was refused to whom by which rule: counts, and when last."""
    found: dict[tuple[str, ...], list[Json]] = {}
    for one in network.told.events or ():
        if one.get("event") not in ("refused", "login_refused", "over_quota"):
            continue
        who = _who(network, one) if one.get("event") != "login_refused" else str(one.get("address"))
        action = str(one.get("action") or one.get("event")).replace("_", " ")
        rule = one.get("rule") or one.get("quota") or one.get("why") or one.get("reason") or ""
        parts = (who, action, str(one.get("key", "")), str(rule))
        row = found.setdefault(parts, [*(escape(part)[:_TEXT_LEN] for part in parts), 0, 0.0])
        row[4] = int(str(row[4])) + 1
        row[5] = _time(one.get("time"))
    ordered = sorted(found.values(), key=lambda row: -float(str(row[5])))
    return [*ordered[:most]]


def audit(network: Network) -> dict[str, Json]:
    """The last audit lines, and whether their chain holds."""
    told = network.told.audit
    if told is None:
        return {"audit": None}
    lines: list[Json] = []
    for one in told.get("lines") or ():  # type: ignore[union-attr]  # what is no list is told so
        text = one.get("line") if isinstance(one, dict) else None
        if isinstance(text, str):
            lines.append(_audit_line(text))
    broken = told.get("broken")
    return {
        "audit": lines[::-1],
        "broken": escape(broken) if isinstance(broken, str) else None,
        "lost": told.get("lost") if isinstance(told.get("lost"), int) else 0,
    }


def _audit_line(text: str) -> list[Json]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = {}
    if not isinstance(line, dict):
        line = {}
    hidden = ("time", "seq", "event", "prev", "hash")
    rest = {name: value for name, value in line.items() if name not in hidden and value}
    words = " ".join(f"{name}={_word(value)}" for name, value in rest.items())
    return [_time(line.get("time")), escape(str(line.get("event", "?"))), escape(words)[:1_000]]


def _word(value: Json) -> str:
    """A value of a line: links as locators without their ports."""
    if isinstance(value, list):
        return ",".join(map(_word, value))
    if isinstance(value, dict) and "protocol" in value:
        return f"{value['protocol']}/{value.get('address', '')}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def pipeline_part(network: Network, key: str) -> dict[str, Json]:
    """All pipelines; of a key, the tables it goes into."""
    told = network.told.pipelines
    found = pipelines(told)
    if key:
        found["lineage"] = lineage(told, key)
    return found


def pipeline_states(network: Network) -> list[Json]:
    """Each pipeline in a line: name, state, seconds behind, trend, tables, those that fail."""
    rows: list[Json] = []
    for one in pipelines(network.told.pipelines)["pipelines"]:  # type: ignore[union-attr]  # its list
        assert isinstance(one, dict)
        tables = [table for table in one["tables"] if isinstance(table, dict)]  # type: ignore[union-attr]
        lags = [(table["lag_s"], table["trend"]) for table in tables if table["lag_s"] is not None]
        lag, trend = max(lags, key=lambda lag: float(str(lag[0])), default=(None, ""))
        failing = [table["name"] for table in tables if table["state"] in ("failing", "failed")]
        rows.append([one["name"], one["state"], lag, trend, len(tables), failing])
    return rows


def _round(value: float) -> float:
    return round(value, 1)


def _time(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0

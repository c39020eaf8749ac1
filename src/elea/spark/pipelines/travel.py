"""Tables of a log as text: so they reach Spark's tasks, as options of a source."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from elea.decode.columns.plan import Plan
from elea.decode.columns.rules import Rule
from elea.spark.pipelines.definition import Archive, Decoded


def to_json(table: Archive | Decoded) -> dict[str, Any]:
    """A table, without what is published of it: that is for others."""
    told: dict[str, Any] = {"name": table.name, "key_exprs": list(table.key_exprs)}
    if isinstance(table, Archive):
        return told
    rules = [
        asdict(rule)
        | {"definitions": rule.definitions and base64.b64encode(rule.definitions).decode()}
        for rule in table.plan.rules
    ]
    return told | {
        "rules": rules,
        "unmatched": table.plan.unmatched,
        "key": table.key,
        "deletes": table.deletes,
        "drift": table.drift,
        "drift_max": table.drift_max,
    }


def from_json(told: Mapping[str, Any]) -> Archive | Decoded:
    """The same."""
    if "rules" not in told:
        return Archive(told["name"], tuple(told["key_exprs"]))
    rules = tuple(
        Rule(**one | {"definitions": one["definitions"] and base64.b64decode(one["definitions"])})
        for one in told["rules"]
    )
    return Decoded(
        name=told["name"],
        plan=Plan(rules, told["unmatched"]),
        key_exprs=tuple(told["key_exprs"]),
        key=told["key"],
        deletes=told["deletes"],
        drift=told["drift"],
        drift_max=told["drift_max"],
    )


def dumps(tables: Sequence[Archive | Decoded]) -> str:
    """Tables as one text."""
    return json.dumps([to_json(table) for table in tables])


def loads(text: str) -> tuple[Archive | Decoded, ...]:
    """The same."""
    return tuple(from_json(one) for one in json.loads(text))

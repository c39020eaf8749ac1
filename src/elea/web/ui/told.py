"""Told: what nodes and services tell beside themselves, asked for while a view of it is open."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from elea.ids import WhatAmI
from elea.json5 import Json
from elea.query import QueryTarget
from elea.session.session import Session
from elea.web.ui.alerts import Alerts
from elea.web.ui.pipelines import PARTS, PREFIX

_TIMEOUT_S: Final = 5.0
_TOP_COUNT: Final = 2_000
_BINS_COUNT: Final = 120
_KEPT_COUNT: Final = 1_000
_LONG_S: Final = 20.0  # between two looks at what costs a log more


def home(session: Session) -> str:
    """The node whose services and counters are shown: of a client, its router."""
    if session.config.mode is WhatAmI.CLIENT:
        for zid in session.info.routers_zid():
            return str(zid)
    return str(session.zid())


class Topic(Enum):
    """What may be asked for."""

    TRAFFIC = "traffic"
    FEED = "feed"
    AUDIT = "audit"
    PIPELINES = "pipelines"
    LOGS = "logs"
    KEYS = "keys"
    ALERTS = "alerts"


@dataclass(frozen=True, slots=True)
class KeyRate:
    """What this node receives on a key; None: not known yet."""

    key: str
    messages: int
    octets: int
    age_s: float
    rate: float | None
    octets_rate: float | None


class Told:
    """The last answers. `refresh` is called by one worker at a time.

    Args:
        session: Asks.
        idle_s: How long a topic is asked for after a view of it was closed.
    """

    def __init__(self, session: Session, idle_s: float) -> None:
        self._session = session
        self._idle_s = idle_s
        self._wanted_until_s: dict[Topic, float] = {}
        self._asked_s: dict[Topic, float] = {}
        self.traffic: list[KeyRate] | None = None
        self.counted_s = 0.0
        self.others: KeyRate | None = None
        self._before: tuple[float, dict[str, tuple[int, int]]] = (0.0, {})
        self.events: deque[dict[str, Json]] | None = None  # None: the node tells of none
        self._last_event = 0
        self.audit: dict[str, Json] | None = None
        self.pipelines: dict[str, dict[str, Json]] = {}
        self.densities: dict[str, Json] = {}
        self.log_infos: dict[str, Json] = {}
        self.recorded: frozenset[str] = frozenset()  # keys that logs have rows of
        self.alerts = Alerts()

    def want(self, topics: tuple[Topic, ...]) -> None:
        """A view of these is open."""
        until_s = time.monotonic() + self._idle_s
        for one in topics:
            self._wanted_until_s[one] = until_s

    def refresh(self) -> None:
        """Ask for what is wanted."""
        now_s = time.monotonic()
        for topic, ask in (
            (Topic.TRAFFIC, self._read_traffic),
            (Topic.FEED, self._read_events),
            (Topic.AUDIT, self._read_audit),
            (Topic.PIPELINES, self._read_pipelines),
            (Topic.LOGS, self._read_logs),
            (Topic.KEYS, self._read_keys),
            (Topic.ALERTS, lambda: self.alerts.follow(self._session)),
        ):
            if now_s < self._wanted_until_s.get(topic, 0.0):
                ask()
        if now_s >= self._wanted_until_s.get(Topic.TRAFFIC, 0.0):
            self.traffic, self._before = None, (0.0, {})  # it is counted no more
        if now_s >= self._wanted_until_s.get(Topic.ALERTS, 0.0):
            self.alerts.leave()

    def leave(self) -> None:
        """No view is open any more."""
        self.alerts.leave()

    def _own(self, name: str) -> str:
        return f"@/{home(self._session)}/*/{name}"

    def _read_traffic(self) -> None:
        for _, told in self._ask(f"{self._own('keys')}?top={_TOP_COUNT}"):
            at_s, counts = time.monotonic(), {}
            rows: list[KeyRate] = []
            before_s, before = self._before
            passed_s = at_s - before_s if before_s else 0.0
            given = [*_items(told.get("keys")), *(["", *_items(one)] for one in _others(told))]
            for one in given:
                key, messages, octets, age_s = _counter(one)
                counts[key] = messages, octets
                then = before.get(key, (0, 0)) if before_s else None
                known = then is not None and passed_s > 0 and messages >= then[0]
                row = KeyRate(
                    key,
                    messages,
                    octets,
                    age_s,
                    (messages - then[0]) / passed_s if then is not None and known else None,
                    (octets - then[1]) / passed_s if then is not None and known else None,
                )
                rows.append(row)
            self.traffic = [one for one in rows if one.key]
            self.others = next((one for one in rows if not one.key), None)
            self._before = at_s, counts
            counted_s = told.get("counted_s")
            self.counted_s = counted_s if isinstance(counted_s, int | float) else 0.0

    def _read_events(self) -> None:
        for _, told in self._ask(f"{self._own('events')}?after={self._last_event};max=500"):
            last = told.get("last")
            if not isinstance(last, int):
                continue
            if self.events is None or last < self._last_event:  # the node is another one
                self.events = deque(maxlen=_KEPT_COUNT)
            self._last_event = last
            self.events.extend(one for one in _items(told.get("events")) if isinstance(one, dict))

    def _read_audit(self) -> None:
        self.audit = next((told for _, told in self._ask(f"{self._own('audit')}?max=200")), None)

    def _read_pipelines(self) -> None:
        found: dict[str, dict[str, Json]] = {}
        for key, told in self._ask(f"{PREFIX}*/*"):
            name, _, part = key.removeprefix(PREFIX).partition("/")
            if part in PARTS:
                found.setdefault(name, {})[part] = told
        self.pipelines = found

    def _is_due(self, topic: Topic) -> bool:
        now_s = time.monotonic()
        if now_s - self._asked_s.get(topic, -_LONG_S) < _LONG_S:
            return False
        self._asked_s[topic] = now_s
        return True

    def _read_keys(self) -> None:
        if self._is_due(Topic.KEYS):
            told = [one.get("keys") for _, one in self._ask("@elea/log/*/keys")]
            found = {key for one in told if isinstance(one, dict) for key in one if "*" not in key}
            self.recorded = frozenset(found)

    def _read_logs(self) -> None:
        if not self._is_due(Topic.LOGS):
            return
        self.densities = {
            key.split("/")[2]: told
            for key, told in self._ask(f"@elea/log/*/density?bins={_BINS_COUNT}")
        }
        self.log_infos = {key.split("/")[2]: told for key, told in self._ask("@elea/log/*/info")}

    def _ask(self, selector: str) -> Iterator[tuple[str, dict[str, Json]]]:
        replies = self._session.get(selector, target=QueryTarget.ALL, timeout=_TIMEOUT_S)
        for reply in replies:
            if reply.ok is None:
                continue
            try:
                told = json.loads(reply.ok.payload.to_bytes())
            except (ValueError, RecursionError):
                continue
            if isinstance(told, dict):
                yield str(reply.ok.key_expr), told


def _items(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def _others(told: dict[str, Json]) -> list[Json]:
    return _items(told.get("others"))


def _counter(value: Json) -> tuple[str, int, int, float]:
    """A row of the counters; zeros for what is not one."""
    row = _items(value)
    if len(row) != 4 or not isinstance(row[0], str):
        return "", 0, 0, 0.0
    numbers = [one if isinstance(one, int | float) else 0 for one in row[1:]]
    return row[0], int(numbers[0]), int(numbers[1]), float(numbers[2])


def loudest(rows: list[KeyRate], siblings_max: int = 8) -> list[tuple[str, int, float, float]]:
    """Keys with the most traffic, many of one form as one: key, keys of it, per second, bytes.

    A chunk with more than `siblings_max` siblings becomes `*`.

    Example:
        >>> rows = [KeyRate(f"r{n}/imu", 1, 1, 0.0, 2.0, 9.0) for n in range(9)]
        >>> loudest(rows), loudest(rows[:1])
        ([('*/imu', 9, 18.0, 81.0)], [('r0/imu', 1, 2.0, 9.0)])
    """
    children: dict[str, set[str]] = {}
    for row in rows:
        parent = ""
        for chunk in row.key.split("/"):
            children.setdefault(parent, set()).add(chunk)
            parent = f"{parent}/{chunk}"
    sums: dict[str, tuple[int, float, float]] = {}
    for row in rows:
        parent, form = "", []
        for chunk in row.key.split("/"):
            form.append("*" if len(children[parent]) > siblings_max else chunk)
            parent = f"{parent}/{chunk}"
        key = "/".join(form)
        count, rate, octets = sums.get(key, (0, 0.0, 0.0))
        sums[key] = count + 1, rate + (row.rate or 0.0), octets + (row.octets_rate or 0.0)
    found = [(key, *one) for key, one in sums.items()]
    return sorted(found, key=lambda one: (-one[2], one[0]))

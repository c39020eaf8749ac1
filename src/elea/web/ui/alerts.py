"""Alerts: raised and cleared, by what is published on `alerts/**`; told twice, shown once."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from elea.errors import EleaError
from elea.json5 import Json
from elea.operate.text import escape
from elea.sample import Reply, Sample
from elea.selector import Selector
from elea.session.handlers import Callback
from elea.session.session import Session
from elea.session.subscriber import Subscriber
from elea.timestamp import Timestamp

KEYS: Final = "alerts/**"
_KEPT_COUNT: Final = 500
_PAYLOAD_LEN: Final = 16 * 1024
_PAST: Final = "_time=[now(-24h)..];_order=time"
_TIMEOUT_S: Final = 5.0
_TEXT_LEN: Final = 400
_KNOWN: Final = ("id", "state", "at", "since", "sample_key", "values")


@dataclass(slots=True)
class Alert:
    """One alert, from when it was raised to when it was cleared."""

    id: str
    key: str
    groups: str
    sample_key: str
    values: str
    raised_s: float | None = None
    cleared_s: float | None = None

    def json(self) -> list[Json]:
        """As a browser is given it."""
        return [
            *(self.id, self.key, self.groups, self.raised_s, self.cleared_s),
            *(self.sample_key, self.values),
        ]


class Alerts:
    """What is known of alerts, while somebody looks. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Alert] = {}  # by id; the oldest first
        self.invalid_count = 0
        self.revision = 0
        self._subscriber: Subscriber[None] | None = None

    @property
    def is_following(self) -> bool:
        """Whether it is subscribed to them."""
        return self._subscriber is not None

    def follow(self, session: Session) -> None:
        """Subscribe, and ask for those of a day. Called by a worker."""
        if self._subscriber is None:
            self._subscriber = session.declare_subscriber(KEYS, Callback(self.note, indirect=False))
            # Nobody waits for it: who answers late would hold up the first view.
            heard = Callback(self._replied, indirect=False)
            session.get(Selector(f"{KEYS}?{_PAST}"), heard, timeout=_TIMEOUT_S)

    def _replied(self, reply: Reply) -> None:
        if reply.ok is not None:
            self.note(reply.ok)

    def leave(self) -> None:
        """Nobody looks any more."""
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            try:
                subscriber.undeclare()
            except EleaError:
                return  # the session is closed

    def note(self, sample: Sample) -> None:
        """An event of an alert, if it is one."""
        key = str(sample.key_expr)
        told = _told(sample)
        if told is None:
            self.invalid_count += 1
            return
        stamp = sample.timestamp
        at_s = _seconds(told.get("at")) or _stamp_s(stamp)
        with self._lock:
            alert = self._known.pop(str(told["id"]), None) or _alert(key, told)
            if told["state"] == "raised":
                alert.raised_s = at_s
                alert.values = _text(told.get("values"))
            else:
                alert.cleared_s = at_s
                alert.raised_s = alert.raised_s or _seconds(told.get("since"))
            self._known[str(told["id"])] = alert
            while len(self._known) > _KEPT_COUNT:
                del self._known[next(iter(self._known))]
            self.revision += 1

    def told(self, most: int) -> dict[str, Json]:
        """Those that are raised first, then the others, the newest first."""
        with self._lock:
            known = list(self._known.values())
        raised = [one for one in known if one.cleared_s is None]
        cleared = [one for one in known if one.cleared_s is not None]
        raised.sort(key=lambda one: -(one.raised_s or 0))
        cleared.sort(key=lambda one: -(one.cleared_s or 0))
        rows: list[Json] = [one.json() for one in [*raised, *cleared][:most]]
        return {
            "alerts": rows,
            "raised": len(raised),
            "skip": max(0, len(known) - most),
            "invalid": self.invalid_count,
        }


def _told(sample: Sample) -> Mapping[str, object] | None:
    payload = sample.payload
    if len(payload) > _PAYLOAD_LEN:
        return None
    try:
        told = json.loads(payload.to_bytes())
    except (ValueError, RecursionError):
        return None
    legal = isinstance(told, dict) and isinstance(told.get("id"), str)
    return told if legal and told.get("state") in ("raised", "cleared") else None


def _alert(key: str, told: Mapping[str, object]) -> Alert:
    groups = " ".join(f"{name} {value}" for name, value in told.items() if name not in _KNOWN)
    return Alert(
        _text(told["id"]),
        escape(key),
        _text(groups),
        _text(told.get("sample_key")),
        _text(told.get("values")),
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return escape(value if isinstance(value, str) else json.dumps(value))[:_TEXT_LEN]


def _seconds(value: object) -> float | None:
    """A time of JSON, as tables write them: ISO, or microseconds."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value / 1e6 if value > 1e11 else float(value)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _stamp_s(stamp: Timestamp | None) -> float | None:
    return None if stamp is None else stamp.get_time_as_ntp64().as_secs_f64()

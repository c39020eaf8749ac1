"""States of routes, and the log lines that tell of changes (D-310, D-755)."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from elea.dds.routes import RouteId

LOG: Final = logging.getLogger("elea.dds")
_QUIET_NS: Final = 60_000_000_000  # between two lines of one route and reason
_REASONS_COUNT_MAX: Final = 16


class State(Enum):
    """What a route does."""

    ACTIVE = "Active"
    WAITING = "Waiting"  # no subscriber wants it
    STANDBY = "Standby"  # another bridge serves the domain
    NO_TYPE = "NoType"
    FAILED = "Failed"
    FULL = "Full"


class StateCell:
    """The state of one route; says in the log when it changes."""

    __slots__ = ("_logged", "_route", "error", "next_ns", "value")

    def __init__(self, route: RouteId) -> None:
        self._route = route
        self._logged: dict[tuple[str, str], int] = {}
        self.value = State.WAITING
        self.error = ""
        self.next_ns: int | None = None  # of the next attempt, monotonic

    def set(self, value: State, now_ns: int, error: str = "", next_ns: int | None = None) -> None:
        """Change the state; the same state and reason are told once a minute at most."""
        self.next_ns = next_ns
        if (value, error) == (self.value, self.error):
            return
        self.value, self.error = value, error
        level = logging.WARNING if value in (State.FAILED, State.FULL) else logging.INFO
        self._log(level, value.value, f": {error!a}" if error else "", now_ns)

    def warn(self, text: str, now_ns: int) -> None:
        """Tell of samples of the route; the same text once a minute at most."""
        self._log(logging.WARNING, text, "", now_ns)

    def warn_replaced(self, guid: bytes, now_ns: int) -> None:
        """Tell that source times of a writer are not used as stamps (D-542)."""
        text = (
            f"source time of writer {guid.hex()} is absent, before 1970 or ahead of this host's"
            " clock: stamped by this node, the source time is in the attachment"
        )
        self.warn(text, now_ns)

    def _log(self, level: int, text: str, reason: str, now_ns: int) -> None:
        seen = (text, reason)
        if now_ns - self._logged.get(seen, -_QUIET_NS) < _QUIET_NS:
            return
        if len(self._logged) >= _REASONS_COUNT_MAX:
            self._logged.clear()
        self._logged[seen] = now_ns
        route = self._route
        LOG.log(
            level,
            "route %s %a (topic %a, type %a): %s%s",
            route.direction.value,
            route.key,
            route.topic,
            route.type_name,
            text,
            reason,
        )

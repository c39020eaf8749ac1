"""Supervision: what failed is begun again, later each time, and not for ever."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ATTEMPTS_MAX: Final = 10  # failures in a row after which something is given up
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0
_GOOD_S: Final = 300.0  # who worked that long has not failed in a row
_SHOWN_LEN: Final = 500
_RAISED: Final = re.compile(r"[\w.]+(Error|Exception)(:|$)")


@dataclass(slots=True)
class Supervision:
    """Of one query or one table: whether it may begin, and what went wrong.

    Attributes:
        restarts_count: How often it was begun again.
        error: What went wrong last; None: nothing did.
    """

    attempts_max: int = ATTEMPTS_MAX
    restarts_count: int = 0
    error: str | None = None
    failures_count: int = 0
    _next_s: float = 0.0
    _begun_s: float | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether it failed too often."""
        return self.failures_count >= self.attempts_max

    def may_begin(self, now_s: float) -> bool:
        """Whether it is time to begin, or to begin again."""
        return not self.is_given_up and now_s >= self._next_s

    def begins(self, now_s: float) -> None:
        """It begins now."""
        if self.failures_count:
            self.restarts_count += 1
        self._begun_s = now_s

    def works(self) -> None:
        """It has done what it is for."""
        self.failures_count = 0

    def fails(self, error: BaseException | str, now_s: float) -> None:
        """It ended with an error."""
        if self._begun_s is not None and now_s - self._begun_s >= _GOOD_S:
            self.failures_count = 0
        self._begun_s = None
        self.failures_count += 1
        self.error = told(error)
        wait_s = min(_FIRST_S * 2 ** (self.failures_count - 1), _LAST_S)
        self._next_s = now_s + wait_s


def told(error: BaseException | str) -> str:
    """An error in a line; of Spark's the message, without Java's frames."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = [line for line in lines if not line.startswith(("at ", "JVM stacktrace"))]
    if any(line.startswith("Traceback") or "Traceback (most" in line for line in chosen):
        # Of Python's frames, what was raised is at the end.
        chosen = [line for line in chosen if _RAISED.match(line)][-1:] or chosen
    return " ".join(chosen)[:_SHOWN_LEN]

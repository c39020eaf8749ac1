"""Pacer: when a row of the past is due now. It is told the time and never looks at a clock.

The past and the present are two lines; the pacer holds one point that lies on both and how fast the
past goes by. Every change moves the point to where the replay is and leaves what was played alone:

    due = anchor_now + (time of the row - anchor_past) / speed

Speed 0 means as fast as possible: everything is due at once. All times are in nanoseconds.
"""

from __future__ import annotations

import math

from elea.errors import InvalidValueError


def checked_speed(speed: float) -> float:
    """A speed: 0 or more, and finite.

    Raises:
        InvalidValueError: it is not.
    """
    if isinstance(speed, bool) or not isinstance(speed, int | float):
        raise InvalidValueError("speed", f"saw {speed!r}; legal is a number, 0 or more")
    if not math.isfinite(speed) or speed < 0:
        reason = "legal is 0 (as fast as possible) or more, as 0.5, 1 or 20"
        raise InvalidValueError("speed", f"saw {speed}; {reason}")
    return float(speed)


class Pacer:
    """Maps the time of rows to the time of the one who publishes them.

    Args:
        speed: How much of the past goes by in a second; 0 is as fast as possible.

    Example:
        >>> pacer = Pacer(2.0)
        >>> pacer.seek(1_000, now_ns=50)
        >>> pacer.due_ns(1_400)
        250
        >>> pacer.pause(now_ns=150)
        >>> pacer.position_ns(now_ns=9_999), pacer.due_ns(1_400)
        (1200, None)
    """

    __slots__ = ("_anchor_now_ns", "_anchor_past_ns", "_paused", "_speed")

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = checked_speed(speed)
        self._paused = False
        self._anchor_past_ns = 0
        self._anchor_now_ns = 0

    @property
    def speed(self) -> float:
        """How much of the past goes by in a second; 0 is as fast as possible."""
        return self._speed

    @property
    def paused(self) -> bool:
        """Whether nothing is due until `resume`."""
        return self._paused

    def due_ns(self, past_ns: int) -> int | None:
        """When a row of this time is to be published; None while paused.

        As fast as possible, that is the time of the last change: always over.
        """
        if self._paused:
            return None
        if self._speed == 0:
            return self._anchor_now_ns
        return self._anchor_now_ns + round((past_ns - self._anchor_past_ns) / self._speed)

    def position_ns(self, now_ns: int) -> int:
        """Where in the past the replay should be; as fast as possible, where `reached` said."""
        if self._paused or self._speed == 0:
            return self._anchor_past_ns
        passed_ns = max(now_ns - self._anchor_now_ns, 0)
        return self._anchor_past_ns + round(passed_ns * self._speed)

    def behind_ns(self, past_ns: int, now_ns: int) -> int:
        """How much later than it was due a row of this time is published now."""
        due_ns = self.due_ns(past_ns)
        if due_ns is None or self._speed == 0:
            return 0
        return max(now_ns - due_ns, 0)

    def seek(self, past_ns: int, now_ns: int) -> None:
        """Go on from there."""
        self._anchor_past_ns = past_ns
        self._anchor_now_ns = now_ns

    def reached(self, past_ns: int) -> None:
        """A row of this time was published: where a replay without speed is."""
        if self._speed == 0:
            self._anchor_past_ns = past_ns

    def set_speed(self, speed: float, now_ns: int) -> None:
        """Go on as fast as this, from where it is.

        Raises:
            InvalidValueError: it is negative or no number.
        """
        checked = checked_speed(speed)
        self.seek(self.position_ns(now_ns), now_ns)
        self._speed = checked

    def pause(self, now_ns: int) -> None:
        """Let nothing be due; again is no error."""
        self.seek(self.position_ns(now_ns), now_ns)
        self._paused = True

    def resume(self, now_ns: int) -> None:
        """Go on where it was paused; again is no error."""
        if self._paused:
            self.seek(self._anchor_past_ns, now_ns)
            self._paused = False

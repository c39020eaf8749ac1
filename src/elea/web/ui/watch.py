"""Watch: the last value of each key that some browser shows, one subscriber for all of them.

A subscriber is declared for exactly the key, when it comes into view, and undeclared when it has
left the view of all. What is kept of a key is its last sample, cut to a bound, and counts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from elea.encoding import Encoding
from elea.errors import EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import Limits
from elea.provenance import SampleKind, SourceInfo
from elea.sample import Sample
from elea.session.handlers import Callback
from elea.session.session import Session
from elea.session.subscriber import Subscriber
from elea.timestamp import Timestamp

_WINDOW_S: Final = 5.0  # over which a rate is taken
_MARKS_COUNT: Final = 16


@dataclass(slots=True)  # not frozen: one is made for each sample, and that would cost twice as much
class Value:
    """A sample, as much of it as is shown."""

    kind: SampleKind
    payload: bytes  # its beginning
    length: int
    encoding: Encoding
    timestamp: Timestamp | None
    source: SourceInfo | None  # id and number of its publisher, if it tells
    attachment_len: int
    at_s: float


@dataclass(slots=True)
class Watched:
    """A key that is watched."""

    key: str
    users_count: int = 0
    value: Value | None = None
    count: int = 0  # samples since it is watched
    since_s: float = field(default_factory=time.monotonic)
    subscriber: Subscriber[None] | None = None
    error: str = ""
    left_out: bool = False  # too many are watched already
    trail: deque[tuple[int, Value]] | None = None  # each new sample and its number, for plots
    plots_count: int = 0
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MARKS_COUNT))

    def rate(self, now_s: float) -> float | None:
        """Samples per second over the last seconds; None until that is known."""
        if not self.marks or now_s - self.marks[-1][0] >= _WINDOW_S / _MARKS_COUNT:
            self.marks.append((now_s, self.count))
        first_s, first = self.marks[0]
        for at_s, count in self.marks:
            if now_s - at_s <= _WINDOW_S:
                break
            first_s, first = at_s, count
        span_s = now_s - first_s
        return (self.count - first) / span_s if span_s >= 1 else None


class Watch:
    """All keys that are watched, for all browsers.

    `enter` and `leave` declare and undeclare: they are called by workers, not on the loop.
    """

    def __init__(self, session: Session, limits: Limits) -> None:
        self._session = session
        self._limits = limits
        self._lock = threading.Lock()
        self._keys: dict[str, Watched] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def enter(self, key: str) -> Watched:
        """Watch a key; if too many are watched already, it has no subscriber but an error."""
        with self._lock:
            watched = self._keys.get(key)
            if watched is not None:
                watched.users_count += 1
                return watched
            if len(self._keys) >= self._limits.ui_watched_count:
                error = f"too many keys are watched: {len(self._keys)}"
                return Watched(key, 1, error=error, left_out=True)
            watched = self._keys[key] = Watched(key, 1)
            self._declare(watched)
            return watched

    def leave(self, watched: Watched) -> None:
        """One browser shows a key no more."""
        with self._lock:
            watched.users_count -= 1
            if watched.users_count or watched.left_out:
                return
            del self._keys[watched.key]
            subscriber, watched.subscriber = watched.subscriber, None
        if subscriber is not None:
            with contextlib.suppress(EleaError):  # the session is closed
                subscriber.undeclare()

    def follow(self, watched: Watched) -> bool:
        """Keep each new sample, too; False if that is done for too many keys already."""
        with self._lock:
            if watched.trail is None:
                kept = sum(one.trail is not None for one in self._keys.values())
                if kept >= self._limits.ui_trails_count:
                    return False
                watched.trail = deque(maxlen=self._limits.ui_trail_count)
            watched.plots_count += 1
            return True

    def unfollow(self, watched: Watched) -> None:
        """One plot less shows them."""
        with self._lock:
            watched.plots_count -= 1
            if not watched.plots_count:
                watched.trail = None

    def _declare(self, watched: Watched) -> None:
        def received(sample: Sample) -> None:
            value = self._value(sample)
            watched.count += 1
            watched.value = value
            trail = watched.trail
            if trail is not None:
                trail.append((watched.count, value))

        try:
            watched.subscriber = self._session.declare_subscriber(
                KeyExpr(watched.key), Callback(received, indirect=False)
            )
        except EleaError as error:
            watched.error = str(error)

    def _value(self, sample: Sample) -> Value:
        """The beginning of a sample, as cheap as can be: most are replaced before they are shown.

        Nothing of a long one is copied that is not shown.
        """
        view = sample.payload.view()
        return Value(
            sample.kind,
            bytes(view[: self._limits.ui_value_len]),
            len(view),
            sample.encoding,
            sample.timestamp,
            sample.source_info,
            0 if sample.attachment is None else len(sample.attachment),
            time.monotonic(),
        )

"""`declare_subscriber(..., since=...)`: what was published since a time, then what is published.

Subscribe, hold what comes, ask historians (or any storage that keeps versions) for what was; ask
again a moment later, for what was on its way, and again until history reaches what is held; put
both together (`seam.py`). The questions travel behind all other data, so that no sample that they
are about is overtaken by them on a link.

    history  ->  settle  ->  behind?  ->  live  ->  a last look at what came late
                   ^          |  so often: has it come to what is held?
                   +----------+  then all that was on its way, once more
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from elea.errors import EleaError, InvalidValueError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.qos import CongestionControl, Locality, Priority, QoS
from elea.query import ConsolidationMode, QueryTarget
from elea.records import dataclass
from elea.sample import Reply, ReplyError, Sample
from elea.selector import Selector
from elea.session.core import SessionCore
from elea.session.deliver import Subscription
from elea.session.face import Face, Timer
from elea.session.outlet import END, CallbackOutlet, Channel, Outlet
from elea.session.queries import TIMEOUT_ERROR, Ask
from elea.session.seam import Seam
from elea.timerange import TimeExpr, TimeRange
from elea.timestamp import NTP64, Timestamp

IntoSince: TypeAlias = str | Timestamp | datetime | timedelta

_LOGGER: Final = logging.getLogger("elea.session")
_QUESTION_NS: Final = 10_000_000_000
_AGAIN_NS: Final = 1_000_000_000  # a historian that is busy is asked again after this
_BUSY_COUNT_MAX: Final = 10  # so often
_ERRORS_COUNT_MAX: Final = 16  # that are kept
_LATER_NS: Final = 2_000_000  # a handler that is full is looked at again after this
_AHEAD_COUNT: Final = 1_024  # values that may wait for a function
_QOS: Final = QoS(Priority.BACKGROUND, CongestionControl.BLOCK).to_octet()


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """How a subscriber with `since` is doing.

    Args:
        is_live: Whether history was given, and samples are given as they come.
        is_answered: Whether any history came at all. If not, nobody keeps any, or there is none.
        history_count: Samples that came from history.
        duplicate_count: Samples that came twice and were given once.
        refused_count: Samples for which there was no room while they had to wait.
        late_count: Samples of history that came when later ones were given already, so they were
            not.
        behind_count: Keys of publishers whose history did not reach their first live sample in
            `since_lag_ns`: they are not recorded, or samples between the two may be missing.
        errors: What was answered in place of history; if there is any, history has gaps.
    """

    is_live: bool
    is_answered: bool
    history_count: int
    duplicate_count: int
    refused_count: int
    late_count: int
    behind_count: int
    errors: tuple[str, ...]


class Past:
    """Stands between a subscription and its handler. Everything happens under the lock."""

    def __init__(
        self,
        core: SessionCore,
        key: str,
        outlet: Outlet,
        since: IntoSince,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._core = core
        self._face = core.face
        self._key = key
        self._limits = limits
        now_ns = self._face.wall_ns()
        self._start_ns = start_of(since, now_ns)
        self._outflow = _Outflow(self._face, outlet)
        self._seam = Seam(self._outflow.give, now_ns, start_ns=self._start_ns, limits=limits)
        self._settled_ns = self._face.now_ns() + limits.since_settle_ns
        self._is_answered = self._is_settling = self._is_behind = False
        self._until_ns: int | None = None  # of what is asked for; None: all
        self._busy_count = self._refused_count = self._behind_count = 0
        self._errors: list[str] = []
        self._cut_ns: int | None = None
        self._is_busy = False
        self._timer: Timer | None = None
        self._ended = False

    def begin(self, origin: Locality) -> Subscription:
        """Subscribe, and ask for what was."""
        subscription = self._core.subscribe(self._key, _Direct(self._received), origin)
        self._ask(self._start_ns)
        return subscription

    def status(self) -> HistoryStatus:
        """How far it is."""
        seam = self._seam
        return HistoryStatus(
            seam.is_closed and not len(self._outflow),
            self._is_answered,
            seam.history_count,
            seam.duplicate_count,
            seam.refused_count + self._refused_count,
            seam.late_count,
            self._behind_count,
            tuple(self._errors),
        )

    def _received(self, value: object) -> None:
        if value is END:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            self._outflow.end()
        elif isinstance(value, Sample):
            if self._seam.is_closed and len(self._outflow) >= self._limits.since_held_count:
                self._refused_count += 1
            else:
                self._seam.live(value)

    def _ask(self, from_ns: int) -> None:
        if self._ended:
            return
        if len(self._outflow) and not self._seam.is_closed:  # what came before is not read yet
            self._later(_LATER_NS, from_ns)
            return
        if from_ns <= self._seam.tail_ns and self._face.now_ns() >= self._settled_ns:
            self._is_settling = True  # all that may have been on its way is asked for
        self._cut_ns, self._is_busy = None, False
        until = None if self._until_ns is None else TimeExpr(self._until_ns)
        times = TimeRange(TimeExpr(from_ns), until, end_included=until is None)
        ask = Ask(
            key=self._key,
            parameters=f"_time={times};_order=time;_kinds=put,delete",
            target=QueryTarget.ALL,
            consolidation=ConsolidationMode.NONE,
            timeout_ns=_QUESTION_NS,
            qos=_QOS,
        )
        self._core.get(ask, _Direct(lambda value: self._answer(value, from_ns)))

    def _answer(self, value: object, from_ns: int) -> None:
        if self._ended:
            return
        if value is END:
            self._answered(from_ns)
        elif isinstance(value, Reply):
            if isinstance(value.result, Sample):
                self._is_answered = True
                self._seam.history(value.result)
            else:
                self._refused(value.result, is_timeout=value is TIMEOUT_ERROR)

    def _refused(self, error: ReplyError, *, is_timeout: bool) -> None:
        text = error.payload.to_bytes().decode(errors="replace")
        kind, next_ns = _read_error(text)
        if next_ns is not None:
            self._is_answered = True
            self._cut_ns = next_ns if self._cut_ns is None else min(self._cut_ns, next_ns)
        elif kind == "busy" and self._busy_count < _BUSY_COUNT_MAX:
            self._is_busy = True
        else:
            told = f"no answer in {_QUESTION_NS / 1e9:g} s" if is_timeout else text
            if len(self._errors) < _ERRORS_COUNT_MAX:
                self._errors.append(told)
            _LOGGER.warning("history of %s has gaps: %s", self._key, told)

    def _answered(self, from_ns: int) -> None:
        """A question is answered: go on with the next one, or with live samples."""
        if self._is_busy:
            self._busy_count += 1
            self._later(_AGAIN_NS, from_ns)
            return
        self._seam.answered(self._cut_ns)
        if self._cut_ns is not None and self._cut_ns > from_ns:
            self._ask(self._cut_ns)
        elif self._seam.is_closed:
            self._looked()
        elif not self._is_settling:
            left_ns = max(self._settled_ns - self._face.now_ns(), 0)
            # If nobody has answered, who does may still be unknown here.
            self._later(left_ns, self._seam.tail_ns if self._is_answered else self._start_ns)
        else:
            self._settle()

    def _settle(self) -> None:
        """Go live, if history reaches what is held; else see later whether it does."""
        behind_ns = self._seam.behind() if self._is_answered else None
        patience_ns = self._settled_ns + self._limits.since_lag_ns - self._face.now_ns()
        if behind_ns is not None and patience_ns > 0:
            self._is_behind = True
            self._later(_AGAIN_NS, behind_ns)
        elif self._is_behind:  # it has come: so has all that was before it
            self._is_behind = False
            self._ask(self._seam.tail_ns)
        else:
            self._go_live()

    def _later(self, delay_ns: int, from_ns: int) -> None:
        self._timer = self._face.call_after(delay_ns, lambda: self._ask(from_ns))

    def _go_live(self) -> None:
        self._seam.close(self._face.wall_ns())
        if not self._is_answered:
            _LOGGER.warning(
                "no history of %s: no historian answered, or nothing was recorded", self._key
            )
        elif self._seam.behind_count:
            self._behind_count = self._seam.behind_count
            _LOGGER.warning(
                "history of %s does not reach what is live for %d keys: they are not recorded, "
                "or samples are missing as the recorder is more than %g s behind",
                self._key,
                self._behind_count,
                self._limits.since_lag_ns / 1e9,
            )
        self._timer = self._face.call_after(self._limits.since_overlap_ns, self._look_back)

    def _look_back(self) -> None:
        """Ask what came to history after we did: the application is told."""
        from_ns, self._until_ns = self._seam.doubt
        if from_ns < self._until_ns:
            self._ask(from_ns)
        else:
            self._seam.forget()

    def _looked(self) -> None:
        if self._seam.late_count:
            _LOGGER.warning(
                "%d samples of %s were recorded too late to be given",
                self._seam.late_count,
                self._key,
            )
        self._seam.forget()


class _Outflow:
    """Gives samples to a handler as fast as it takes them. Its owner bounds what waits."""

    def __init__(self, face: Face, outlet: Outlet) -> None:
        self._face = face
        self._outlet = outlet
        self._waiting: deque[Sample] = deque()
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def give(self, sample: Sample) -> None:
        """In order with what was given before."""
        if not self._waiting and not self._is_full():
            self._face.emit(self._outlet, sample)
            return
        self._waiting.append(sample)
        if self._timer is None:
            self._timer = self._face.call_after(_LATER_NS, self._go_on)

    def end(self) -> None:
        """No more: what waits is given, as far as there is room for it."""
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            self._face.emit(self._outlet, self._waiting.popleft())
        self._face.emit(self._outlet, END)

    def _go_on(self) -> None:
        self._timer = None
        while self._waiting and not self._is_full():
            self._face.emit(self._outlet, self._waiting.popleft())
        if self._waiting:
            self._timer = self._face.call_after(_LATER_NS, self._go_on)

    def _is_full(self) -> bool:
        outlet: object = self._outlet
        if isinstance(outlet, CallbackOutlet):
            return len(self._face.inbox.due) + len(outlet.backlog) >= _AHEAD_COUNT
        channel: object = getattr(outlet, "channel", outlet)  # rows go to a channel as batches
        if not isinstance(channel, Channel) or channel.is_ring or channel.abandoned:
            return False
        return len(channel) >= channel.capacity


class _Direct:
    """An outlet within the session itself: called under the lock."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[object], None]) -> None:
        self._function = function

    def accept(self, value: object) -> None:
        self._function(value)


def start_of(since: IntoSince, now_ns: int) -> int:
    """Nanoseconds since 1970 from which on history is wanted.

    Raises:
        InvalidValueError: it is no time.

    Example:
        >>> start_of("-10m", 10**12), start_of(timedelta(seconds=1), 10**12)
        (400000000000, 999000000000)
    """
    given: object = since
    match given:
        case Timestamp():
            found = given.time.as_nanos()
        case datetime():
            found = NTP64.from_datetime(given).as_nanos()
        case timedelta():
            found = now_ns - abs(given) // timedelta(microseconds=1) * 1_000
        case str():
            try:
                text = f"now({given})" if given.startswith("-") else given
                found = TimeExpr.parse(text).resolve(now_ns)
            except EleaError as error:
                legal = "-10m, now(-10m) or a time in UTC such as 2026-03-01T12:00:00Z"
                raise InvalidValueError("since", f"expected {legal}, got {since!a}") from error
        case _:
            kinds = "a text, a Timestamp, a datetime and a timedelta are legal"
            raise InvalidValueError("since", f"saw {since!a}; {kinds}")
    return max(found, 0)


def _read_error(text: str) -> tuple[str, int | None]:
    """What an error of a historian says: its kind, and from when on an answer goes on."""
    try:
        told = json.loads(text)
        kind = str(told["error"])
        if kind != "cut":
            return kind, None
        times = Selector(told["next"][0]).time_range()
        start = None if times is None else times.start
        return kind, None if start is None or start.relative else start.ns
    except (ValueError, KeyError, IndexError, TypeError, EleaError, RecursionError):
        return "", None

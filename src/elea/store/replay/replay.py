"""Replay: publishes what logs hold, in the order and at the pace it happened.

One thread reads, waits and publishes; commands change what it does from any other. While it waits
it can be told to pause, to go elsewhere, to go faster or to end, and does so at once.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from elea.errors import ClosedError, EleaError, InvalidValueError
from elea.json5 import Json
from elea.session.liveliness import LivelinessToken
from elea.session.rows import RowBatch, RowPublisher
from elea.session.session import Session
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.segment import Damage
from elea.store.replay.control import Control
from elea.store.replay.merge import Choice, Merge, span_of, tokens_before
from elea.store.replay.moment import moment_ns
from elea.store.replay.pace import Pacer, checked_speed
from elea.store.replay.rewrite import Rewriter, keys_of
from elea.store.replay.settings import ReplaySettings, checked_id
from elea.timestamp import NANOS_PER_SECOND, format_rfc3339

_LOG: Final = logging.getLogger("elea.store.replay")
_AT_ONCE_COUNT: Final = 512  # rows that are published between two looks at commands
_WAIT_S_MAX: Final = 3600.0  # of one wait; then it looks at the time again
_TOKENS_COUNT_MAX: Final = 65_536  # that are alive at a time; more are counted and left out
_TOKEN_PUT: Final = int(RowKind.TOKEN_PUT)
_TOKEN_DELETE: Final = int(RowKind.TOKEN_DELETE)

Source = LogReader | Path | str


class State(Enum):
    """What a replay does."""

    READY = "ready"
    PLAYING = "playing"
    PAUSED = "paused"
    ENDED = "ended"
    FAILED = "failed"


class Replay:
    """Publishes the rows of logs again.

    `with` starts it and ends it; `wait` returns when it is done. It can be controlled through keys
    by any client of the data space, see `elea.store.replay.control`.

    Args:
        session: Through which.
        source: A log, or several: readers, or paths of directories.
        settings: What is replayed, and how.
        id: Its name among the keys; made of the session's if not given.
        now_ns: A clock that never goes back.
        wall_ns: The time of day.

    Raises:
        StoreError: there is no log.
        InvalidValueError: a setting is not legal, or there is nothing in that span of time.

    Example:
        >>> Replay.__name__
        'Replay'
    """

    def __init__(
        self,
        session: Session,
        source: Source | Sequence[Source],
        settings: ReplaySettings | None = None,
        *,
        id: str | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings = settings = settings or ReplaySettings()
        self.id = checked_id(id if id is not None else f"replay-{str(session.zid())[:8]}")
        self._session = session
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._readers = [self._reader_of(one) for one in _listed(source)]
        span = span_of(self._readers)
        if span is None:
            raise InvalidValueError("log", "it has no rows; there is nothing to replay")
        self._span = span
        start = None if settings.start is None else self._moment(settings.start)
        self._end_ns = None if settings.end is None else self._moment(settings.end)
        self._start_ns = start
        if None not in (start, self._end_ns) and (start or 0) > (self._end_ns or 0):
            reason = f"{settings.start} is after {settings.end}; legal is a start before the end"
            raise InvalidValueError("span of time", reason)
        self._key_exprs = keys_of(settings.key_exprs)
        self._rename = Rewriter(settings.rewrite)
        self._publisher = RowPublisher(
            session,
            original=settings.timestamps == "original",
            block=settings.blocks,
            rename=self._rename,
        )
        self._pacer = Pacer(settings.speed)
        self._tokens: dict[str, LivelinessToken] = {}
        self._changed = threading.Condition()
        self._state = State.READY
        self._stopping = False
        self._seek_ns: int | None = None
        self._error: Exception | None = None
        self.published_count = 0
        self.tokens_left_out_count = 0
        self.late_count = 0
        self.loops_count = 0
        self._behind_ns = 0
        self._rate = _Rate(now_ns)
        self._control: Control | None = None
        self._worker = threading.Thread(target=self._run, name=f"replay {self.id}", daemon=True)

    def start(self) -> None:
        """Begin; the keys that control it are there from now on.

        Raises:
            ClosedError: the session is closed, or it was started before.
        """
        with self._changed:
            if self._state is not State.READY:
                raise ClosedError("a replay is started once; make another one")
            self._state = State.PLAYING
        self._control = Control(self._session, self.id, self)
        self._worker.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return when it is done, with True; or after a time, with False.

        Raises:
            EleaError: it failed; with what made it fail.
        """
        with self._changed:
            self._changed.wait_for(self._is_over, timeout_s)
            if self._error is not None:
                raise self._error
            return self._is_over()

    def close(self) -> None:
        """End it, and take its keys and tokens away; again is no error."""
        self.stop()
        if self._worker.is_alive():
            self._worker.join()
        if self._control is not None:
            self._control.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Commands, by any thread.

    def pause(self) -> None:
        """Publish nothing more until `resume`; again is no error."""
        with self._changed:
            self._pacer.pause(self._now_ns())
            self._changed.notify_all()

    def resume(self) -> None:
        """Go on; again is no error."""
        with self._changed:
            self._pacer.resume(self._now_ns())
            self._changed.notify_all()

    def seek(self, moment: str) -> None:
        """Go on from a moment, as in `elea.store.replay.moment`.

        Tokens that were there at that moment are declared, others are taken away.

        Raises:
            InvalidValueError: it is none.
        """
        wanted_ns = self._moment(moment)
        with self._changed:
            self._seek_ns = wanted_ns = max(wanted_ns, self._span.first_ns)
            self._pacer.seek(wanted_ns, self._now_ns())
            self._changed.notify_all()

    def set_speed(self, speed: float) -> None:
        """Go on as fast as this; 0 is as fast as possible.

        Raises:
            InvalidValueError: it is negative or no number.
        """
        checked_speed(speed)
        with self._changed:
            self._pacer.set_speed(speed, self._now_ns())
            self._changed.notify_all()

    def stop(self) -> None:
        """End it soon; again is no error."""
        with self._changed:
            self._stopping = True
            if self._state is State.READY:
                self._state = State.ENDED
            self._changed.notify_all()

    @property
    def dropped_count(self) -> int:
        """Samples that were dropped here, because a queue was full."""
        return self._publisher.dropped_count

    @property
    def state(self) -> State:
        """What it does."""
        with self._changed:
            if self._state is State.PLAYING and self._pacer.paused:
                return State.PAUSED
            return self._state

    def status(self) -> dict[str, Json]:
        """What it does, for programs."""
        state = self.state
        with self._changed:
            now_ns = self._now_ns()
            lost_count = sum(reader.lost_count for reader in self._readers)
            refused_count = 0 if self._control is None else self._control.refused_count
            return {
                "id": self.id,
                "state": state.value,
                "position": format_rfc3339(self._position_ns(now_ns), digits=6),
                "first": format_rfc3339(self._span.first_ns, digits=6),
                "last": format_rfc3339(self._span.last_ns, digits=6),
                "speed": self._pacer.speed,
                "published": self.published_count,
                "per_second": round(self._rate.per_second(self.published_count), 1),
                "behind_s": round(self._behind_ns / NANOS_PER_SECOND, 6),
                "dropped": self.dropped_count,
                "late": self.late_count,
                "lost": lost_count,
                "loops": self.loops_count,
                "tokens": len(self._tokens),
                "tokens_left_out": self.tokens_left_out_count,
                "refused_commands": refused_count,
                "error": None if self._error is None else str(self._error),
            }

    # By its own thread.

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._play()
        except Exception as failure:  # who waits is told, whatever it is
            error = failure
            if not isinstance(failure, EleaError | OSError):
                _LOG.exception("replay %s", self.id)
        finally:
            with suppress(ClosedError):  # the session went first, and its tokens with it
                self._set_tokens(None)
            self._tokens.clear()
        with self._changed:
            self._error = error
            self._state = State.ENDED if error is None else State.FAILED
            self._changed.notify_all()

    def _play(self) -> None:
        from_ns = self._start_ns
        is_seeking = False  # then the time goes on from there, not from the first row there is
        while not self._stopping:
            rows_count = 0
            self._set_tokens(from_ns)
            merge = Merge(self._readers, self._choice(from_ns))
            late_before = self.late_count
            for run in merge:
                self.late_count = late_before + merge.late_count
                times_ns = merge.times_ns(run)
                if rows_count == 0:
                    begin_ns = from_ns if is_seeking and from_ns is not None else times_ns[0]
                    with self._changed:
                        self._pacer.seek(begin_ns, self._now_ns())
                rows_count += len(run)
                if not self._play_run(self._publisher.load(run.batch), times_ns):
                    break
            with self._changed:
                # Who pauses at the end, or goes beyond it while paused, may want to go back.
                self._changed.wait_for(self._may_go_on)
                sought_ns, self._seek_ns = self._seek_ns, None
            if sought_ns is not None:
                from_ns, is_seeking = sought_ns, True
            elif self._stopping or not self.settings.loop or (rows_count == 0 and not is_seeking):
                return
            else:
                from_ns, is_seeking = self._start_ns, False
                self.loops_count += 1

    def _may_go_on(self) -> bool:
        return not self._pacer.paused or self._seek_ns is not None or self._stopping

    def _play_run(self, rows: RowBatch, times_ns: list[int]) -> bool:
        """Publish rows, each when it is due; False if it was told to go elsewhere."""
        first = 0
        while first < len(rows):
            end = self._wait(times_ns, first)
            if end is None:
                return False
            self._publish(rows, first, end)
            with self._changed:
                self.published_count += end - first
                now_ns = self._now_ns()
                self._behind_ns = self._pacer.behind_ns(times_ns[end - 1], now_ns)
                if self._seek_ns is None:
                    self._pacer.reached(times_ns[end - 1])
            first = end
        return True

    def _wait(self, times_ns: list[int], first: int) -> int | None:
        """Wait until a row is due: up to before which others are, too; None to go elsewhere."""
        limit = min(first + _AT_ONCE_COUNT, len(times_ns))
        with self._changed:
            while not self._stopping and self._seek_ns is None:
                due_ns = self._pacer.due_ns(times_ns[first])
                now_ns = self._now_ns()
                if due_ns is None:
                    self._changed.wait()
                elif due_ns > now_ns:
                    wait_s = (due_ns - now_ns) / NANOS_PER_SECOND
                    self._changed.wait(min(wait_s, _WAIT_S_MAX))
                elif self._pacer.speed == 0:
                    return limit
                else:
                    position_ns = self._pacer.position_ns(now_ns)
                    return max(bisect_right(times_ns, position_ns, first, limit), first + 1)
        return None

    def _publish(self, rows: RowBatch, first: int, end: int) -> None:
        """Publish rows that are due; tokens among them in their place."""
        for number in range(first, end):
            if rows.kinds[number] >= _TOKEN_PUT:
                self._publisher.publish(rows, first, number)
                self._turn_token(rows.key(number), appears=rows.kinds[number] == _TOKEN_PUT)
                first = number + 1
        self._publisher.publish(rows, first, end)

    def _turn_token(self, key: str, *, appears: bool) -> None:
        held = self._tokens.get(key)
        if not appears:
            if held is not None:
                del self._tokens[key]
                held.undeclare()
        elif held is None:
            if len(self._tokens) >= _TOKENS_COUNT_MAX:
                self.tokens_left_out_count += 1
                return
            self._tokens[key] = self._session.liveliness().declare_token(key)

    def _set_tokens(self, at_ns: int | None) -> None:
        """Have the tokens that were there at a moment, and no others; None: none."""
        wanted: set[str] = set()
        if at_ns is not None and "token" in self.settings.kinds:
            found = tokens_before(self._readers, self._choice(None), at_ns)
            wanted = {self._rename(key) for key in found}
        for key in self._tokens.keys() - wanted:
            self._turn_token(key, appears=False)
        for key in sorted(wanted):
            self._turn_token(key, appears=True)

    def _choice(self, from_ns: int | None) -> Choice:
        return Choice(
            key_exprs=self._key_exprs,
            kinds=self.settings.row_kinds,
            by_reception=self.settings.clock == "recv",
            since_ns=from_ns,
            until_ns=self._end_ns,
        )

    def _position_ns(self, now_ns: int) -> int:
        """Where it is: never before the first row or after the last."""
        position_ns = self._pacer.position_ns(now_ns)
        return min(max(position_ns, self._span.first_ns), self._span.last_ns)

    def _moment(self, text: str) -> int:
        return moment_ns(text, self._span, self._wall_ns())

    def _is_over(self) -> bool:
        return self._state in (State.ENDED, State.FAILED)

    def _reader_of(self, source: Source) -> LogReader:
        return source if isinstance(source, LogReader) else LogReader(source, self._tell_damage)

    def _tell_damage(self, damage: Damage) -> None:
        _LOG.error("replay %s passes what is damaged: %s", self.id, damage)


class _Rate:
    """How many per second, over the last second or so."""

    __slots__ = ("_count", "_now_ns", "_rate", "_told_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._told_ns = now_ns()
        self._count = 0
        self._rate = 0.0

    def per_second(self, count: int) -> float:
        """The rate since it was asked last, if that is a second ago; else what it was then."""
        passed_ns = self._now_ns() - self._told_ns
        if passed_ns >= NANOS_PER_SECOND or not self._count:
            self._rate = (count - self._count) * NANOS_PER_SECOND / max(passed_ns, 1)
            self._told_ns, self._count = self._now_ns(), count
        return self._rate


def _listed(source: Source | Sequence[Source]) -> list[Source]:
    if isinstance(source, LogReader | Path | str):
        return [source]
    if not source:
        raise InvalidValueError("source", "saw no log; legal is one or more")
    return list(source)

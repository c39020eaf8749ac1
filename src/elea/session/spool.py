"""Spool: acknowledged puts that wait here while no recorder is there, and are forwarded then.

    put --> [direct]  a recorder answers: nothing waits here
        |
        +-> [away]    nobody answers: the sample goes to its subscribers, if these are to get it
                |     at once, and onto the shelf
                |  a recorder's token appears, or a while has passed
                v
            [draining]  from the oldest on, one after the other for each key, many keys at once;
                        what is put meanwhile goes to the end of the shelf

A sample keeps its source and its timestamp, so a recorder that has it already stores it no more.
While the shelf is drained, a new sample is sent to its subscribers when its turn comes: recorders
are subscribers, and would store it before those that wait.
"""

from __future__ import annotations

import enum
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self, final

from elea.errors import ClosedError, EleaError, MissingDependencyError, NotStoredError
from elea.limits import DEFAULT_LIMITS
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session import dispatch
from elea.session.ack import Acks, Attempt, Entry, Outcome, StoredAck
from elea.session.context import Declared
from elea.session.face import Timer
from elea.session.handlers import Callback
from elea.session.liveliness import Liveliness
from elea.session.outlet_hot import CallbackOutlet
from elea.session.ports import SENT
from elea.session.promise import Promise
from elea.timestamp import NTP64

RECORDERS: Final = "@elea/log/*"  # the tokens of recorders
NAME: Final = "spool"

_LOGGER: Final = logging.getLogger("elea.session")
_RETRY_FIRST_NS: Final = 1_000_000_000  # a recorder is asked again although no token came
_RETRY_MAX_NS: Final = 30_000_000_000


@dataclass(frozen=True, slots=True)
class SpoolStats:
    """What a spool has, and what became of what it had.

    Attributes:
        waiting_count: Samples that wait for a recorder,
        waiting_len: and the octets they take; on disk those of the files, which go as a whole
            some time after what is in them was forwarded.
        oldest_age_ns: How long ago the oldest of them was put; 0 if none waits.
        spooled_count: Samples that were taken since the spool was declared,
        forwarded_count: those that a recorder has on disk by now,
        duplicate_count: and those of them that it had before it was asked.
        expired_count: Samples given up because they were older than `max_age`,
        invalid_count: those that a recorder would never store,
        lost_count: and those that are damaged on disk.
        full_count: Puts that were refused because there was no room.
        is_draining: Whether samples are on the way to a recorder.
    """

    waiting_count: int = 0
    waiting_len: int = 0
    oldest_age_ns: int = 0
    spooled_count: int = 0
    forwarded_count: int = 0
    duplicate_count: int = 0
    expired_count: int = 0
    invalid_count: int = 0
    lost_count: int = 0
    full_count: int = 0
    is_draining: bool = False


class Shelf(Protocol):
    """Where samples wait, each under a number."""

    log: uuid.UUID | None  # on disk: the log they are in
    first: int  # the oldest that was not forwarded
    end: int  # the one after the newest

    def keep(self, entry: Entry, done: Callable[[int | NotStoredError], None]) -> None:
        """Keep one more; `done` is told its number, in any thread, when it is safe."""

    def read(self, first: int, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """The next ones that are safe, with their numbers; and the number to go on with.

        Those that are missing between are lost.
        """

    def release(self, first: int) -> None:
        """All below this number were forwarded."""

    def length(self) -> int:
        """The octets it takes."""

    def close(self) -> None:
        """Nothing is kept any more."""


class _State(enum.Enum):
    IDLE = enum.auto()
    ASKED = enum.auto()
    FAILED = enum.auto()  # to be tried again in the next round
    DONE = enum.auto()


class _Slot:
    """A sample in the window of those that are looked at."""

    __slots__ = ("entry", "state")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.state = _State.IDLE


@final
class Spool(Declared):
    """Acknowledged puts that wait for a recorder; see `Session.declare_spool`."""

    __slots__ = (
        "_acks",
        "_asked_count",
        "_behind_count",
        "_clock",
        "_drained",
        "_draining",
        "_has_progress",
        "_live",
        "_lock",
        "_max_age_ns",
        "_read",
        "_retry_ns",
        "_shelf",
        "_stats",
        "_timer",
        "_tokens",
        "_window",
    )

    _kind = "spool"

    def __init__(self, acks: Acks, shelf: Shelf, max_age_ns: int | None, *, live: bool) -> None:
        super().__init__(acks.context, in_background=True)
        self._acks = acks
        self._shelf = shelf
        self._max_age_ns = max_age_ns
        self._live = live
        self._lock = threading.Lock()
        self._window: dict[int, _Slot] = {}
        self._read = shelf.first  # the next number to look at
        self._behind_count = shelf.end - shelf.first
        self._asked_count = 0
        self._draining = self._has_progress = False
        self._timer: Timer | None = None
        self._retry_ns = _RETRY_FIRST_NS
        self._stats = SpoolStats()
        self._drained: Future[bool] | None = None  # whoever waits for the end of the shelf
        self._clock = CallbackOutlet(lambda _: self._tick(), None, indirect=False)
        if self._behind_count:
            _LOGGER.info("spool: %d samples of before wait for a recorder", self._behind_count)
        self._tokens = Liveliness(acks.context).declare_subscriber(
            RECORDERS, Callback(self._on_token, indirect=False), history=True
        )
        self._begin_round()  # a recorder may be there: what is put next is not to overtake

    def __enter__(self) -> Self:
        return self

    def stats(self) -> SpoolStats:
        """What it has, and what became of what it had."""
        with self._lock:
            return replace(
                self._stats,
                waiting_count=self._behind_count,
                waiting_len=self._shelf.length(),
                oldest_age_ns=self._oldest_age_ns(),
                is_draining=self._draining,
            )

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits any more, at most `timeout` seconds; whether that is so."""
        future, idle = self.drained(), self._context.driver.idle
        dispatch.about_to_wait()
        if idle is not None:
            return idle(future.done, timeout) and future.result()
        try:
            return future.result(timeout)
        except TimeoutError:
            return False

    def drained(self) -> Future[bool]:
        """A future with True when nothing waits any more, or False when the spool is gone."""
        with self._lock:
            future = self._drained or Future()
            if future is not self._drained:
                future.set_running_or_notify_cancel()  # one who no longer waits ends it for nobody
                if self._behind_count and not self._gone:
                    self._drained = future
                else:
                    future.set_result(not self._gone)
            return future

    def undeclare(self) -> None:
        """End it. What waits on disk is there for the next spool; in memory it is lost.

        Raises:
            ClosedError: it was undeclared before.
        """
        self._check()
        self.close()
        self._tokens.undeclare()

    def close(self) -> None:
        """The same when the session closes, and for the second time."""
        with self._lock:
            if self._gone:
                return
            self._gone = True
            self._advance()
            waiting_count, self._behind_count = self._behind_count, 0
            drained, self._drained = self._drained, None
        self._acks.spool = None
        self._shelf.close()
        if drained is not None:
            drained.set_result(False)
        if waiting_count and self._shelf.log is None:
            _LOGGER.error("spool: %d samples that waited in memory are lost", waiting_count)
        elif waiting_count:
            _LOGGER.info("spool: %d samples wait on disk for the next one", waiting_count)

    # From acknowledged puts.

    def is_behind(self) -> bool:
        """Whether samples wait: those that follow them have to wait too."""
        return self._behind_count > 0

    def offer(
        self, entry: Entry, future: Promise[StoredAck], cause: EleaError | None = None
    ) -> int:
        """Keep a sample; the future's result is an acknowledgement when it is safe here."""
        with self._lock:
            at_once = self._live and not self._draining
            if self._behind_count == 0 and cause is not None:
                _LOGGER.warning("spool: samples wait for a recorder: %s", cause)
            self._behind_count += 1
        try:
            if at_once:
                result = self._context.call(lambda: self._acks.publish(entry))
            else:
                result = SENT
                self._context.read(lambda: self._acks.identify(entry.body))
            if self._timer is None:
                self._arm()
        except EleaError as error:
            self._kept(future, error)
            return SENT
        self._shelf.keep(entry, lambda outcome: self._kept(future, outcome))
        return result

    def _kept(self, future: Promise[StoredAck], outcome: int | EleaError) -> None:
        """A sample is safe on the shelf, or there is no room for it. In any thread."""
        drained = None
        with self._lock:
            stats = self._stats
            if isinstance(outcome, int):
                self._stats = replace(stats, spooled_count=stats.spooled_count + 1)
            else:
                self._behind_count = max(0, self._behind_count - 1)
                self._stats = replace(stats, full_count=stats.full_count + 1)
                if self._behind_count == 0:
                    drained, self._drained = self._drained, None
        if drained is not None:
            drained.set_result(True)
        if isinstance(outcome, int):
            log = self._shelf.log
            ack = StoredAck(log, NAME, 0, outcome, spooled=True, durable=log is not None)
            future.set_result(ack)
        else:
            future.set_exception(outcome)

    # From the network and the clock.

    def _on_token(self, sample: Sample) -> None:
        if sample.kind is SampleKind.PUT:
            self._retry_ns = _RETRY_FIRST_NS
            self._begin_round()

    def _arm(self) -> None:
        """Try again after a while, from now on."""
        face, clock = self._context.core.face, self._clock

        def arm() -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = face.call_after(self._retry_ns, lambda: face.emit(clock, None))

        self._context.call(arm)

    def _tick(self) -> None:
        self._timer = None
        if self._behind_count > 0 and not self._gone:
            self._begin_round()
            if self._timer is None:
                self._arm()

    def _begin_round(self) -> None:
        """Try to forward what waits."""
        with self._lock:
            if self._gone or self._behind_count == 0:
                return
            if not self._draining:
                self._draining = True
                self._has_progress = False
                _LOGGER.debug("spool: forwarding, %d wait", self._behind_count)
        self.pump()

    def pump(self) -> None:
        """Put as many samples on their way as may be."""
        while True:
            with self._lock:
                if not self._draining or self._gone:
                    return
                slot = self._next_slot()
                if slot is None:
                    drained = self._end_round() if self._asked_count == 0 else None
                    break
                slot.state = _State.ASKED
                self._asked_count += 1
            timeout_ns = self._context.core.face.settings.query_timeout_ns
            attempt = Attempt(self._acks, slot.entry, timeout_ns, 0, self._done_with(slot))
            try:
                self._acks.begin(attempt)
            except EleaError as error:
                attempt.give_up(error)
        if drained is not None:
            drained.set_result(True)
        if self._is_away():
            self._arm()

    def _is_away(self) -> bool:
        return self._behind_count > 0 and not self._draining

    def _next_slot(self) -> _Slot | None:
        """The oldest sample that may go: no other one of its key is under way. Under the lock."""
        room = DEFAULT_LIMITS.spool_window_count - len(self._window)
        if room > 0:
            entries, end = self._shelf.read(self._read, room)
            lost_count = end - self._read - len(entries)
            self._read = end
            self._window.update((number, _Slot(entry)) for number, entry in entries)
            if lost_count:
                self._behind_count -= lost_count
                stats = self._stats
                self._stats = replace(stats, lost_count=stats.lost_count + lost_count)
        blocked: set[str] = set()
        found = None
        for slot in self._window.values():
            if slot.state is _State.DONE:
                continue
            if slot.state is _State.IDLE and slot.entry.key not in blocked:
                if self._is_fresh(slot.entry):
                    found = slot
                    break
                self._drop(slot)
                continue
            blocked.add(slot.entry.key)
        self._advance()
        return found

    def _is_fresh(self, entry: Entry) -> bool:
        if self._max_age_ns is None:
            return True
        return self._age_ns(entry) <= self._max_age_ns

    def _age_ns(self, entry: Entry) -> int:
        stamp = entry.body.timestamp
        assert stamp is not None
        put_ns = NTP64.from_value(stamp.time).as_nanos()
        return max(self._context.driver.wall_ns() - put_ns, 0)

    def _oldest_age_ns(self) -> int:
        """Under the lock."""
        if self._gone or self._behind_count == 0:
            return 0
        for slot in self._window.values():
            if slot.state is not _State.DONE:
                return self._age_ns(slot.entry)
        entries, _ = self._shelf.read(self._read, 1)
        return self._age_ns(entries[0][1]) if entries else 0

    def _drop(self, slot: _Slot) -> None:
        """Give up a sample that is too old. Under the lock."""
        slot.state = _State.DONE
        self._behind_count -= 1
        stats = self._stats
        self._stats = replace(stats, expired_count=stats.expired_count + 1)
        _LOGGER.warning("spool: %s is given up, it waited too long", slot.entry.key)

    def _advance(self) -> None:
        """Let go of what was forwarded, from the oldest on. Under the lock."""
        for number in list(self._window):
            if self._window[number].state is not _State.DONE:
                self._shelf.release(number)
                return
            del self._window[number]
        self._shelf.release(self._read)

    def _done_with(self, slot: _Slot) -> Callable[[Outcome], None]:
        def done(outcome: Outcome) -> None:
            with self._lock:
                self._asked_count -= 1
                self._judge(slot, outcome)
            if not isinstance(outcome, ClosedError):
                self.pump()

        return done

    def _judge(self, slot: _Slot, outcome: Outcome) -> None:
        """A recorder has answered, or none has. Under the lock."""
        stats = self._stats
        if isinstance(outcome, StoredAck):
            self._stats = replace(
                stats,
                forwarded_count=stats.forwarded_count + 1,
                duplicate_count=stats.duplicate_count + outcome.duplicate,
            )
        elif isinstance(outcome, NotStoredError) and outcome.reason == "invalid":
            self._stats = replace(stats, invalid_count=stats.invalid_count + 1)
            _LOGGER.error("spool: a sample is given up: %s", outcome)
        else:
            slot.state = _State.FAILED
            return
        slot.state = _State.DONE
        self._behind_count = max(0, self._behind_count - 1)
        self._has_progress = True

    def _end_round(self) -> Future[bool] | None:
        """Nothing more can be sent now; who is to be told that all is sent. Under the lock."""
        if self._behind_count == 0:
            self._draining = False
            self._retry_ns = _RETRY_FIRST_NS
            _LOGGER.info("spool: all is forwarded, %d so far", self._stats.forwarded_count)
            drained, self._drained = self._drained, None
            return drained
        failed = [slot for slot in self._window.values() if slot.state is _State.FAILED]
        for slot in failed:
            slot.state = _State.IDLE
        if failed:
            self._draining = False
            longer = min(2 * self._retry_ns, _RETRY_MAX_NS)
            self._retry_ns = _RETRY_FIRST_NS if self._has_progress else longer
        return None

    def __repr__(self) -> str:
        return f"Spool({self.stats()!r})"


class MemoryShelf:
    """Samples that wait in memory.

    Args:
        len_max: Octets of them together.
    """

    __slots__ = ("_entries", "_len", "_len_max", "_lock", "end", "first", "log")

    def __init__(self, len_max: int) -> None:
        self._entries: deque[Entry] = deque()
        self._len = 0
        self._len_max = len_max
        self._lock = threading.Lock()
        self.log: uuid.UUID | None = None
        self.first = self.end = 0

    def keep(self, entry: Entry, done: Callable[[int | NotStoredError], None]) -> None:
        """Keep one more."""
        with self._lock:
            length = self._len + len(entry)
            has_room = length <= self._len_max
            number = self.end
            if has_room:
                self._entries.append(entry)
                self._len = length
                self.end += 1
        detail = f"{length} octets would wait in memory, {self._len_max} may: raise max_bytes"
        done(number if has_room else NotStoredError(entry.key, NAME, "full", detail))

    def read(self, first: int, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """The next ones, and the number to go on with."""
        with self._lock:
            end = min(first + count, self.end)
            return [(one, self._entries[one - self.first]) for one in range(first, end)], end

    def release(self, first: int) -> None:
        """All below this number were forwarded."""
        with self._lock:
            while self.first < first:
                self._len -= len(self._entries.popleft())
                self.first += 1

    def length(self) -> int:
        """Octets of those that wait."""
        return self._len

    def close(self) -> None:
        """Nothing to be done."""


def declare_spool(
    acks: Acks,
    directory: Path | str | None,
    max_bytes: int | None,
    max_age_ns: int | None,
    *,
    live: bool,
) -> Spool:
    """What `Session.declare_spool` does."""
    limits = DEFAULT_LIMITS
    shelf: Shelf
    if directory is None:
        shelf = MemoryShelf(limits.spool_memory_len if max_bytes is None else max_bytes)
    else:
        try:
            from elea.session.spool_log import LogShelf  # late: it needs the extra `arrow`
        except ImportError as error:
            raise MissingDependencyError("a spool on disk", "arrow") from error
        len_max = limits.spool_disk_len if max_bytes is None else max_bytes
        shelf = LogShelf(Path(directory), len_max, acks.context.driver.idle is not None)
    try:
        acks.spool = Spool(acks, shelf, max_age_ns, live=live)
    except BaseException:
        shelf.close()
        raise
    return acks.spool

"""Spool: acknowledged puts that wait here while no recorder is there, and are forwarded then.

    put --> [direct]  a recorder answers: nothing waits here
        |
        +-> [away]    nobody answers: the sample goes to its subscribers, if these are to get it
                |     at once, and onto the shelf
                |  a recorder's token appears, or a while has passed
                v
            [draining]  from the oldest on, many keys at once, and of each key one batch after the
                        other; what is put meanwhile goes to the end of the shelf

A sample keeps its source and its timestamp, so a recorder that has it already stores it no more.
While the shelf is drained, or a recorder is there and refuses, a new sample is sent to its
subscribers when its turn comes: recorders are subscribers, and would store it before those that
wait. In the moment in which a recorder appears it may; `live=False` is for those who mind.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Self, final

from elea.answers import SENT
from elea.errors import ClosedError, EleaError, MissingDependencyError, NotStoredError
from elea.limits import DEFAULT_LIMITS
from elea.provenance import SampleKind
from elea.records import dataclass, replace
from elea.sample import Sample
from elea.session import dispatch
from elea.session.ack import Acks, Attempt, Entry, Outcome, StoredAck
from elea.session.context import Declared
from elea.session.face import Timer
from elea.session.handlers import Callback
from elea.session.liveliness import Liveliness
from elea.session.outlet import CallbackOutlet
from elea.session.promise import Promise
from elea.session.spool_batch import BatchAttempt
from elea.session.spool_shelf import NAME, MemoryShelf, Shelf

RECORDERS: Final = "@elea/log/*"  # the tokens of recorders

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
        oldest_age_ns: How long the oldest of them has waited; 0 if none does.
        spooled_count: Samples that were taken since the spool was declared,
        forwarded_count: those that a recorder has on disk by now,
        duplicate_count: and those of them that it had before it was asked.
        expired_count: Samples given up because they waited longer than `max_age`,
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


class _Slot:
    """A sample that was read ahead."""

    __slots__ = ("entry", "is_done", "number")

    def __init__(self, number: int, entry: Entry) -> None:
        self.number = number
        self.entry = entry
        self.is_done = False


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
        "_failed",
        "_has_progress",
        "_is_pumping",
        "_is_refused",
        "_is_unreadable",
        "_keys",
        "_live",
        "_lock",
        "_max_age_ns",
        "_queues",
        "_read",
        "_retry_ns",
        "_shelf",
        "_stats",
        "_takes_batches",
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
        self._window: deque[_Slot] = deque()  # what was read ahead, the oldest first
        self._queues: dict[str, deque[_Slot]] = {}  # of these, what is to be asked for, by key
        self._keys: deque[str] = deque()  # that have some, and no question under way
        self._failed: list[str] = []  # to be tried again in the next round
        self._is_pumping = False
        self._takes_batches = True  # unless a recorder did not answer in this round
        self._read = shelf.first  # the next number to look at
        self._behind_count = shelf.end - shelf.first
        self._asked_count = 0
        self._draining = self._has_progress = False
        self._is_refused = False  # a recorder is there, and took nothing in the last round
        self._is_unreadable = False  # reading from the shelf failed last time
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
        entry.kept_ns = self._context.driver.wall_ns()
        with self._lock:
            at_once = self._live and not self._draining and not self._is_refused
            self._is_refused = self._is_refused or isinstance(cause, NotStoredError)
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
                self._draining = self._takes_batches = True
                self._has_progress = self._is_refused = False
                _LOGGER.debug("spool: forwarding, %d wait", self._behind_count)
        self.pump()

    def pump(self) -> None:
        """Put as many samples on their way as may be. One thread does, for all that call it."""
        with self._lock:
            if self._is_pumping:
                return
            self._is_pumping = True
        drained = None
        while True:
            with self._lock:
                batch = [] if self._gone or not self._draining else self._next_batch()
                if not batch:
                    self._is_pumping = False
                    if self._gone or not self._draining:
                        return
                    drained = self._end_round() if self._asked_count == 0 else None
                    break
                self._asked_count += 1
            self._ask(batch)
        if drained is not None:
            drained.set_result(True)
        if self._is_away():
            self._arm()

    def _ask(self, batch: list[_Slot]) -> None:
        timeout_ns = self._context.core.face.settings.query_timeout_ns
        was_sent = [slot.entry.published for slot in batch]

        def done(outcomes: list[Outcome] | None) -> None:
            with self._lock:
                self._asked_count -= 1
                self._judge(batch, was_sent, outcomes)
            if not outcomes or not isinstance(outcomes[0], ClosedError):
                self.pump()

        entry = batch[0].entry
        if len(batch) > 1:
            BatchAttempt(self._acks, [one.entry for one in batch], timeout_ns, done).start()
            return
        attempt = Attempt(self._acks, entry, timeout_ns, 0, lambda outcome: done([outcome]))
        try:
            self._acks.begin(attempt)
        except EleaError as error:
            attempt.give_up(error)

    def _is_away(self) -> bool:
        return self._behind_count > 0 and not self._draining

    def _next_batch(self) -> list[_Slot]:
        """The oldest samples of a key that has none under way. Under the lock."""
        self._advance()
        self._read_ahead()
        while self._keys and self._asked_count < DEFAULT_LIMITS.spool_asked_count:
            key = self._keys.popleft()
            batch = self._take_batch(self._queues[key])
            if batch:
                return batch
            del self._queues[key]  # all were too old
        self._advance()
        return []

    def _take_batch(self, queue: deque[_Slot]) -> list[_Slot]:
        """The first samples of a key that go together; those that are too old are dropped."""
        count = DEFAULT_LIMITS.spool_batch_count if self._takes_batches else 1
        batch: list[_Slot] = []
        length = 0
        while queue and len(batch) < count:
            slot = queue[0]
            length += len(slot.entry)
            if not self._is_fresh(slot.entry):
                self._drop(slot)
            elif batch and (
                length > DEFAULT_LIMITS.spool_batch_len
                or _batch_kind(slot.entry) != _batch_kind(batch[0].entry)
            ):
                break
            else:
                batch.append(slot)
            queue.popleft()
        return batch

    def _read_ahead(self) -> None:
        """Read more samples, many at a time. Under the lock."""
        window_count = DEFAULT_LIMITS.spool_window_count
        room = window_count - len(self._window)
        if self._window and room < window_count // 2:
            return
        entries, end = self._read_shelf(room)
        lost_count = end - self._read - len(entries)
        self._read = end
        for number, entry in entries:
            slot = _Slot(number, entry)
            self._window.append(slot)
            queue = self._queues.get(entry.key)
            if queue is None:
                queue = self._queues[entry.key] = deque()
                self._keys.append(entry.key)
            queue.append(slot)
        if lost_count:
            self._behind_count -= lost_count
            stats = self._stats
            self._stats = replace(stats, lost_count=stats.lost_count + lost_count)

    def _is_fresh(self, entry: Entry) -> bool:
        if self._max_age_ns is None:
            return True
        return self._age_ns(entry) <= self._max_age_ns

    def _age_ns(self, entry: Entry) -> int:
        """How long it waits: its timestamp says when it was measured, perhaps years ago."""
        return max(self._context.driver.wall_ns() - entry.kept_ns, 0)

    def _oldest_age_ns(self) -> int:
        """Under the lock."""
        if self._gone or self._behind_count == 0:
            return 0
        for slot in self._window:
            if not slot.is_done:
                return self._age_ns(slot.entry)
        entries, _ = self._read_shelf(1)
        return self._age_ns(entries[0][1]) if entries else 0

    def _read_shelf(self, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """Read the next samples; none if that fails, which is tried again. Under the lock."""
        try:
            found = self._shelf.read(self._read, count)
        except (EleaError, OSError) as error:  # no descriptor is free, or the directory is gone
            if not self._is_unreadable:
                _LOGGER.error("spool: what waits cannot be read, retrying: %s", error)
            self._is_unreadable = True
            return [], self._read
        self._is_unreadable = False
        return found

    def _drop(self, slot: _Slot) -> None:
        """Give up a sample that is too old. Under the lock."""
        slot.is_done = True
        self._behind_count -= 1
        stats = self._stats
        self._stats = replace(stats, expired_count=stats.expired_count + 1)
        _LOGGER.warning("spool: %s is given up, it waited too long", slot.entry.key)

    def _advance(self) -> None:
        """Let go of what was forwarded, from the oldest on. Under the lock."""
        while self._window and self._window[0].is_done:
            self._window.popleft()
        self._shelf.release(self._window[0].number if self._window else self._read)

    def _judge(
        self, batch: list[_Slot], was_sent: list[bool], outcomes: list[Outcome] | None
    ) -> None:
        """A recorder has answered, or none has. Under the lock."""
        if outcomes is None:  # no recorder that takes batches: ask sample by sample
            self._takes_batches = False
        else:
            for slot, was, outcome in zip(batch, was_sent, outcomes, strict=True):
                self._judge_one(slot, outcome, was_sent=was)
        key = batch[0].entry.key
        queue = self._queues[key]
        left = [slot for slot in batch if not slot.is_done]
        queue.extendleft(reversed(left))
        if outcomes is not None and left:
            self._failed.append(key)
        elif queue:
            self._keys.append(key)
        else:
            del self._queues[key]

    def _judge_one(self, slot: _Slot, outcome: Outcome, *, was_sent: bool) -> None:
        stats = self._stats
        if isinstance(outcome, StoredAck):
            self._stats = replace(
                stats,
                forwarded_count=stats.forwarded_count + 1,
                duplicate_count=stats.duplicate_count + (outcome.duplicate and was_sent),
            )
        elif isinstance(outcome, NotStoredError) and outcome.reason == "invalid":
            self._stats = replace(stats, invalid_count=stats.invalid_count + 1)
            _LOGGER.error("spool: a sample is given up: %s", outcome)
        else:
            self._is_refused = self._is_refused or isinstance(outcome, NotStoredError)
            return
        slot.is_done = True
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
        if self._failed or self._is_unreadable:
            self._keys.extend(self._failed)
            self._failed.clear()
            self._draining = False
            longer = min(2 * self._retry_ns, _RETRY_MAX_NS)
            self._retry_ns = _RETRY_FIRST_NS if self._has_progress else longer
        return None

    def __repr__(self) -> str:
        return f"Spool({self.stats()!r})"


def _batch_kind(entry: Entry) -> tuple[object, ...]:
    """What samples of one batch have in common.

    One that is published with its question reaches recorders, which are subscribers, before the
    question does: it must not overtake samples of its batch that were published earlier.
    """
    return entry.qos, entry.destination, entry.published


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

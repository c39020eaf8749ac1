"""Book: one log that is recorded to. New rows in, duplicates out, and who asks is told the place.

Who brings rows holds `_order` from looking at their numbers to appending them; `_lock` is held for
moments only, as the log's own thread takes it to tell that rows are on disk. Nothing waits for the
disk unless somebody waits for an acknowledgement; whoever wrote the rows gives the answers, holding
neither. A log whose fsync failed is opened again, and the rows of which nobody knew are looked up
and, where they are missing, appended once more.

A row is a duplicate only if the same sample, by key, timestamp and payload, is under way or in the
log: `windows` tell which rows may be, `finder` looks.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Final, TypeAlias

from elea.errors import EleaError, StoreError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log.log import Log
from elea.store.log.signal import Signal
from elea.store.log.single import Rows
from elea.store.log.writer import DividedError, Stored
from elea.store.recorder.counts import Counts
from elea.store.recorder.finder import Finder, Looked
from elea.store.recorder.flight import (
    AMBIGUOUS,
    CLOSED,
    DISPLACED,
    MISSED,
    Answer,
    Flight,
    Given,
    Outcome,
    Place,
    Put,
    Receipt,
    Refusal,
    Waiter,
    by_shard,
    divided,
    finish,
    in_flight_rows,
    places_of,
    received_us,
    written,
)
from elea.store.recorder.marks import Mark, Question, Repeats, mark_of, mark_of_row, rows_of
from elea.store.recorder.notes import Notes
from elea.store.recorder.opener import LogGoneError
from elea.store.recorder.pending_acks import PendingAck, PendingAcks, Receivers
from elea.store.recorder.recall import recalled
from elea.store.recorder.rows import Row, batch_of, gap_row
from elea.store.recorder.windows import Gap, SourceId, Taken, WindowId

_LOG: Final = logging.getLogger("elea.store.recorder")
_LOOKUPS_COUNT: Final = 64  # samples looked for before other things are done
_FAIL_S: Final = 10.0  # how long a broken log has to give its rows back
_Sent: TypeAlias = tuple[Flight, Log, Future[Stored] | None]  # None: who brought it writes it


class Book:
    """One log, its windows and its counters.

    Args:
        name: Of the log.
        key: Under which drops are recorded.
        open_log: Opens the log; again after an error of the disk.
        tell: Gives answers, all that are known at a time. It does not wait.
        look: Has the book tended, soon, by a thread that may wait.
        clock_ns: A clock that never goes back.
        wall_ns: The time of day.

    Raises:
        StoreError: the log cannot be opened.
    """

    def __init__(
        self,
        name: str,
        key: str,
        open_log: Callable[[], Log],
        tell: Callable[[list[Given]], None],
        look: Callable[[], None],
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name = name
        self.counts = Counts()
        self.lag_ns = 0  # of the rows that became durable last, from being received
        self.last_error: str | None = None
        self._open_log = open_log
        self._tell = tell
        self._look = look
        self._limits = limits
        self._clock_ns = clock_ns
        self._wall_ns = wall_ns
        self._order = threading.Lock()
        self._state = Signal()
        self._lock = self._state.lock
        self._flights: deque[Flight] = deque()
        self._unsure: list[Flight] = []  # of a log that broke
        self._asks = PendingAcks()
        self._due: list[Given] = []  # answers that are known; given when `_lock` is free
        self._receivers = Receivers(limits)
        self._lookups: deque[PendingAck] = deque()  # asked for, and perhaps recorded already
        self.notes = Notes(key, limits.record_history_count)
        self._is_closed = False
        self._newest = open_log()
        self._log: Log | None = self._newest
        self.log_id = self._log.log_id
        # How every acknowledgement begins.
        self.head = json.dumps({"log": str(self.log_id), "name": name}).removesuffix("}")
        self._ends = self._log.ends()
        self._finder = Finder(self._log, limits, self.counts)
        self._windows = recalled(self._log, limits, clock_ns(), tails=self._finder.tails)

    @property
    def log(self) -> Log | None:
        """The log; None while it is being opened again."""
        return self._log

    @property
    def used_len(self) -> int:
        """The octets of the log on disk."""
        return self._newest.used_len

    @property
    def waiting_count(self) -> int:
        """How many asked for samples that have not come."""
        return len(self._asks)

    # Rows in.

    def land(self, batch: Rows, *, filled: bool = False) -> int:
        """Record what was received; returns how many rows were new."""
        with self._order:
            batch = self._new_rows(batch, filled=filled)
            sent = self._send(batch, []) if batch.num_rows else None
        count: int = 0 if sent is None else sent[0].batch.num_rows
        if filled:
            self.counts.filled += count
        self._follow(sent)
        return count

    def store(self, puts: Sequence[Put]) -> None:
        """Record samples, each once, and return when they are on disk and answers are due."""
        with self._order:
            fresh: list[Row] = []
            waiters: list[Waiter] = []
            repeats = Repeats()
            marks: dict[int, Mark | None] = {}
            own = [None if put.answer is None else mark_of_row(put.row) for put in puts]
            with self._lock:
                suspects = self._finder.suspects(puts, own, self._windows)
                flights = self._pending()
            looked = self._finder.look(suspects, flights)
            for put, mark in zip(puts, own, strict=True):
                row, is_there = len(fresh), False
                if mark is not None:
                    row = repeats.row_of(mark, row, is_stamped=put.is_stamped)
                    is_there = row < len(fresh) or self._is_known(put, mark, looked)
                if put.answer is not None and (row < len(fresh) or not is_there):
                    waiters.append(Waiter(row, put.answer, duplicate=is_there))
                self.counts.duplicates += is_there
                if not is_there:
                    marks[row] = mark
                    fresh.append(put.row)
            sent = None
            if fresh:
                sent = self._send(batch_of(fresh), waiters, wake=False, marks=marks)
        self._follow(sent, wait=True)

    def dropped(self, count: int, reason: str) -> None:
        """Samples were received, and are not recorded."""
        with self._lock:
            self._drop(count, reason)

    # Questions.

    def ask(self, question: Question, answer: Answer, wait_ns: int) -> None:
        """Answer where a sample is, when it is there; or, after a time, that it is not."""
        identity, key = question.identity, question.key
        with self._lock:
            self._receivers.note_asked(identity.source)
            known = self._finder.fitting(question)
            in_flight = in_flight_rows(self._pending(), question.window, identity.sn, question.fits)
            if question.digest is None and len(known) + len(in_flight) > 1:
                self._answer(answer, AMBIGUOUS)
            elif known:
                self._answer(answer, Place(known[0].shard, known[0].seq, duplicate=False))
            elif in_flight:
                flight, row = in_flight[0]
                flight.waiters.append(Waiter(row, answer, duplicate=False))
            else:
                ask = PendingAck(question, answer, self._clock_ns() + wait_ns)
                self._asks.add(ask)
                if self._windows.may_have(identity, key, question.bits):
                    self._lookups.append(ask)
                    self._look()
        self._give()

    def displace(self) -> bool:
        """End the question that has waited longest for its sample; whether there was one."""
        with self._lock:
            ask = self._asks.oldest()
            if ask is not None and self._asks.remove(ask):
                self._answer(ask.answer, DISPLACED)
        self._give()
        return ask is not None

    def tell_all(self, source: SourceId, nonce: bytes, receipt: Receipt) -> bool:
        """Have a publisher told of each of its samples; whether that is new."""
        with self._lock:
            return self._receivers.register(source, nonce, receipt)

    def told_of_all(self) -> set[int]:
        """The numbers of the entities for which `tell_all` was called."""
        with self._lock:
            return self._receivers.eids()

    def announced(self, window: WindowId, last_sn: int | None = None) -> None:
        """A publisher says that it numbers one key, and perhaps which number it gave last."""
        with self._lock:
            self._windows.announce(window, self._clock_ns(), last_sn)

    def gaps(self, grace_ns: int) -> list[Gap]:
        """What has been missing for a while."""
        with self._lock:
            return self._windows.gaps(self._clock_ns() - grace_ns)

    def settle(self, gaps: Sequence[Gap]) -> None:
        """Nobody has these: record that."""
        received_us = self._wall_ns() // 1_000
        with self._lock:
            for gap in gaps:
                for missing in self._windows.settle(gap):
                    self.counts.gaps += missing.end - missing.start
                    self.notes.add(gap_row(missing, received_us))

    def has_row(self, row: Row) -> bool:
        """Whether a sample without a number is on disk: one of this key with this timestamp."""
        return row.timestamp is not None and self._finder.has_stamp(row.key, row.timestamp)

    # Looking after it: by the desk, now and then.

    def tend(self) -> None:
        """Open a broken log again, answer who waited in vain, tell of gaps and drops."""
        if self._log is None or self._log.broken is not None:
            self._mend()
        self._look_up()
        with self._lock:
            for ask in self._asks.expire(self._clock_ns()):
                self._answer(ask.answer, MISSED)
        self._write_notes()
        self._give()

    def flush(self, timeout_s: float) -> bool:
        """Return when all that was appended is on disk; False: not in time."""
        with self._lock:
            return self._state.wait_for(lambda: not self._flights, timeout_s)

    def status(self) -> dict[str, Json]:
        """What it has, and what went wrong."""
        is_well = self._log is not None and self._log.broken is None
        return {
            "log": str(self.log_id),
            "state": "Closed" if self._is_closed else "Recording" if is_well else "Failed",
            "ends": list(self._ends),
            "octets": self.used_len,
            "lag_ms": self.lag_ns // 1_000_000,
            **asdict(self.counts),
            "forgotten_publishers": self._windows.forgotten_count,
            "restarts": self._windows.restarts_count,
            "last_error": self.last_error,
        }

    def close(self) -> None:
        """Write what waits, and let go of the log."""
        self.tend()
        with self._order:
            self._is_closed = True
            log, self._log = self._log, None
            if log is not None:
                log.close()
        with self._lock:
            for ask in self._asks.expire(None):
                self._answer(ask.answer, CLOSED)
            self._lookups.clear()
            for flight in self._unsure:
                self._refuse(flight, CLOSED)
        self._give()

    # Within.

    def _new_rows(self, batch: Rows, *, filled: bool) -> Rows:
        """Under `_order`: rows without those that are recorded already."""
        with self._lock:
            suspects = self._windows.suspects(batch, unstamped=filled)
            if not suspects:
                return batch
            flights = self._pending()
        now_ns = None if filled else self._clock_ns()
        rows, stored = self._finder.without_known(batch, suspects, flights, now_ns)
        with self._lock:  # who repeated a sample is told where it is, as of a new one
            for mark, shard, seq in stored:
                told = self._receivers.answers(mark, Place(shard, seq, duplicate=True))
                self.counts.acknowledged += len(told)
                self._due += told
        return rows

    def _pending(self) -> tuple[Flight, ...]:
        return (*self._flights, *self._unsure)

    def _is_known(self, put: Put, mark: Mark, looked: Looked) -> bool:
        """Under `_order`: whether a sample is recorded or under way; then it is answered so."""
        assert put.answer is not None
        within_ns = self._limits.record_retry_ns

        def fits(one: Mark) -> bool:
            return mark.may_be(one, within_ns, is_stamped=put.is_stamped)

        with self._lock:
            self._receivers.note_asked(mark.identity.source)
            in_flight = in_flight_rows(self._pending(), mark.window, mark.identity.sn, fits)
            if in_flight:
                flight, row = in_flight[0]
                flight.waiters.append(Waiter(row, put.answer, duplicate=True))
                return True
            places = self._finder.recollect(mark.identity, mark.key)
            found = [one for one in places if fits(one.mark)]
            may_have = self._windows.may_have(mark.identity, mark.key, None)
        if not found and put.is_stamped:
            found = self._finder.found(mark, looked)
        if not found and may_have:
            found = self._finder.find_body(mark, fits)
        if found:
            with self._lock:
                self._finder.noted(found[0])
                self._answer(put.answer, Place(found[0].shard, found[0].seq, duplicate=True))
        return bool(found)

    def _give(self) -> None:
        """Give the answers that are known. No lock is held."""
        if self._due:
            with self._lock:
                due, self._due = self._due, []
            self._tell(due)

    def _send(
        self,
        batch: Rows,
        waiters: list[Waiter],
        *,
        wake: bool = True,
        notes: list[Row] | None = None,
        marks: dict[int, Mark | None] | None = None,
    ) -> _Sent | None:
        """Under `_order`: append rows. None: there is no log."""
        log = self._log
        with self._lock:
            taken: Taken = {}
            if log is not None and not notes:
                wall_bits = (self._wall_ns() << 32) // 1_000_000_000
                taken = self._windows.take(batch, self._clock_ns(), wall_bits=wall_bits)
            flight = Flight(batch, taken, waiters, notes=notes)
            if log is None:
                self._refuse(flight, Refusal("closed", f"the disk failed: {self.last_error}"))
                return None
            self._note_rows(flight, marks or {})
            self._flights.append(flight)
        try:
            if flight.is_awaited and log.claim(batch):
                return flight, log, None
            future = log.append(batch, wake=wake and not flight.is_awaited, divisible=True)
        except StoreError:  # it broke: looked at when it is opened again
            with self._lock:
                self._flights.remove(flight)
                flight.is_new = True
                self._unsure.append(flight)
                self._state.tell()
            self._look()
            return None
        return flight, log, future

    def _follow(self, sent: _Sent | None, *, wait: bool = False) -> None:
        """Without a lock: see to the answers for what was appended, writing it if any are due."""
        if sent is not None:
            flight, log, future = sent
            if future is None:
                self._end(log, flight, written(log, flight))
                return
            future.add_done_callback(
                lambda done: self._end(log, flight, done.exception() or done.result())
            )
            if wait or flight.is_awaited:
                finish(log, future)
                if not flight.is_told:  # another thread wrote it, and is telling
                    with self._lock:
                        self._state.wait_for(lambda: flight.is_told)
        self._give()

    def _note_rows(self, flight: Flight, marks: dict[int, Mark | None]) -> None:
        """Note which rows are asked about, now or likely soon."""
        for id in flight.taken:
            if not self._receivers.are_interested(id[:2]):
                continue
            for row, _ in rows_of(flight.batch, id):
                mark = marks.get(row) or mark_of(flight.batch, row)
                if mark is not None:
                    flight.marks[row] = mark
                    for ask in self._asks.take(mark):
                        flight.waiters.append(Waiter(row, ask.answer, duplicate=False))

    def _end(self, log: Log, flight: Flight, outcome: Stored | BaseException) -> None:
        """By whoever wrote: rows are on disk, or not."""
        ended = flight
        try:
            flight = self._without_refused(flight, outcome)
            if isinstance(outcome, Stored) and flight.is_awaited:
                with self._lock:
                    answers = self._answers(flight, outcome.ranges)
                self._tell(answers)  # first: somebody waits for it
            with self._lock:
                self._flights.remove(flight)
                if isinstance(outcome, Stored):
                    self._stored(flight, outcome.ranges)
                else:
                    if log.broken is not None:
                        self._unsure.append(flight)
                    else:
                        self._refuse(flight, Refusal("full", str(outcome)))
                    self._look()
            self._give()
        finally:
            with self._lock:
                ended.is_told = True
                self._state.tell()

    def _without_refused(self, flight: Flight, outcome: Stored | BaseException) -> Flight:
        """Refuse the rows for which there was no room, and go on with the others."""
        if isinstance(outcome, Stored | DividedError) and outcome.refused:
            with self._lock:
                self._flights.remove(flight)
                flight, refused = divided(flight, outcome.refused)
                self._flights.append(flight)
                self._refuse(refused, Refusal("full", outcome.reason))
        return flight

    def _answers(self, flight: Flight, ranges: dict[int, tuple[int, int]]) -> list[Given]:
        """Where the rows of a flight are that somebody waits for now."""
        places = places_of(flight.batch, ranges, len(self._ends))
        waiters, flight.waiters = flight.waiters, []
        asked = {row for row, _, _ in waiters}
        due: list[Given] = []
        for row, mark in flight.marks.items():
            told = self._receivers.answers(mark, Place(*places[row], False))
            self.counts.acknowledged += 0 if row in asked else len(told)
            due += told
        for row, answer, duplicate in waiters:
            self.counts.acknowledged += 1
            due.append((answer, Place(*places[row], duplicate)))
        return due

    def _stored(self, flight: Flight, ranges: dict[int, tuple[int, int]]) -> None:
        """Rows are on disk, and who waited for them was told; some may wait since."""
        self.counts.rows += flight.batch.num_rows if flight.notes is None else 0
        self._finder.add_rows(flight.batch, ranges)
        for shard, (_, end) in ranges.items():
            self._ends[shard] = max(self._ends[shard], end)
        self.lag_ns = max(self._wall_ns() - received_us(flight.batch) * 1_000, 0)
        if not flight.is_awaited:
            return
        places = places_of(flight.batch, ranges, len(self._ends))
        for row, mark in flight.marks.items():
            self._finder.remember(mark, *places[row])
        for row, answer, duplicate in flight.waiters:
            self._answer(answer, Place(*places[row], duplicate))

    def _refuse(self, flight: Flight, refusal: Refusal) -> None:
        self._windows.forget(flight.taken)
        for mark in flight.marks.values():
            self._due += self._receivers.answers(mark, refusal)
        for _, answer, _ in flight.waiters:
            self._answer(answer, refusal)
        if flight.notes is None:
            self._drop(flight.batch.num_rows - len(flight.told_rows or ()), refusal.detail)
        else:
            self.notes.take_back(flight.notes)  # told later, when there is room
        self.last_error = refusal.detail

    def _drop(self, count: int, reason: str) -> None:
        if count:
            if not self.notes.drops_count:
                _LOG.error("log %s: samples are not recorded: %s", self.name, reason)
            self.counts.dropped += count
            self.notes.add_drops(count)
            self.last_error = reason

    def _answer(self, answer: Answer, outcome: Outcome) -> None:
        if isinstance(outcome, Place):
            self.counts.acknowledged += 1
        self._due.append((answer, outcome))

    def _look_up(self) -> None:
        """Find samples in the log itself: those that came before anybody asked."""
        for ask in self._asks.taken_from(self._lookups, _LOOKUPS_COUNT):
            found = self._finder.answer(ask.question)
            with self._lock:
                outcome = self._finder.noted(found)
                if outcome is not None and self._asks.remove(ask):
                    self._answer(ask.answer, outcome)
        if self._lookups:
            self._look()

    def _write_notes(self) -> None:
        with self._order:
            log = self._log
            if log is None or log.broken is not None:
                return
            with self._lock:
                notes = self.notes.take(self._wall_ns() // 1_000)
            sent = self._send(batch_of(notes), [], notes=notes) if notes else None
        self._follow(sent)

    def _mend(self) -> None:
        """Open the log again, and append what did not get there."""
        with self._order:
            old, self._log = self._log, None
            if old is not None:
                self.flush(_FAIL_S)
                try:
                    old.close()
                except OSError as error:
                    _LOG.warning("log %s: closing it failed: %s", self.name, error)
                _LOG.error("log %s is opened again: %s", self.name, old.broken)
            try:
                new = self._open_log()
            except LogGoneError as error:
                self._refuse_unsure(str(error), is_new=old is not None)
                return
            except (EleaError, OSError) as error:
                self.last_error = str(error)
                return
            self.counts.reopened += 1
            with self._lock:
                grown = new.grown_since(self._ends)
                unsure, self._unsure = self._unsure, []
                notes = [*self.notes, *(note for one in unsure for note in one.notes or ())]
                self._finder = Finder(new, self._limits, self.counts)
                self._windows = recalled(
                    *(new, self._limits, self._clock_ns()),
                    tails=self._finder.tails,
                    notes=notes,
                    before=self._windows,
                )
                missing = [part for one in unsure for part in self._kept(one, grown)]
            self._log = self._newest = new
            sent = [self._send(one.batch, one.waiters, notes=one.notes) for one in missing]
        for one in sent:
            self._follow(one)

    def _refuse_unsure(self, reason: str, *, is_new: bool) -> None:
        """What was under way is not acknowledged: the log is gone."""
        if is_new:
            _LOG.error("log %s: nothing is recorded: %s", self.name, reason)
        with self._lock:
            unsure, self._unsure = self._unsure, []
            for flight in unsure:
                self._refuse(flight, Refusal("closed", reason))
            self.last_error = reason

    def _kept(self, flight: Flight, grown: list[int]) -> list[Flight]:
        """The parts of a flight that are not in the log. A block is there whole, or not at all."""
        missing = []
        for shard, part in by_shard(flight, len(self._ends)):
            count = part.batch.num_rows
            if part.is_new or grown[shard] < count:
                missing.append(part)
                continue
            grown[shard] -= count
            ranges = {shard: (self._ends[shard], self._ends[shard] + count)}
            self._due += self._answers(part, ranges)
            self._stored(part, ranges)
        return missing

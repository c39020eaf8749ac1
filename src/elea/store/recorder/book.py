"""Book: one log that is recorded to. New rows in, repetitions out, and who asks is told the place.

Who brings rows holds `_order` from looking at their numbers to appending them; `_lock` is held for
moments only, as the log's own thread takes it to tell that rows are on disk. Nothing waits for the
disk unless somebody waits for an acknowledgement; whoever wrote the rows gives the answers, holding
neither. A log whose fsync failed is opened again, and the rows of which nobody knew are looked up
and, where they are missing, appended once more.
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
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from elea.errors import EleaError, StoreError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.signal import Signal
from elea.store.log.single import Rows
from elea.store.log.writer import Stored, shard_of
from elea.store.recorder.counts import Counts
from elea.store.recorder.flight import (
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
    finish,
    places_of,
    received_us,
    row_of,
    rows_of,
    written,
)
from elea.store.recorder.recall import recalled
from elea.store.recorder.rows import Row, batch_of, drop_row, gap_row
from elea.store.recorder.windows import Gap, Identity, SourceId

_LOG: Final = logging.getLogger("elea.store.recorder")
_LOOKED_AT: Final = ("key", "zid", "eid", "sn")
_LOOK_ROWS: Final = 65_536  # rows that are looked through at once, from the end on
_FAIL_S: Final = 10.0  # how long a broken log has to give its rows back


_Sent: TypeAlias = tuple[Flight, Log, Future[Stored] | None]  # None: who brought it writes it


class _Ask(NamedTuple):
    answer: Answer
    deadline_ns: int
    duplicate: bool


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
        self._key = key
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
        self._asks: dict[Identity, list[_Ask]] = {}
        self._due: list[Given] = []  # answers that are known; given when `_lock` is free
        self._receipts: dict[SourceId, Receipt] = {}  # who is told of each sample, unasked
        self._lookups: deque[tuple[str, Identity, Answer, bool]] = deque()
        self._notes: deque[Row] = deque(maxlen=limits.record_history_count)
        self._owed_count = 0  # drops that no row tells yet
        self._is_closed = False
        self._newest = open_log()
        self._log: Log | None = self._newest
        self.log_id = self._log.log_id
        # How every acknowledgement begins.
        self.head = json.dumps({"log": str(self.log_id), "name": name}).removesuffix("}")
        self._ends = self._log.ends()
        self._windows = recalled(self._log, limits, clock_ns())

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

    @property
    def owed_count(self) -> int:
        """Drops that no row tells yet."""
        return self._owed_count

    # Rows in.

    def land(self, batch: Rows, *, filled: bool = False) -> int:
        """Record what was received; returns how many rows were new."""
        with self._order:
            sent = self._send(batch, [])
        count: int = 0 if sent is None else sent[0].batch.num_rows
        if filled:
            self.counts.filled += count
        self._follow(sent)
        return count

    def store(self, puts: Sequence[Put]) -> None:
        """Record samples, each once, and return when they are on disk and answers are due."""
        with self._order:
            with self._lock:
                fresh, repeated = self._sorted(puts)
            sent = None
            if fresh:
                waiters = [
                    Waiter(place, put.answer, duplicate=False)
                    for place, put in enumerate(fresh)
                    if put.answer is not None
                ]
                sent = self._send(batch_of([put.row for put in fresh]), waiters, wake=False)
        for put in repeated:
            assert put.row.identity is not None
            self.counts.duplicates += 1
            if put.answer is not None:
                self.ask(put.row.key, put.row.identity, put.answer, 0, duplicate=True)
        self._follow(sent, wait=True)

    def dropped(self, count: int, reason: str) -> None:
        """Samples were received, and are not recorded."""
        with self._lock:
            self._drop(count, reason)

    # Questions.

    def ask(
        self, key: str, identity: Identity, answer: Answer, wait_ns: int, *, duplicate: bool = False
    ) -> None:
        """Answer where a sample is, when it is there; or, after a time, that it is not."""
        with self._lock:
            seq = self._windows.ask(identity)
            if seq is None:
                self._wait_for(key, identity, answer, self._clock_ns() + wait_ns, duplicate)
            else:
                self._answer(answer, Place(self._shard_of(key), seq, duplicate))
        self._give()

    def tell_all(self, source: SourceId, receipt: Receipt) -> bool:
        """Have a publisher told of each of its samples; whether that is new."""
        with self._lock:
            if source in self._receipts:
                return False
            if len(self._receipts) >= self._limits.record_receipts_count:
                self._receipts.clear()  # who hears nothing asks again
            self._receipts[source] = receipt
            return True

    def told_of_all(self) -> set[int]:
        """The numbers of the entities for which `tell_all` was called."""
        with self._lock:
            return {eid for _, eid in self._receipts}

    def heard(self, source: SourceId, last_sn: int) -> None:
        """A publisher says which number it gave last."""
        with self._lock:
            self._windows.heard(source, last_sn, self._clock_ns())

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
                    self._notes.append(gap_row(missing, received_us))

    def has_row(self, row: Row) -> bool:
        """Whether a sample without a number is on disk: one of this key with this timestamp."""
        log, stamp = self._log, row.timestamp
        if log is None or stamp is None:
            return False
        bits = stamp.time.value
        found = LogReader(log.disk, lambda _: None).select(
            row.key, since=bits, until=bits + 1, columns=["key", "hlc", "hlc_id", "recv_ts"]
        )
        clocks = {clock for batch in found for clock in batch.column("hlc_id").to_pylist()}
        return str(stamp.id) in clocks

    # Looking after it: by the desk, now and then.

    def tend(self) -> None:
        """Open a broken log again, answer who waited in vain, tell of gaps and drops."""
        if self._log is None or self._log.broken is not None:
            self._mend()
        self._expire()
        self._look_up()
        self._write_notes()
        self._give()

    def flush(self, timeout_s: float) -> bool:
        """Return when all that was appended is on disk; False: not in time."""
        with self._lock:
            return self._state.wait_for(lambda: not self._flights, timeout_s)

    def status(self) -> dict[str, Json]:
        """What it has, and what went wrong."""
        counts: dict[str, Json] = dict(asdict(self.counts))
        return {
            "log": str(self.log_id),
            "state": self._state_text(),
            "ends": list(self._ends),
            "octets": self.used_len,
            "lag_ms": self.lag_ns // 1_000_000,
            **counts,
            "forgotten_publishers": self._windows.forgotten_count,
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
            for asks in self._asks.values():
                for one in asks:
                    self._answer(one.answer, _CLOSED)
            self._asks.clear()
            for _, _, answer, _ in self._lookups:
                self._answer(answer, _CLOSED)
            self._lookups.clear()
            for flight in self._unsure:
                self._refuse(flight, _CLOSED)
        self._give()

    # Within.

    def _wait_for(
        self, key: str, identity: Identity, answer: Answer, deadline_ns: int, duplicate: bool
    ) -> None:
        """Have somebody wait for a sample: it has not come, or is under way, or is looked up."""
        if not self._windows.has(identity):
            self._asks.setdefault(identity, []).append(_Ask(answer, deadline_ns, duplicate))
            return
        for flight in (*self._flights, *self._unsure):
            row = row_of(flight, identity)
            if row is not None:
                flight.waiters.append(Waiter(row, answer, duplicate))
                return
        self._lookups.append((key, identity, answer, duplicate))
        self._look()

    def _give(self) -> None:
        """Give the answers that are known. No lock is held."""
        if self._due:
            with self._lock:
                due, self._due = self._due, []
            self._tell(due)

    def _sorted(self, puts: Sequence[Put]) -> tuple[list[Put], list[Put]]:
        """Those that are new, and those that are there already."""
        fresh: list[Put] = []
        repeated: list[Put] = []
        seen: set[Identity] = set()
        for put in puts:
            identity = put.row.identity
            if identity is None or put.answer is None:
                fresh.append(put)
                continue
            self._windows.ask(identity)
            is_new = identity not in seen and not self._windows.has(identity)
            (fresh if is_new else repeated).append(put)
            seen.add(identity)
        return fresh, repeated

    def _send(
        self,
        batch: Rows,
        waiters: list[Waiter],
        *,
        wake: bool = True,
        notes: list[Row] | None = None,
    ) -> _Sent | None:
        """Under `_order`: append what is new. None: nothing is, or there is no log."""
        log = self._log
        with self._lock:
            if log is None:
                flight = Flight(batch, {}, waiters, notes=notes, told_count=len(waiters))
                self._refuse(flight, Refusal("closed", f"the disk failed: {self.last_error}"))
                return None
            kept, taken = (batch, {}) if notes else self._windows.take(batch, self._clock_ns())
            self.counts.duplicates += batch.num_rows - kept.num_rows
            if not kept.num_rows:
                return None
            flight = Flight(kept, taken, waiters, notes=notes, told_count=len(waiters))
            self._note_rows(flight)
            self._flights.append(flight)
        try:
            if flight.is_awaited and log.claim(kept):
                return flight, log, None
            future = log.append(kept, wake=wake and not flight.is_awaited)
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

    def _note_rows(self, flight: Flight) -> None:
        """Note which rows are asked about, now or likely soon."""
        for id in flight.taken:
            if id not in self._receipts and not self._windows.is_asked(id):
                continue
            for row, sn in rows_of(flight.batch, id):
                identity = Identity(*id, sn)
                flight.rows[identity] = row
                for one in self._asks.pop(identity, ()):
                    flight.waiters.append(Waiter(row, one.answer, one.duplicate))

    def _end(self, log: Log, flight: Flight, outcome: Stored | BaseException) -> None:
        """By whoever wrote: rows are on disk, or not."""
        try:
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
                flight.is_told = True
                self._state.tell()

    def _answers(self, flight: Flight, ranges: dict[int, tuple[int, int]]) -> list[Given]:
        """Where the rows of a flight are that somebody waits for now."""
        places = places_of(flight.batch, ranges, len(self._ends))
        waiters, flight.waiters = flight.waiters, []
        asked = {row for row, _, _ in waiters}
        due: list[Given] = []
        for identity, row in flight.rows.items():
            receipt = self._receipts.get(identity.source)
            if receipt is not None:
                self.counts.acknowledged += row not in asked
                due.append((partial(receipt, identity), Place(*places[row], False)))
        for row, answer, duplicate in waiters:
            self.counts.acknowledged += 1
            due.append((answer, Place(*places[row], duplicate)))
        return due

    def _stored(self, flight: Flight, ranges: dict[int, tuple[int, int]]) -> None:
        """Rows are on disk, and who waited for them was told; some may wait since."""
        self.counts.rows += flight.batch.num_rows
        for shard, (_, end) in ranges.items():
            self._ends[shard] = max(self._ends[shard], end)
        self.lag_ns = max(self._wall_ns() - received_us(flight.batch) * 1_000, 0)
        if not flight.is_awaited:
            return
        places = places_of(flight.batch, ranges, len(self._ends))
        for identity, row in flight.rows.items():
            self._windows.place(identity, places[row][1])
        for row, answer, duplicate in flight.waiters:
            self._answer(answer, Place(*places[row], duplicate))

    def _refuse(self, flight: Flight, refusal: Refusal) -> None:
        self._windows.forget(flight.taken)
        for identity in flight.rows:
            receipt = self._receipts.get(identity.source)
            if receipt is not None:
                self._due.append((partial(receipt, identity), refusal))
        for _, answer, _ in flight.waiters:
            self._answer(answer, refusal)
        if flight.notes is None:
            self._drop(flight.batch.num_rows - flight.told_count, refusal.detail)
        else:
            for note in flight.notes:  # told later, when there is room
                if note.kind is RowKind.DROP:
                    self._owed_count += int(note.payload)
                else:
                    self._notes.append(note)
        self.last_error = refusal.detail

    def _drop(self, count: int, reason: str) -> None:
        if count:
            if not self._owed_count:
                _LOG.error("log %s: samples are not recorded: %s", self.name, reason)
            self.counts.dropped += count
            self._owed_count += count
            self.last_error = reason

    def _answer(self, answer: Answer, outcome: Outcome) -> None:
        if isinstance(outcome, Place):
            self.counts.acknowledged += 1
        self._due.append((answer, outcome))

    def _state_text(self) -> str:
        if self._is_closed:
            return "Closed"
        return "Recording" if self._log is not None and self._log.broken is None else "Failed"

    def _shard_of(self, key: str) -> int:
        return shard_of(key, len(self._ends))

    def _expire(self) -> None:
        now_ns = self._clock_ns()
        with self._lock:
            for identity, asks in list(self._asks.items()):
                left = [one for one in asks if one.deadline_ns > now_ns]
                for one in asks:
                    if one not in left:
                        detail = "it was not received; put it with its payload"
                        self._answer(one.answer, Refusal("unknown", detail))
                if left:
                    self._asks[identity] = left
                else:
                    del self._asks[identity]

    def _look_up(self) -> None:
        """Find samples in the log itself: those that came before anybody asked."""
        while self._lookups:
            key, identity, answer, duplicate = self._lookups.popleft()
            with self._lock:
                seq = self._windows.ask(identity)
            if seq is None:
                seq = self._found(key, identity)
            outcome: Outcome = Refusal("unknown", "it is too long ago, or was refused")
            if seq is not None:
                outcome = Place(self._shard_of(key), seq, duplicate)
            with self._lock:
                self._answer(answer, outcome)

    def _found(self, key: str, identity: Identity) -> int | None:
        log = self._log
        if log is None:
            return None
        reader = LogReader(log.disk, lambda _: None)
        shard = self._shard_of(key)
        bounds = reader.bounds(shard)
        first = max(bounds.first, bounds.end - self._limits.record_tail_rows_count)
        found: int | None = None
        for end in range(bounds.end, first, -_LOOK_ROWS):
            start = max(end - _LOOK_ROWS, first)
            for batch in reader.read(shard, start, end, columns=_LOOKED_AT, position=True):
                seqs = batch.column("seq")
                for row, sn in rows_of(batch, identity.source):
                    with self._lock:
                        self._windows.place(Identity(*identity.source, sn), seqs[row].as_py())
                    found = seqs[row].as_py() if sn == identity.sn else found
            if found is not None:
                return found
        return None

    def _write_notes(self) -> None:
        with self._order:
            log = self._log
            if log is None or log.broken is not None:
                return
            with self._lock:
                notes = list(self._notes)
                self._notes.clear()
                owed, self._owed_count = self._owed_count, 0
                if owed:
                    notes.append(drop_row(self._key, owed, self._wall_ns() // 1_000))
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
            except (EleaError, OSError) as error:
                self.last_error = str(error)
                return
            self.counts.reopened += 1
            with self._lock:
                grown = [new - old for new, old in zip(new.ends(), self._ends, strict=True)]
                unsure, self._unsure = self._unsure, []
                notes = [*self._notes, *(note for one in unsure for note in one.notes or ())]
                self._windows = recalled(
                    new, self._limits, self._clock_ns(), notes=notes, before=self._windows
                )
                missing = [part for one in unsure for part in self._kept(one, grown)]
            self._log = self._newest = new
            sent = [self._send(one.batch, one.waiters, notes=one.notes) for one in missing]
        for one in sent:
            self._follow(one)

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


_CLOSED: Final = Refusal("closed", "the recorder ends")

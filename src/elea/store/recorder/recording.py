"""Recording: what is published under some key expressions, into one log or one for each name.

subscribers (Arrow)  ->  one thread each  ->  books  ->  logs
questions with samples, tokens  ->  the desk  ->  the same books
answers  <-  whoever wrote the rows
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import ClosedError, EleaError, KeyExprError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.batches import ArrowBatches
from elea.session.columns import Haste
from elea.session.handlers import Callback, Handler
from elea.session.session import Session
from elea.session.subscriber import Subscriber
from elea.store.flight.door import Door
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.signal import Signal
from elea.store.log.single import Rows, Single
from elea.store.logserver import LogServer
from elea.store.recorder.ack import AckServer
from elea.store.recorder.book import Book
from elea.store.recorder.counts import Counts
from elea.store.recorder.desk import Desk
from elea.store.recorder.fill import Filler
from elea.store.recorder.flight import Given, Put
from elea.store.recorder.opener import LogOpener, OpenLog
from elea.store.recorder.rows import token_row
from elea.store.recorder.settings import Names, RecordingSettings

_LOG: Final = logging.getLogger("elea.store.recorder")
_BATCH_ROWS: Final = 16_384
_BATCH_MS: Final = 100.0  # that a row waits for others, unless somebody asks for it
_ORDER_S: Final = 0.05  # that a sample to be acknowledged waits for those received before it
_READ_S: Final = 1.0  # that an answer from the log waits for what was received before the question
_STOP_S: Final = 30.0  # how long an end waits for the disk
_QUICK_NS: Final = 2_000_000  # a disk that takes longer does not hold up the thread that receives
_QUICK_COUNT: Final = 64  # lone rows, one after the other, that took less: then it may again


class _Intake:
    """One subscriber and its thread.

    A row that somebody waits for, that is alone and that has nothing before it, is landed by the
    thread that received it, as long as the disk is quick: `_turn` keeps the two in order.
    """

    def __init__(
        self, session: Session, key_expr: str, land: Callable[[Rows], None], *, shares_session: bool
    ):
        self.key_expr = key_expr
        self._land = land
        self._told_count = 0  # drops that were told
        self._turn = threading.Lock()  # whoever has it lands rows
        self._quick_count = _QUICK_COUNT
        self._landed = Signal()
        self._haste = Haste()
        batches = ArrowBatches(
            *(_BATCH_ROWS, _BATCH_MS),
            haste=self._haste,
            shortcut=None if shares_session else self,
        )
        self._subscriber: Subscriber[Handler[Rows]] = session.declare_subscriber(key_expr, batches)
        self._handler = self._subscriber.handler
        self._worker = threading.Thread(target=self._run, name=f"record {key_expr}", daemon=True)
        self._worker.start()

    def hurry(self) -> None:
        """Land what was received, soon."""
        self._haste.is_due = True
        if self._is_idle():  # else the worker does, when it is done with what it has
            self._flush()

    def hasten(self, eids: set[int]) -> None:
        """From now on, land at once what these entities number."""
        self._haste.eids = eids

    def settle(self, patience_s: float) -> None:
        """Return when what was received is landed, or after a time."""
        self._flush()
        end = self._haste.handed_count
        with self._landed.lock:
            self._landed.wait_for(lambda: self._haste.done_count >= end, patience_s)

    def newly_dropped(self) -> int:
        """Samples for which there was no room since this was asked last."""
        count = self._handler.dropped_count - self._told_count
        self._told_count += count
        return count

    def stop(self) -> None:
        """Take no more, and land what was received."""
        with suppress(ClosedError):  # the session went first
            self._subscriber.undeclare()
        self._worker.join(_STOP_S)
        if self._worker.is_alive() or not self._turn.acquire(timeout=_STOP_S):
            _LOG.error("recording %s: its disk does not answer; it is left", self.key_expr)

    # As a shortcut of its batches.

    def begin(self) -> bool:
        """Whether the thread that received a row is to land it."""
        return self._quick_count >= _QUICK_COUNT and self._turn.acquire(blocking=False)

    def take(self, row: Single) -> None:
        """Land it."""
        try:
            self._do(row)
        finally:
            self._turn.release()
        self._done()

    def _is_idle(self) -> bool:
        return self._haste.handed_count == self._haste.done_count

    def _flush(self) -> None:
        with suppress(ClosedError):
            self._subscriber.flush()

    def _run(self) -> None:
        for batch in self._handler:
            with self._turn:
                self._do(batch)
            self._done()

    def _do(self, batch: Rows) -> None:
        began_ns = time.monotonic_ns()
        try:
            self._land(batch)
        except Exception:  # what follows is recorded all the same
            _LOG.exception("recording %s: %d rows are lost", self.key_expr, batch.num_rows)
        if isinstance(batch, Single):
            is_quick = time.monotonic_ns() - began_ns < _QUICK_NS
            self._quick_count = self._quick_count + 1 if is_quick else 0

    def _done(self) -> None:
        with self._landed.lock:
            self._haste.done_count += 1
            self._landed.tell()
        if self._haste.is_due:
            self._flush()


class Recording:
    """One recording that runs, until `stop`.

    Args:
        session: Whose samples are recorded.
        settings: Which, and where.
        limits: How much is remembered, and how many may wait.
        shares_session: Whether the session serves others, who are not to wait for the disk.
        open_log: Opens the log of a directory.
        door: By which its logs can be read as well.

    Raises:
        StoreError: a log cannot be opened.
        ClosedError: the session is closed.
    """

    def __init__(
        self,
        session: Session,
        settings: RecordingSettings,
        *,
        limits: Limits = DEFAULT_LIMITS,
        shares_session: bool = False,
        open_log: OpenLog = Log,
        door: Door | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings = settings
        self.names = Names(settings.key_exprs, settings.name)
        self.lost_count = 0  # rows for which there was no log
        self._session = session
        self._limits = limits
        self._shares_session = shares_session
        self._open_log = open_log
        self._door = door
        self._wall_ns = wall_ns
        self._opening = threading.Lock()
        self._books: dict[str, Book] = {}
        self._counting = threading.Lock()
        self._tokens_count = 0  # changes of liveliness that wait for the desk
        self._serving = threading.Lock()
        self._served: dict[str, tuple[Log, LogServer]] = {}
        self._desk = Desk(f"recorder {settings.name}", self.settle, self._tend)
        self._intakes: list[_Intake] = []
        self._tokens: list[Subscriber[None]] = []
        self._acks: AckServer | None = None
        if not self.names.is_template:
            self._open(settings.name)
        self._filler = Filler(session, self, settings, limits.record_history_count)
        self._desk.start()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        for key_expr in self.names.key_exprs:
            self._intakes.append(
                _Intake(self._session, key_expr, self._land, shares_session=self._shares_session)
            )
            if self.settings.liveliness:
                changed = Callback(self._token_changed, indirect=False)
                self._tokens.append(
                    self._session.liveliness().declare_subscriber(key_expr, changed, history=True)
                )
        self._acks = AckServer(self._session, self, self._limits)
        for book in self.books():
            self._keep_served(book)
        self._filler.start()

    def stop(self) -> None:
        """Take no more, keep what has come, and close the logs."""
        self._filler.stop()
        for token in self._tokens:
            with suppress(ClosedError):
                token.undeclare()
        if self._acks is not None:
            self._acks.stop()
        for intake in self._intakes:
            intake.stop()
        self._desk.stop()
        self._tend()
        for _, server in self._served.values():
            server.stop()
        for book in self.books():
            book.close()
        self._desk.drain()

    # What is known of it.

    def books(self) -> list[Book]:
        """Its logs."""
        return list(self._books.values())

    def counts(self) -> Counts:
        """What became of samples, over all logs."""
        total = Counts()
        for book in self.books():
            total.add(book.counts)
        total.dropped += self.lost_count
        return total

    def status(self) -> dict[str, Json]:
        """Values by log, and of the whole."""
        logs: dict[str, Json] = {book.name: book.status() for book in self.books()}
        return {
            "key_exprs": list(self.settings.key_exprs),
            "name": self.settings.name,
            "directory": str(self.settings.directory),
            "logs": logs,
            "without_log": self.lost_count,
            "refused_acknowledgements": 0 if self._acks is None else self._acks.refused_count,
            "history_cut": self._filler.cut_count,
            "history_nameless": self._filler.nameless_count,
        }

    # For those who serve it.

    def book_of(self, key: str) -> Book | None:
        """The open log of a key."""
        return self._books.get(self.names.of(key))

    def open_book(self, key: str) -> Book | None:
        """The log of a key, opened if need be; None if that cannot be, which is logged."""
        try:
            name = self.names.of(key)
        except KeyExprError:
            return None
        book = self._books.get(name)
        if book is not None:
            return book
        with self._opening:
            try:
                return self._books.get(name) or self._open(name)
            except (EleaError, OSError) as error:
                if not self.lost_count:
                    _LOG.error("log %s cannot be opened: %s", name, error)
                return None

    def put(self, book: Book, put: Put) -> None:
        """Store a sample that did not come as a row."""
        self._desk.put(book, put)

    def call(self, act: Callable[[], None]) -> None:
        """Do something that may wait."""
        self._desk.call(act)

    def hurry(self, key_expr: str) -> None:
        """Somebody waits for what was received under a key expression."""
        for intake in self._intakes:
            if intake.key_expr == key_expr:
                intake.hurry()
        self._desk.hurry()

    def hasten(self, eids: set[int]) -> None:
        """What these entities number does not wait for other rows."""
        for intake in self._intakes:
            intake.hasten(eids)

    def settle(self, patience_s: float = _ORDER_S) -> None:
        """By the desk: what was received before what it is about to store comes first."""
        for intake in self._intakes:
            intake.settle(patience_s)

    def now_us(self) -> int:
        """The time of day, as in `recv_ts`."""
        return self._wall_ns() // 1_000

    # Within.

    def _open(self, name: str) -> Book:
        if len(self._books) >= self._limits.record_logs_count:
            raise EleaError(f"there are {len(self._books)} logs already, which is the most")
        directory = self.settings.directory
        if self.names.is_template:
            directory /= name
        book = Book(
            name,
            self.names.key_exprs[0],
            LogOpener(self._open_log, directory, self.settings.log),
            self._tell,
            self._desk.look,
            limits=self._limits,
            wall_ns=self._wall_ns,
        )
        self._books[name] = book
        self._keep_served(book)
        _LOG.info("log %s is recorded in %s", name, directory)
        return book

    def _keep_served(self, book: Book) -> None:
        """Serve the log of a book; again when it was opened anew.

        Not before samples are taken and acknowledged: the token of a log says that they are.
        """
        log = book.log
        with self._serving:
            old = self._served.get(book.name)
            if self._acks is None or log is None or (old is not None and old[0] is log):
                return
            # Historians here see what was received.
            log.before_flush.append(partial(self.settle, _READ_S))
            if old is not None:
                old[1].stop()
            reader, key_exprs = LogReader(log.disk), self.names.key_exprs
            server = LogServer(
                self._session, book.name, reader, log, key_exprs=key_exprs, door=self._door
            )
            self._served[book.name] = (log, server)

    def _tell(self, given: list[Given]) -> None:
        """By whoever knows the answers: give them, together."""
        for answer, outcome in given:
            try:
                answer(outcome)
            except Exception:  # one that fails leaves the others alone
                _LOG.exception("a recorder could not answer")
        if self._acks is not None:
            self._acks.send()

    def _land(self, batch: Rows) -> None:
        """By a subscriber's thread."""
        for book, part in self._by_book(batch):
            if book is None:
                self.lost_count += part.num_rows
            else:
                book.land(part)

    def _by_book(self, batch: Rows) -> list[tuple[Book | None, Rows]]:
        if not self.names.is_template:
            return [(self._books[self.names.name], batch)]
        if isinstance(batch, Single):
            return [(self.open_book(batch.key), batch)]
        keys = batch.column("key")
        books = [self.open_book(key) for key in keys.dictionary.to_pylist()]
        distinct = list(dict.fromkeys(books))
        if len(distinct) == 1:
            return [(distinct[0], batch)]
        of_row = pa.array([distinct.index(one) for one in books]).take(keys.indices)
        parts = [
            (book, batch.filter(pc.equal(of_row, pa.scalar(number, of_row.type))))
            for number, book in enumerate(distinct)
        ]
        return [(book, part) for book, part in parts if part.num_rows]

    def _token_changed(self, sample: Sample) -> None:
        is_there = sample.kind is SampleKind.PUT
        with self._counting:
            is_full = self._tokens_count >= self._limits.record_tokens_count
            self._tokens_count += not is_full
        if is_full:
            self._drop(1, "too many changes of liveliness wait for the disk")
            return
        row = token_row(sample.key_text, self.now_us(), is_there=is_there)
        self._desk.call(partial(self._record_token, Put(row, None)))

    def _record_token(self, put: Put) -> None:
        with self._counting:
            self._tokens_count -= 1
        book = self.open_book(put.row.key)
        if book is None:
            self.lost_count += 1
        else:
            self._desk.put(book, put)

    def _drop(self, count: int, reason: str) -> None:
        books = self.books()
        if count and books:
            books[0].dropped(count, reason)
        elif count:
            self.lost_count += count

    def _tend(self) -> bool:
        """By the desk: whether somebody waits."""
        books = self.books()
        for intake in self._intakes:
            self._drop(intake.newly_dropped(), "the disk is slower than what is received")
        for book in books:
            book.tend()
            self._keep_served(book)
        self._filler.tend()
        return any(book.waiting_count for book in books)

"""Filler: asks caches and storages for what was published before, and for what is missing.

A publisher that numbers its samples tells by the numbers what did not arrive, and by a heartbeat
which one was the last. What nobody has after all becomes a row that says so.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from elea.errors import ClosedError
from elea.ids import EntityGlobalId
from elea.keyexpr.match import intersects
from elea.provenance import SampleKind
from elea.query import ConsolidationMode, QueryTarget
from elea.sample import Reply, Sample
from elea.session.advanced_subscriber import source_of
from elea.session.handlers import Callback
from elea.session.session import Session
from elea.session.subscriber import Subscriber
from elea.store.recorder.book import Book
from elea.store.recorder.rows import Row, batch_of, sample_row
from elea.store.recorder.settings import Names, RecordingSettings
from elea.store.recorder.windows import Gap, WindowId

_LOG: Final = logging.getLogger("elea.store.recorder")
_GRACE_NS: Final = 500_000_000  # for samples that are on their way
_QUESTION_S: Final = 10.0
_FLUSH_S: Final = 10.0  # for what was received to be on disk
_SN_MASK: Final = 0xFFFF_FFFF
_BEAT_LEN: Final = 4
_QUESTIONS_COUNT: Final = 256  # for missing samples, at the same time


class Recording(Protocol):
    """What is asked of a recording."""

    names: Names

    def open_book(self, key: str) -> Book | None: ...
    def book_of(self, key: str) -> Book | None: ...
    def books(self) -> list[Book]: ...
    def call(self, act: Callable[[], None]) -> None: ...
    def settle(self) -> None: ...
    def now_us(self) -> int: ...


class Filler:
    """Fills one recording.

    Args:
        session: On which it asks.
        recording: What it fills.
        settings: Whom it asks.
        count_max: So many samples of one answer are taken; `cut_count` counts the others.
    """

    def __init__(
        self, session: Session, recording: Recording, settings: RecordingSettings, count_max: int
    ) -> None:
        self._session = session
        self._recording = recording
        self._settings = settings
        self._count_max = count_max
        self._lock = threading.Lock()
        self._questions: set[tuple[str, WindowId]] = set()
        self.cut_count = 0  # samples that were too many for one answer
        self.nameless_count = 0  # without number and timestamp: nobody knows whether they are new
        self._listening: list[Subscriber[None]] = []
        self._is_stopped = False

    def start(self) -> None:
        """Ask for what was before, and listen to publishers. The recording has subscribed."""
        for key_expr in self._recording.names.key_exprs:
            publishers = f"{key_expr}/@adv/pub/**"
            beats = Callback(self._heard, indirect=False)
            self._listening.append(self._session.declare_subscriber(publishers, beats))
            came = Callback(self._came, indirect=False)
            liveliness = self._session.liveliness()
            self._listening.append(liveliness.declare_subscriber(publishers, came, history=True))
            if self._settings.history:
                self._ask(f"{key_expr}/@adv/**?_anyke", self._landed)
            if self._settings.storages:
                self._ask(key_expr, self._landed)

    def stop(self) -> None:
        """Listen no more, and record no answers that come late."""
        self._is_stopped = True
        for one in self._listening:
            with suppress(ClosedError):
                one.undeclare()

    def tend(self) -> None:
        """By the desk: ask for what has been missing for a while."""
        for book in self._recording.books():
            by_window: dict[WindowId, list[Gap]] = {}
            for gap in book.gaps(_GRACE_NS):
                by_window.setdefault(gap.window, []).append(gap)
            for window, gaps in by_window.items():
                question = (book.name, window)
                if not self._settings.recovery:
                    book.settle(gaps)
                elif question not in self._questions and len(self._questions) < _QUESTIONS_COUNT:
                    self._questions.add(question)
                    self._recover(book, window, gaps)

    def _recover(self, book: Book, window: WindowId, gaps: list[Gap]) -> None:
        zid, eid, key = window
        first, last = gaps[0].start & _SN_MASK, (gaps[-1].end - 1) & _SN_MASK

        def answered(rows: list[Row]) -> None:
            self._landed(_of_key(rows, key))
            if any(row.identity is not None and row.identity.source == (zid, eid) for row in rows):
                book.announced(window)  # only its own cache answers
            if not self._is_stopped:
                book.settle(gaps)
                self._questions.discard((book.name, window))

        self._ask(f"{key}/@adv/*/{zid}/{eid}/**?_sn={first}..{last};_anyke", answered)

    def _ask(self, selector: str, then: Callable[[list[Row]], None]) -> None:
        """Ask everybody; the desk is given the answers when all are there."""
        rows: list[Row] = []

        def take(reply: Reply) -> None:
            sample = reply.ok
            if sample is None:
                return
            if len(rows) >= self._count_max:
                self.cut_count += 1
                return
            rows.append(sample_row(sample, self._recording.now_us()))

        end = partial(self._recording.call, partial(then, rows))
        try:
            self._session.get(
                selector,
                Callback(take, end, indirect=False),
                target=QueryTarget.ALL,
                consolidation=ConsolidationMode.NONE,
                timeout=_QUESTION_S,
            )
        except ClosedError:
            _LOG.debug("nobody is asked for %s: the session is closed", selector)

    # By the desk.

    def _landed(self, rows: list[Row]) -> None:
        """Record what caches and storages had, unless it is there."""
        if self._is_stopped:
            return
        by_book: dict[Book, list[Row]] = {}
        for row in rows:
            if self._recording.names.includes(row.key):
                book = self._recording.open_book(row.key)
                if book is not None:
                    by_book.setdefault(book, []).append(row)
        for book, some in by_book.items():
            fresh = [row for row in some if row.identity is not None]
            if len(fresh) < len(some):
                fresh += self._unseen(book, [row for row in some if row.identity is None])
            if fresh:
                book.land(batch_of(fresh), filled=True)

    def _unseen(self, book: Book, rows: list[Row]) -> list[Row]:
        """Those of the rows without numbers that are not in the log, by their timestamps."""
        self._recording.settle()
        book.flush(_FLUSH_S)
        stamped = [row for row in rows if row.timestamp is not None]
        self.nameless_count += len(rows) - len(stamped)
        return [row for row in stamped if not book.has_row(row)]

    # By whoever brings it.

    def _heard(self, sample: Sample) -> None:
        """A publisher says which number it gave last."""
        if len(sample.payload) == _BEAT_LEN:
            self._announced(sample, struct.unpack("<I", sample.payload.to_bytes())[0])

    def _announced(self, sample: Sample, last_sn: int | None = None) -> None:
        source, key = source_of(sample.key_text), sample.key_text.partition("/@adv/pub/")[0]
        if not isinstance(source, EntityGlobalId):
            return
        if "*" in key or not self._recording.names.includes(key):
            return
        book = self._recording.book_of(key)
        if book is not None:
            book.announced((str(source.zid), source.eid, key), last_sn)

    def _came(self, sample: Sample) -> None:
        """A publisher is there."""
        if sample.kind is not SampleKind.PUT:
            return
        self._announced(sample)
        if self._settings.history:
            key = sample.key_text.partition("/@adv/pub/")[0]
            self._ask(f"{sample.key_text}?_anyke", lambda rows: self._landed(_of_key(rows, key)))


def _of_key(rows: list[Row], key: str) -> list[Row]:
    """Those rows that the publisher of a key can have put; its cache may answer anything."""
    return [row for row in rows if intersects(key, row.key)]

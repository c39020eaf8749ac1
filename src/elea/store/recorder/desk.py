"""Desk: the thread of a recording that stores single samples and looks after logs.

What came for it while it waited for the disk is stored together: those who wait for an
acknowledgement share one synchronisation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from elea.store.recorder.book import Book
from elea.store.recorder.flight import Put

_LOG: Final = logging.getLogger("elea.store.recorder")
_TEND_S: Final = 0.25  # between two looks at the logs
_HURRY_S: Final = 0.02  # while somebody waits for a sample that has not come


class Desk:
    """A line of small things to do, and the thread that does them.

    It has no bound of its own: questions count until they are answered (`record_waiting_count`,
    `record_waiting_len`), and so do changes of liveliness (`record_tokens_count`).

    Args:
        name: Of the thread.
        settle: Called before samples are stored: others go first.
        tend: Looks after the logs; returns whether somebody waits.
    """

    def __init__(self, name: str, settle: Callable[[], None], tend: Callable[[], bool]) -> None:
        self._settle = settle
        self._tend = tend
        self._waiting = threading.Condition()
        self._calls: deque[Callable[[], object]] = deque()
        self._puts: deque[tuple[Book, Put]] = deque()
        self._tends_now = False
        self._is_hurried = False
        self._stopping = False
        self._worker = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def look(self) -> None:
        """Look after the logs soon. Any thread may call it."""
        with self._waiting:
            self._tends_now = True
            self._waiting.notify()

    def call(self, act: Callable[[], object]) -> None:
        """Do something that may wait."""
        with self._waiting:
            self._calls.append(act)
            self._waiting.notify()

    def put(self, book: Book, put: Put) -> None:
        """Store a sample, with those that wait."""
        with self._waiting:
            self._puts.append((book, put))
            self._waiting.notify()

    def hurry(self) -> None:
        """Somebody waits for a sample: look often whether it is time to say no."""
        if not self._is_hurried:
            with self._waiting:
                self._is_hurried = True
                self._waiting.notify()

    def stop(self) -> None:
        """Do what there is to do, and end."""
        with self._waiting:
            self._stopping = True
            self._waiting.notify()
        self._worker.join()

    def drain(self) -> None:
        """Do what there is, in this thread; for the end, when the worker is gone."""
        while self._calls:
            self._guarded(self._calls.popleft())

    def _run(self) -> None:
        looked_s = -_TEND_S
        while True:
            with self._waiting:
                if not self._has_work():
                    self._waiting.wait(max(self._next_s(looked_s) - time.monotonic(), 0.0))
                calls, self._calls = self._calls, deque()
                puts, self._puts = self._puts, deque()
                if not calls and not puts and self._stopping:
                    return
                is_due = self._tends_now or time.monotonic() >= self._next_s(looked_s)
                self._tends_now = False
            for act in calls:
                self._guarded(act)
            if puts:
                self._store(puts)
            if is_due:
                self._guarded(self._look_after)
                looked_s = time.monotonic()

    def _next_s(self, looked_s: float) -> float:
        """When it is time for the next look at the logs."""
        return looked_s + (_HURRY_S if self._is_hurried else _TEND_S)

    def _has_work(self) -> bool:
        return bool(self._calls or self._puts or self._tends_now or self._stopping)

    def _store(self, puts: deque[tuple[Book, Put]]) -> None:
        self._guarded(self._settle)
        by_book: dict[Book, list[Put]] = {}
        for book, put in puts:
            by_book.setdefault(book, []).append(put)
        for book, some in by_book.items():
            self._guarded(partial(book.store, some))

    def _look_after(self) -> None:
        self._is_hurried = False  # first: who comes meanwhile hurries it again
        if self._tend():
            self._is_hurried = True

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception:  # one that fails leaves the others alone
            _LOG.exception("a recorder could not do what it should")

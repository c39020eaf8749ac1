"""Line: queries that wait for one of a few threads, shared fairly between askers.

A queryable's callback only gets a query in line: whoever brought it goes on. One that finds the
line full is told so at once, as it would wait for longer than it has patience.

One asker may use every place that nobody else wants. When all places are taken, an asker that holds
fewer of them displaces the newest pending query of the asker that holds most. Askers are served in
turn, and with several threads one of them is never occupied by an asker that occupies the others.
With more than two, one is kept for askers that used little time lately: a newcomer does not wait
for the long answers of many others.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from elea.encoding import Encoding
from elea.errors import ClosedError
from elea.json5 import Json
from elea.session.query import Query

_LITTLE_S: Final = 1.0  # of a thread's time, used lately
_HALF_S: Final = 10.0  # after which time that was used counts half
_ASKERS_MAX: Final = 1_024  # whose time is remembered
_STOP_S: Final = 30.0  # how long an end waits for answers that are under way

_Pending = tuple[Query, int]


class Line:
    """Queries, and the threads that answer them.

    Args:
        name: Of the threads.
        workers_count: How many are answered at once.
        queries_count: How many may wait or be answered.
        answer: Called by a thread with a query and what `take` was given; the query is ended then.
        failed: Called with a query and whatever else `answer` raised than that a session is closed.
        full: Called for each query that is refused because there are too many.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        name: str,
        workers_count: int,
        queries_count: int,
        answer: Callable[[Query, int], None],
        failed: Callable[[Query, Exception], None],
        full: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stopping = False
        self._bound = queries_count
        self._share = max(1, workers_count - 1)  # threads that one asker may occupy
        self._answer = answer
        self._failed = failed
        self._full = full
        self._pending: dict[str, deque[_Pending]] = {}  # by asker; who is next in turn first
        self._answered: Counter[str] = Counter()  # queries that are being answered, by asker
        self._clock = clock
        self._used: dict[str, tuple[float, float]] = {}  # by asker: seconds, and when that was
        self._waiting = threading.Condition()
        kept = 0 if workers_count > 2 else None
        self._workers = [
            threading.Thread(
                target=self._run, args=(number == kept,), name=f"{name}-{number}", daemon=True
            )
            for number in range(workers_count)
        ]
        for worker in self._workers:
            worker.start()

    def take(self, number: int, query: Query) -> None:
        """Get a query in line; if that is full, it or one of an asker with more is refused."""
        asker = query.asker
        refused: Query | None = query
        with self._waiting:
            if not self.stopping:
                is_full = self._held_count() >= self._bound
                refused = self._displaced(asker, query) if is_full else None
                if refused is not query:
                    self._pending.setdefault(asker, deque()).append((query, number))
                    self._waiting.notify_all()  # not each thread answers everybody
        if refused is not None:
            self._full()
            with suppress(ClosedError), refused:
                refuse(refused, "busy", f"{self._bound} queries are pending; ask again later")

    def stop(self) -> None:
        """Drop those that wait, and wait for those that are answered."""
        with self._waiting:
            self.stopping = True
            waiting = [one for some in self._pending.values() for one in some]
            self._pending.clear()
            self._waiting.notify_all()
        for query, _ in waiting:
            with suppress(ClosedError):
                query.drop()
        for worker in self._workers:
            worker.join(_STOP_S)

    def _held_count(self) -> int:
        return sum(map(len, self._pending.values())) + self._answered.total()

    def _displaced(self, asker: str, query: Query) -> Query:
        """The query that has to go for a new one of an asker: the new one, or that of another."""

        def held_count(one: str) -> int:
            return len(self._pending.get(one, ())) + self._answered[one]

        most = max(self._pending, key=held_count, default=asker)
        if held_count(most) < held_count(asker) + 2:  # it would then hold fewer than this one
            return query
        displaced, _ = self._pending[most].pop()
        if not self._pending[most]:
            del self._pending[most]
        return displaced

    def _next(self, *, is_kept: bool) -> str | None:
        """The asker whose turn it is.

        Args:
            is_kept: For the thread that is kept for those who used little time.
        """
        for asker in self._pending:
            share = 1 if is_kept else self._share
            if self._answered[asker] < share and not (is_kept and self._used_s(asker) > _LITTLE_S):
                return asker
        return None

    def _used_s(self, asker: str) -> float:
        used_s, at_s = self._used.get(asker, (0.0, 0.0))
        return float(used_s * 0.5 ** ((self._clock() - at_s) / _HALF_S))

    def _note_used(self, asker: str, took_s: float) -> None:
        used_s = self._used_s(asker) + took_s
        self._used.pop(asker, None)
        self._used[asker] = (used_s, self._clock())
        if len(self._used) > _ASKERS_MAX:
            del self._used[next(iter(self._used))]

    def _run(self, is_kept: bool) -> None:
        while True:
            with self._waiting:
                # The kept one looks again: time that was used counts less and less.
                timeout_s = _HALF_S if is_kept else None
                while not self.stopping and self._next(is_kept=is_kept) is None:
                    self._waiting.wait(timeout_s if self._pending else None)
                asker = self._next(is_kept=is_kept)
                if self.stopping or asker is None:
                    return
                pending = self._pending.pop(asker)
                query, number = pending.popleft()
                if pending:
                    self._pending[asker] = pending  # behind the others
                self._answered[asker] += 1
            began_s = self._clock()
            try:
                self._answer(query, number)
            except ClosedError:  # the session, or what is read
                pass
            except Exception as error:  # what is read may be somebody else's: it may raise anything
                self._failed(query, error)
            finally:
                with self._waiting:
                    self._note_used(asker, self._clock() - began_s)
                    self._answered[asker] -= 1
                    if not self._answered[asker]:
                        del self._answered[asker]
                    self._waiting.notify_all()  # of this asker, one that was not its turn
                with suppress(ClosedError):
                    query.drop()
                del query


def refuse(query: Query, error: str, detail: str, *following: str) -> None:
    """Tell the one who asked that there is no answer, or no more of it, and why."""
    told: dict[str, Json] = {"error": error, "detail": detail}
    if following:
        told["next"] = list(following)
    query.reply_err(json.dumps(told, ensure_ascii=False), encoding=Encoding.APPLICATION_JSON)

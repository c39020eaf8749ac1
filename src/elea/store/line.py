"""Line: queries that wait for one of a few threads.

A queryable's callback only gets a query in line: whoever brought it goes on. One that finds the
line full is told so at once, as it would wait for longer than it has patience.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from elea.encoding import Encoding
from elea.errors import ClosedError
from elea.json5 import Json
from elea.session.query import Query

_STOP_S: Final = 30.0  # how long an end waits for answers that are under way


class Line:
    """Queries, and the threads that answer them.

    Args:
        name: Of the threads.
        workers_count: How many are answered at once.
        queries_count: How many may wait or be answered.
        answer: Called by a thread with a query and what `take` was given; the query is ended then.
        failed: Called with a query and whatever else `answer` raised than that a session is closed.
        full: Called for each query that is refused because there are too many.
    """

    def __init__(
        self,
        name: str,
        workers_count: int,
        queries_count: int,
        answer: Callable[[Query, int], None],
        failed: Callable[[Query, Exception], None],
        full: Callable[[], None],
    ) -> None:
        self.stopping = False
        self._bound = queries_count
        self._answer = answer
        self._failed = failed
        self._full = full
        self._line: deque[tuple[Query, int]] = deque()
        self._busy_count = 0
        self._waiting = threading.Condition()
        self._workers = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(workers_count)
        ]
        for worker in self._workers:
            worker.start()

    def take(self, number: int, query: Query) -> None:
        """Get a query in line; it is refused if there are too many."""
        with self._waiting:
            if not self.stopping and self._busy_count < self._bound:
                self._busy_count += 1
                self._line.append((query, number))
                self._waiting.notify()
                return
        self._full()
        with suppress(ClosedError), query:
            refuse(query, "busy", f"{self._bound} queries are being answered; ask again later")

    def stop(self) -> None:
        """Drop those that wait, and wait for those that are answered."""
        with self._waiting:
            self.stopping = True
            waiting, self._line = list(self._line), deque()
            self._waiting.notify_all()
        for query, _ in waiting:
            with suppress(ClosedError):
                query.drop()
        for worker in self._workers:
            worker.join(_STOP_S)

    def _run(self) -> None:
        while True:
            with self._waiting:
                self._waiting.wait_for(lambda: self._line or self.stopping)
                if self.stopping:
                    return
                query, number = self._line.popleft()
            try:
                self._answer(query, number)
            except ClosedError:  # the session, or what is read
                pass
            except Exception as error:  # what is read may be somebody else's: it may raise anything
                self._failed(query, error)
            finally:
                with self._waiting:
                    self._busy_count -= 1
                with suppress(ClosedError):
                    query.drop()
                del query


def refuse(query: Query, error: str, detail: str, *following: str) -> None:
    """Tell the one who asked that there is no answer, or no more of it, and why."""
    told: dict[str, Json] = {"error": error, "detail": detail}
    if following:
        told["next"] = list(following)
    query.reply_err(json.dumps(told, ensure_ascii=False), encoding=Encoding.APPLICATION_JSON)

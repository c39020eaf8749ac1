"""SqlDoor: questions in SQL come as queries, rows go as replies.

To `@sql/NAME` there is one reply with all rows, as JSON or as a stream of Arrow. To `@sql/NAME/**`
there is one for each row, or for each batch of Arrow, with its number as the last chunk of the key:
otherwise whoever consolidates replies would keep one of them. Processes of their own find answers,
and are killed when they exceed a bound.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError, InvalidValueError, LimitError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.session.handlers import Callback
from elea.session.query import Query
from elea.session.session import Session
from elea.store.line import Line, refuse
from elea.store.sql.settings import SqlSettings
from elea.store.sql.worker_pool import (
    AbandonedError,
    PendingAnswer,
    Question,
    RefusedError,
    WorkerPool,
)
from elea.store.tables.table import format_of

_LOG: Final = logging.getLogger("elea.store")
_JSON: Final = Encoding.APPLICATION_JSON
_ARROW: Final = Encoding("application/vnd.apache.arrow.stream")
_FORMATS: Final = ("json", "arrow")
_PARAMETERS: Final = ("q", "format", "rows")
_STALL_S: Final = 10.0  # an asker that takes nothing so long is let go
_LOOK_COUNT: Final = 64  # replies between two looks at the one who asked


@dataclass(slots=True)
class Counts:
    """What a door did since it was opened."""

    queries: int = 0
    rows: int = 0
    busy: int = 0  # too many questions at once
    invalid: int = 0  # not SQL, or not legal here, or it needs too much
    cut: int = 0  # an answer was longer than may be
    abandoned: int = 0  # the one who asked was gone, or took nothing
    killed: int = 0  # processes: of questions past their bounds, or that nobody waited for
    errors: int = 0  # a table could not be read; `last_error` tells


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    format: str
    rows_count: int
    is_single: bool  # one reply with all rows


class SqlDoor:
    """Answers questions in SQL, until `stop`.

    Args:
        session: Whose queries it gets.
        settings: Which tables, and how much one question may use.
    """

    def __init__(
        self, session: Session, settings: SqlSettings, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.key = f"@sql/{settings.name}"
        self.counts = Counts()
        self._settings = settings
        self._limits = limits
        self._last_error: dict[str, Json] | None = None
        self._line = Line(
            "sql",
            limits.sql_workers_count,
            limits.sql_queries_count,
            self._answer,
            self._failed,
            self._full,
        )
        self._workers = WorkerPool(lambda: self._line.stopping)
        self._queryable = session.declare_queryable(
            f"{self.key}/**", Callback(partial(self._line.take, 0), indirect=False), complete=True
        )

    def tables(self) -> dict[str, Path]:
        """What may be asked about."""
        given = self._settings.tables
        if not isinstance(given, Path):
            return dict(given)
        with suppress(FileNotFoundError):
            below = sorted(one for one in given.iterdir() if one.name.isidentifier())
            return {one.name: one for one in below if format_of(one) is not None}
        return {}

    def status(self) -> dict[str, Json]:
        """What it answers about, what it did, and what is wrong."""
        tables: dict[str, Json] = {name: str(path) for name, path in self.tables().items()}
        return {
            "key": self.key,
            "tables": tables,
            "counts": asdict(self.counts),
            "last_error": self._last_error,
        }

    def stop(self) -> None:
        """Take no more questions, and end the answers that are under way."""
        with suppress(ClosedError):  # the session went first
            self._queryable.undeclare()
        self._line.stop()
        self._workers.stop()

    # By the threads.

    def _answer(self, query: Query, _: int) -> None:
        self.counts.queries += 1
        try:
            question = self._question(query)
            asked = Question(
                question.text,
                question.format,
                self.tables(),
                question.rows_count,
                self._limits.sql_rows_len,
                self._settings.time_s,
                self._settings.memory_len,
            )
            try:
                self._send(query, question, self._workers.ask(asked, query.is_wanted))
            finally:
                self.counts.killed = self._workers.killed_count
        except AbandonedError:
            self.counts.abandoned += 1
        except (InvalidValueError, LimitError, RefusedError) as error:
            self.counts.invalid += 1
            refuse(query, "invalid", str(error))

    def _question(self, query: Query) -> _Question:
        parameters = query.parameters
        for name, _ in parameters:
            if name not in _PARAMETERS and not name.startswith("_"):
                legal = ", ".join(_PARAMETERS)
                raise InvalidValueError("parameter", f"saw {name!a}; legal are {legal}")
        body = query.payload
        try:
            text = parameters.get("q") or ("" if body is None else body.to_string())
        except UnicodeDecodeError as error:
            raise InvalidValueError("SQL", f"the payload is no text: {error}") from None
        if not text.strip():
            legal = "the parameter q or a payload has it"
            raise InvalidValueError("SQL", f"saw none; {legal}, such as ?q=select 1")
        size = len(text.encode())
        if size > self._limits.sql_text_len:
            raise LimitError("sql_text_len", size, self._limits.sql_text_len)
        format = parameters.get("format") or "json"
        if format not in _FORMATS:
            raise InvalidValueError("format", f"saw {format!a}; legal are {', '.join(_FORMATS)}")
        most = self._settings.rows_count
        rows = parameters.get("rows") or str(most)
        if not rows.isdecimal() or not 1 <= int(rows) <= most:
            raise InvalidValueError("number of rows", f"saw {rows!a}; legal are 1 to {most}")
        return _Question(text, format, int(rows), str(query.key_expr) == self.key)

    def _send(self, query: Query, question: _Question, answer: PendingAnswer) -> None:
        encoding = _ARROW if question.format == "arrow" else _JSON
        sent: list[bytes] = []
        schema = b""
        number = 0
        with closing(iter(answer)) as pieces:
            for octets, rows_count in pieces:
                if rows_count is None:
                    schema = octets
                    continue
                self.counts.rows += rows_count
                if question.is_single:
                    sent.append(octets)
                    continue
                query.reply(f"{self.key}/{number}", octets, encoding=encoding)
                number += 1
                if number % _LOOK_COUNT == 0 and not self._goes_on(query):
                    raise AbandonedError
        if question.is_single:
            is_arrow = question.format == "arrow"
            whole = _stream(schema, sent) if is_arrow else b"[" + b",\n".join(sent) + b"]"
            query.reply(self.key, whole, encoding=encoding)
        if answer.is_cut:
            self.counts.cut += 1
            most = f"{question.rows_count} rows or {self._limits.sql_rows_len} octets"
            refuse(query, "cut", f"the answer has more than {most}; ask for less, or for LIMIT")

    def _goes_on(self, query: Query) -> bool:
        return not self._line.stopping and query.is_wanted() and query.wait_room(_STALL_S)

    def _full(self) -> None:
        self.counts.busy += 1

    def _failed(self, query: Query, error: Exception) -> None:
        self.counts.errors += 1
        self._last_error = {"text": str(error), "time_ns": time.time_ns()}
        known = isinstance(error, EleaError | OSError)
        _LOG.error("sql: %s", error, exc_info=not known)
        with suppress(ClosedError):
            refuse(query, "failed", str(error) or type(error).__name__)


def _stream(schema: bytes, streams: list[bytes]) -> bytes:
    """One stream of all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.ipc.open_stream(schema).schema) as writer:
        for one in streams:
            for batch in pa.ipc.open_stream(one):
                writer.write_batch(batch)
    return bytes(sink.getvalue())

"""Historian: answers queries from sources of rows, on a session.

A query waits in one line for one of a few threads. What its sources were given before it came is in
its answer. An answer is bounded, leaves as fast as the one who asked takes it, and ends early if
nobody waits for it any more; whatever is left out is told by an error that ends the answer.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from elea.decode.layout import Layout
from elea.decode.plain import plain
from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes
from elea.limits import DEFAULT_LIMITS, Limits
from elea.predicate.projection import Projection
from elea.session.handlers import Callback
from elea.session.query import Query
from elea.session.session import Session
from elea.store.historian import series
from elea.store.historian.gather import Gathered, fields_of, gather
from elea.store.historian.schemas import RecordedSchemas
from elea.store.historian.selection import Selection
from elea.store.historian.series import SeriesRequest
from elea.store.historian.source import Source
from elea.store.line import Line, refuse
from elea.store.log.schema import RowKind
from elea.store.rows import Row

_LOG: Final = logging.getLogger("elea.store")
_JSON: Final = Encoding.APPLICATION_JSON
_LOOK_COUNT: Final = 64  # replies between two looks at the one who asked
_LARGE_LEN: Final = 4 * 2**20  # of an answer after which memory is given back


@dataclass(slots=True)
class Counts:
    """What a historian did since it was started."""

    queries: int = 0
    replies: int = 0
    busy: int = 0  # too many queries at once
    invalid: int = 0  # a parameter was not legal
    cut: int = 0  # an answer was longer than may be
    abandoned: int = 0  # the one who asked was gone, or took nothing
    errors: int = 0  # a source failed; `last_error` tells


class Historian:
    """Answers queries from logs, until `stop`.

    Args:
        session: Whose queries it gets.
        key_exprs: The keys it answers for, one expression or several; rows of others stay unseen.
        sources: Where the rows are.
        complete: Whether it knows all there is to know of them.
        layouts: The types of payloads that do not say what they hold, by key expression.
        limits: How many queries at once, and how long an answer may be.
        wall_ns: The time of day.
    """

    def __init__(
        self,
        session: Session,
        key_exprs: str | Sequence[str],
        sources: Sequence[Source],
        *,
        complete: bool = False,
        layouts: Mapping[str, Layout] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        named = [key_exprs] if isinstance(key_exprs, str) else key_exprs
        self.key_exprs = [str(KeyExpr.autocanonize(one)) for one in named]
        self.counts = Counts()
        self._sources = list(sources)
        self._complete = complete
        self._layouts = dict(layouts or {})
        self._schemas = RecordedSchemas(sources)
        self._limits = limits
        self._wall_ns = wall_ns
        self._last_error: dict[str, Json] | None = None
        self._line = Line(
            "historian",
            limits.historian_workers_count,
            limits.historian_queries_count,
            self.answer,
            self._failed,
            self._full,
        )
        self._queryables = [
            # Called by whoever brings a query: it only gets in line.
            session.declare_queryable(
                key, Callback(partial(self._line.take, number), indirect=False), complete=complete
            )
            for number, key in enumerate(self.key_exprs)
        ]

    def status(self) -> dict[str, Json]:
        """What it answers for, what it did, and what is wrong."""
        problems: list[Json] = list(self.problems())
        keys: list[Json] = list(self.key_exprs)
        return {
            "key_exprs": keys,
            "complete": self._complete,
            "counts": asdict(self.counts),
            "last_error": self._last_error,
            "problems": problems,
        }

    def problems(self) -> list[str]:
        """What is wrong with its sources."""
        return [text for source in self._sources for text in source.problems()]

    def stop(self) -> None:
        """Take no more queries, and end the answers that are under way."""
        for queryable in self._queryables:
            with suppress(ClosedError):  # the session went first
                queryable.undeclare()
        self._line.stop()

    def answer(self, query: Query, number: int = 0) -> None:
        """Answer one query, as asked on one of the key expressions."""
        self.counts.queries += 1
        try:
            selection = Selection.of(
                query.key_expr, query.parameters, self._wall_ns(), self._limits
            )
            asked = SeriesRequest.of(selection, query.parameters, self._limits)
        except EleaError as error:
            self.counts.invalid += 1
            refuse(query, "invalid", str(error))
            return
        for source in self._sources:
            source.settle()
        if asked is not None:
            self._reply_series(query, asked, number)
            return
        found = gather(
            self._sources,
            selection,
            owns=self._owner(number),
            layout_of=self._layout_of,
            is_wanted=lambda: not self._line.stopping and query.is_wanted(),
            limits=self._limits,
        )
        try:
            self._reply_all(query, found, selection.projection)
        finally:
            if found.length > _LARGE_LEN:  # Arrow would keep it for the next answer
                del found
                pa.default_memory_pool().release_unused()

    def _reply_series(self, query: Query, asked: SeriesRequest, number: int) -> None:
        owns = self._owner(number)
        if owns is not None and not owns(asked.key):
            return
        told = series.answer(
            self._sources,
            asked,
            self._wall_ns() / 1e9,
            is_wanted=lambda: not self._line.stopping and query.is_wanted(),
            limits=self._limits,
        )
        if told is not None and self._goes_on(query):
            self.counts.replies += 1
            octets = json.dumps(told, separators=(",", ":")).encode()
            query.reply(asked.key, octets, encoding=series.ENCODING)

    def _reply_all(self, query: Query, found: Gathered, projection: Projection | None) -> None:
        rows = iter(found)
        while self._goes_on(query):
            few = list(itertools.islice(rows, _LOOK_COUNT))
            for row in few:
                self._reply(query, row, projection)
            self.counts.replies += len(few)
            if len(few) < _LOOK_COUNT:
                break
        else:
            self.counts.abandoned += 1
            return
        if found.cut is not None:
            self.counts.cut += 1
            refuse(query, "cut", found.cut.detail, *found.cut.following)

    def _owner(self, number: int) -> Callable[[str], bool] | None:
        """Of a key, whether this expression answers for it: the first one that includes it does."""
        own, before = self.key_exprs[number], self.key_exprs[:number]
        if own == "**" and not before:
            return None
        return lambda key: includes(own, key) and not any(includes(one, key) for one in before)

    def _layout_of(self, key: str, encoding: Encoding) -> Layout | None:
        """The type of a payload: as it was declared, else by a schema that the sources have."""
        declared = next((one for expr, one in self._layouts.items() if includes(expr, key)), None)
        return self._schemas.layout_of(encoding) if declared is None else declared

    def _reply(self, query: Query, row: Row, projection: Projection | None) -> None:
        if projection is not None and row.kind is not RowKind.DELETE:
            fields = fields_of(row.key, row.payload, row.encoding, self._layout_of)
            values = {name: plain(value) for name, value in projection.apply(fields).items()}
            octets = json.dumps(values, ensure_ascii=False).encode()
            row = row._replace(payload=octets, encoding=_JSON)
        _send(query, row)

    def _goes_on(self, query: Query) -> bool:
        patience_s = self._limits.historian_stall_ns / 1e9
        return not self._line.stopping and query.is_wanted() and query.wait_room(patience_s)

    def _full(self) -> None:
        self.counts.busy += 1

    def _failed(self, query: Query, error: Exception) -> None:
        self.counts.errors += 1
        self._last_error = {"text": str(error), "time_ns": self._wall_ns()}
        known = isinstance(error, EleaError | OSError)
        _LOG.error("historian: %s", error, exc_info=not known)
        with suppress(ClosedError):
            refuse(query, "failed", str(error) or type(error).__name__)


def _send(query: Query, row: Row) -> None:
    if row.kind is RowKind.DELETE:
        query.reply_del(
            row.key,
            timestamp=row.timestamp,
            attachment=row.attachment,
            source_info=row.source_info,
        )
        return
    query.reply(
        row.key,
        row.payload,
        encoding=row.encoding,
        timestamp=row.timestamp,
        attachment=row.attachment,
        source_info=row.source_info,
    )

"""Standing queries: the rows of a gold table, or of a view, as ordinary keys that answer `get`.

A pipeline publishes new rows of a table; who subscribes has them. This is for who comes later: a
queryable that answers with the last row of each key. It reads the table's files, without Spark, and
keeps what it read until the table changes.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from elea.decode.plain import plain
from elea.errors import ConfigError, EleaError, StoreError
from elea.keyexpr.template import KeyFormat
from elea.predicate import MappingFields, compile_predicate, filter_of
from elea.store.tables.results import is_results, open_results

if TYPE_CHECKING:
    from elea.session.query import Query
    from elea.session.queryable import Queryable
    from elea.session.session import Session

_LOG: Final = logging.getLogger("elea.spark")
_JSON: Final = "application/json"
_KEYS_MAX: Final = 100_000  # that are kept in memory, some hundred octets each


def row_as_json(row: Mapping[str, object]) -> bytes:
    """A row as the payload of a sample; times as RFC 3339, octets as base64.

    Example:
        >>> row_as_json({"robot": "r1", "ax": 1.5})
        b'{"robot":"r1","ax":1.5}'
    """
    shown = plain(dict(row), zone=UTC)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()


class Standing:
    """The last row of each key of a table.

    Args:
        path: The directory of the table, which need not be there yet.
        key: How the key of a row is made of its columns: `gold/{robot}/imu_1s`.
        time: The column by which the last row is found; else the one that was added last.
        payload: From a row to octets.
        encoding: Of those.

    Raises:
        KeyExprError: the key is not of such a form.
    """

    def __init__(
        self,
        path: str | Path,
        key: str,
        *,
        time: str | None = None,
        payload: Callable[[Mapping[str, object]], bytes] = row_as_json,
        encoding: str = _JSON,
    ) -> None:
        self.path = Path(path)
        self.form = KeyFormat(key)
        self.keyless_count = 0  # rows of the table of which no key can be made
        self._time = time
        self._payload = payload
        self._encoding = encoding
        self._lock = threading.Lock()
        self._number = -1
        self._rows: dict[str, Mapping[str, object]] = {}

    def declare(self, session: Session) -> Queryable[None]:
        """Answer queries on a session; `_filter` chooses by what is in the rows."""
        return session.declare_queryable(str(self.form.key_expr), self.answer)

    def rows(self) -> Mapping[str, Mapping[str, object]]:
        """By key, the last row.

        Raises:
            ConfigError: the table has no such column.
            StoreError: the table cannot be read, or has too many keys.
        """
        with self._lock:
            if not is_results(self.path):
                return {}
            results = open_results(self.path)
            number = results.number()
            if number != self._number:
                found = results.rows()
                self._rows = {} if found is None else self._read(found)
                self._number = number
            return self._rows

    def answer(self, query: Query) -> None:
        """Answer one query; what goes wrong is an error reply."""
        with query:
            try:
                predicate = filter_of(query.parameters)
                test = None if predicate is None else compile_predicate(predicate)
                for key, row in self.rows().items():
                    if not query.key_expr.intersects(key):
                        continue
                    if test is None or test(MappingFields(row)):
                        query.reply(key, self._payload(row), encoding=self._encoding)
            except (EleaError, OSError) as error:
                _LOG.error("standing query %s: %s", self.form, error)
                query.reply_err(str(error), encoding="text/plain")

    def _read(self, table: pa.Table) -> dict[str, Mapping[str, object]]:
        missing = [
            name
            for name in (*self.form.fields, *([self._time] if self._time else []))
            if name not in table.column_names
        ]
        if missing:
            legal = ", ".join(table.column_names)
            reason = f"there is no column {', '.join(missing)}; legal are {legal}"
            raise ConfigError(str(self.path), reason)
        if self._time is not None:
            table = table.sort_by(self._time)
        self.keyless_count = 0
        found: dict[str, Mapping[str, object]] = {}
        for row in table.to_pylist():
            try:
                fields = {name: str(row[name]) for name in self.form.fields}
                found[str(self.form.build(**fields))] = row
            except EleaError:
                self.keyless_count += 1
        if len(found) > _KEYS_MAX:
            raise StoreError(f"{self.path}: saw {len(found)} keys; {_KEYS_MAX} are legal")
        return {key: row for key, row in found.items() if not row.get("deleted")}

"""Where a historian has its rows from: logs, and whatever else keeps rows of their schema."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from elea.errors import StoreError
from elea.store.log.log import Log, opened
from elea.store.log.reader import LogReader
from elea.store.log.schema import POSITION, SCHEMA
from elea.store.log.segment import Damage

_LOG: Final = logging.getLogger("elea.store")

# Rows as a source gives them. `log`, `shard` and `seq` say which row it is: a row that two sources
# have, as a table and the end of the log it was made of, is replied once.
ROWS: Final = pa.schema([*SCHEMA, *POSITION, pa.field("log", pa.string(), nullable=False)])


class Source(Protocol):
    """Rows of `ROWS`. Any thread calls it.

    Who searches for long gives batches without rows meanwhile: whoever asked may have left.
    """

    def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
        """All rows of keys that match, from one time to before another; in any order."""

    def latest(self, key_expr: str, until: int) -> Iterator[pa.RecordBatch]:
        """The last put or deletion of each key that matches, before a time; in any order."""

    def settle(self) -> None:
        """Return when all that this process was given before is in what is read."""

    def problems(self) -> list[str]:
        """What is wrong with it, for operators."""


@runtime_checkable
class LargeSource(Source, Protocol):
    """A source that may have more keys than it can remember while it looks for their last rows."""

    def latest_after(
        self, key_expr: str, until: int, after: str | None
    ) -> Iterator[pa.RecordBatch]:
        """As `latest`, of keys behind one.

        Of more than it can remember it tells of the first ones, and says so (`left_out_of`).
        """


class LogSource:
    """A log as a source. One that does not exist yet is empty until it does.

    Args:
        directory: The log's.
        log: The writer, if this process has it and it is not found by the directory.

    Rows that are damaged are passed, counted, and logged once.
    """

    def __init__(self, directory: Path | str, log: Log | None = None) -> None:
        self.directory = Path(directory)
        self._lost: dict[tuple[str, int], int] = {}  # rows, by where they were
        self._given = log
        self._lock = threading.Lock()  # a reader is for one thread at a time
        self._reader: LogReader | None = None
        self._missing: str | None = None
        with self._lock:
            self._open()

    def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
        """As `Source`."""
        return self._steps(
            lambda reader: reader.select(
                key_expr, since=since, until=until, position=True, pauses=True, in_runs=True
            )
        )

    def latest(self, key_expr: str, until: int) -> Iterator[pa.RecordBatch]:
        """As `Source`."""
        return self._steps(lambda reader: reader.latest_of(key_expr, until=until, pauses=True))

    def settle(self) -> None:
        """As `Source`; for a log of another process there is nothing to wait for."""
        log = self._given or opened(self.directory)
        if log is not None:
            log.flush()

    def problems(self) -> list[str]:
        """As `Source`."""
        found = [] if self._missing is None else [self._missing]
        if self._lost:
            lost_count = sum(self._lost.values())
            found.append(f"{self.directory}: {lost_count} rows are lost; see `elea log verify`")
        return found

    def _steps(
        self, begin: Callable[[LogReader], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """What a reader gives, batch by batch: others have their turn in between."""
        with self._lock:
            reader = self._open()
            if reader is None:
                return
            batches = begin(reader)
            log = pa.scalar(str(reader.log_id))
        while True:
            with self._lock:
                batch = next(batches, None)
            if batch is None:
                return
            columns = [*batch.columns, pa.repeat(log, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, schema=ROWS)

    def _open(self) -> LogReader | None:
        if self._reader is None:
            try:
                self._reader = LogReader(self.directory, self._damaged)
                self._missing = None
            except (StoreError, OSError) as error:
                self._missing = f"{self.directory}: {error}"
        return self._reader

    def _damaged(self, damage: Damage) -> None:
        place = (damage.segment, damage.first_seq)
        if place not in self._lost:
            self._lost[place] = damage.lost_count
            _LOG.error("historian: %s: %s", self.directory, damage)

"""Engine: one SELECT over tables, by DuckDB in this process.

A question gets a database of its own, in memory, which knows the tables that it names and nothing
else: no file, no network, no variable of this process, no other setting. Nothing is written to a
disk. DuckDB keeps its own bounds of time and memory where it looks at them; those that hold are of
the process it runs in (`elea.store.sql.worker`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from elea.errors import EleaError, InvalidValueError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.sql import frames
from elea.store.tables.dataset import dataset

_BATCH_ROWS: Final = 4_096
_SCANNED_ROWS: Final = 8_192  # of a table, at once
_OUT_OF_MEMORY: Final = re.compile(r"out of memory|bad.?alloc|malloc of size", re.IGNORECASE)
_NO_TABLE: Final = re.compile(r"^Catalog Error: Table with name (.+?) does not exist!")
_CONFIG: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "python_enable_replacements": "false",  # the variables of our own functions are no tables
    "temp_directory": "",  # what does not fit is not written to a disk
    "threads": "1",  # as many questions as there are threads to answer them
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one question may use."""

    rows_count: int
    time_s: float
    memory_len: int

    @classmethod
    def of(cls, limits: Limits = DEFAULT_LIMITS) -> Bounds:
        """The ones that limits name."""
        return cls(limits.sql_rows_count, limits.sql_time_ns / 1e9, limits.sql_memory_len)


class Engine:
    """Answers questions about tables.

    Args:
        tables: Their directories by the names that questions use.
        limits: How long a question may be.
    """

    def __init__(self, tables: Mapping[str, Path], limits: Limits = DEFAULT_LIMITS) -> None:
        self.tables = dict(tables)
        self._limits = limits

    def ask(self, text: str, bounds: Bounds) -> Answer:
        """Begin to answer; the rows come as the answer is iterated. Close it when done.

        Raises:
            InvalidValueError: not one SELECT over these tables.
            LimitError: the question is too long, or needs more time or memory than it may.
            StoreError: a table cannot be read.
        """
        size = len(text.encode())
        if size > self._limits.sql_text_len:
            raise LimitError("sql_text_len", size, self._limits.sql_text_len)
        own = duckdb.connect(
            ":memory:", config={**_CONFIG, "memory_limit": f"{bounds.memory_len}B"}
        )
        try:
            for name in self._named(own, text):
                own.register(name, _frugal(dataset(self.tables[name])))
            own.execute("SET lock_configuration = true")
            return Answer(own, text, bounds, self.tables)
        except BaseException:
            own.close()
            raise

    def _named(self, own: Any, text: str) -> list[str]:
        """The tables that a question is about."""
        try:
            statements = own.extract_statements(text)
            kinds = [str(one.type).rpartition(".")[2] for one in statements]
            if kinds != ["SELECT"]:
                seen = ", ".join(kinds) or "nothing"
                raise InvalidValueError("SQL", f"saw {seen}; legal is one SELECT")
            named = {name.lower() for name in own.get_table_names(text)}
        except duckdb.Error as error:
            raise InvalidValueError("SQL", str(error)) from None
        # Of no table may also be a function or what a WITH names: the database tells.
        return [name for name in self.tables if name.lower() in named]


class _Frugal(ds.FileSystemDataset):  # type: ignore[misc]  # Arrow has no types
    """A dataset that is read as far as it is needed. Arrow would read gigabytes ahead."""

    def scanner(self, **more: Any) -> ds.Scanner:
        """Made by DuckDB, with columns and a filter."""
        frugal: dict[str, Any] = {
            "batch_size": _SCANNED_ROWS,
            "batch_readahead": 1,
            "fragment_readahead": 1,
            "use_threads": False,
            "fragment_scan_options": ds.ParquetFragmentScanOptions(
                use_buffered_stream=True, pre_buffer=False
            ),
        }
        return super().scanner(**{**frugal, **more})


def _frugal(found: ds.Dataset) -> ds.Dataset:
    if not isinstance(found, ds.FileSystemDataset):
        return found
    fragments = list(found.get_fragments())
    if not fragments:
        return found
    return _Frugal(fragments, found.schema, found.format, found.filesystem)


class Answer:
    """Rows, as they are found.

    Args:
        own: The database, which is closed with it.
        text: The question.
        bounds: What it may use.
        tables: The names that a question may use.
    """

    def __init__(self, own: Any, text: str, bounds: Bounds, tables: Iterable[str]) -> None:
        self.is_cut = False  # it has more rows than may be given
        self._own = own
        self._bounds = bounds
        self._tables = tables
        self._is_late = False
        self._clock = threading.Timer(bounds.time_s, self._late)
        self._clock.daemon = True
        self._clock.start()
        try:
            self._rows = own.sql(text).to_arrow_reader(_BATCH_ROWS)
        except BaseException as error:
            self._clock.cancel()
            raise self._told(error) from None
        self.schema: pa.Schema = self._rows.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left = self._bounds.rows_count
        while True:
            try:
                batch = self._rows.read_next_batch()
            except StopIteration:
                return
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise self._told(error) from None
            if batch.num_rows > left:
                self.is_cut = True
                batch = batch.slice(0, left)
            left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if self.is_cut:
                return

    def close(self) -> None:
        """End it, whether or not all rows were taken."""
        self._clock.cancel()
        self._own.close()

    def _late(self) -> None:
        self._is_late = True
        self._own.interrupt()

    def _told(self, error: BaseException) -> BaseException:
        """What is raised: an error of ours for each of theirs."""
        if self._is_late:
            return InvalidValueError("SQL", frames.too_much_time(self._bounds.time_s))
        if isinstance(error, duckdb.OutOfMemoryException):
            return InvalidValueError("SQL", frames.too_much_memory(self._bounds.memory_len))
        if isinstance(error, duckdb.Error):
            if _OUT_OF_MEMORY.search(str(error)):  # of Arrow, or of the heap
                return InvalidValueError("SQL", frames.too_much_memory(self._bounds.memory_len))
            missing = _NO_TABLE.search(str(error))
            if missing is not None:  # DuckDB would suggest tables of its own
                there = ", ".join(sorted(self._tables)) or "none"
                return InvalidValueError("SQL", f"saw the table {missing[1]!a}; there are {there}")
            return InvalidValueError("SQL", str(error))
        if isinstance(error, pa.ArrowMemoryError):
            return InvalidValueError("SQL", frames.too_much_memory(self._bounds.memory_len))
        if isinstance(error, pa.ArrowException | OSError):
            return EleaError(str(error))
        return error

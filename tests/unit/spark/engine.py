"""Spark's order of calls, without Spark: a query over a reader, with crashes wherever wanted.

As Spark does it: the end of a batch is written down before it runs; after a crash the batch that
was written down and not finished runs again, to the same end; `commit` comes one batch late. Every
object that crosses a process is pickled. The sink keeps a batch's rows under its number.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadLimit

from elea.spark.stream import StreamReader


class CrashError(Exception):
    """The driver is gone."""


@dataclass
class Query:
    """One query: what its checkpoint and its sink have, over any number of runs."""

    make: Callable[[], StreamReader]
    ends: list[dict[str, Any]] = field(default_factory=list)  # the offset log
    done: set[int] = field(default_factory=set)  # the commit log
    sink: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    committed: list[dict[str, Any]] = field(default_factory=list)

    def run(
        self, *, batches_count: int, crash: Callable[[str], None], available_now: bool = False
    ) -> None:
        """A run of the driver, to the end of so many batches, of the rows, or to a crash."""
        reader = _travelled(self.make())
        worker = _travelled(self.make())  # another instance, whose `read` is sent to executors
        if available_now:
            reader.prepareForTriggerAvailableNow()
        limit = reader.getDefaultReadLimit()
        number = len(self.ends) - 1 if self.ends and len(self.ends) - 1 not in self.done else None
        for _ in range(batches_count):
            if number is None and not self._plan(reader, limit, crash):
                return
            number = len(self.ends) - 1
            if number > 0:
                self.committed.append(self.ends[number - 1])
                reader.commit(copy.deepcopy(self.ends[number - 1]))
            start = self.ends[number - 1] if number else _json(reader.initialOffset())
            batches: list[pa.RecordBatch] = []
            for partition in reader.partitions(copy.deepcopy(start), self.ends[number]):
                batches += _travelled(worker).read(_travelled(partition))
                crash("reading")
            self.keep(number, batches)
            crash("after the sink")
            self.done.add(number)
            crash("after the batch")
            number = None

    def _plan(self, reader: StreamReader, limit: ReadLimit, crash: Callable[[str], None]) -> bool:
        start = self.ends[-1] if self.ends else _json(reader.initialOffset())
        crash("before planning")
        end = _json(reader.latestOffset(copy.deepcopy(start), limit))
        crash("before the offset log")
        if end == start:
            return False
        self.ends.append(end)
        crash("after the offset log")
        return True

    def keep(self, number: int, batches: list[pa.RecordBatch]) -> None:
        """The sink: what a batch has is kept under its number."""
        rows = self.sink[number] = []
        for batch in batches:
            rows += zip(batch["shard"].to_pylist(), batch["seq"].to_pylist(), strict=True)

    def rows(self) -> list[tuple[int, int]]:
        """What the table has."""
        return sorted(row for rows in self.sink.values() for row in rows)


def _json(offset: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(offset))
    return told


def pickled(value: Any) -> bytes:
    """As Spark sends it."""
    octets: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return octets


def _travelled(value: Any) -> Any:
    return pickle.loads(pickled(value))

"""Lag: what a log has now, held against what the queries of a pipeline have committed.

It is asked for, not remembered: so it is true of a pipeline that idles, hangs or is gone. A query
has committed what its checkpoint says, which is written after its tables have the rows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from elea.errors import EleaError, InvalidValueError, StoreError
from elea.spark.offsets import Offset
from elea.spark.options import Options
from elea.spark.pipelines.definition import Pipeline, Stream
from elea.spark.pipelines.queries import flow_checkpoint, landing_checkpoint, source_options
from elea.spark.pipelines.state import Board, Status
from elea.spark.places import Place, open_place
from elea.store.log.reader import Bounds

_EVERY_S: Final = 2.0
_ASK_S: Final = 10.0  # somebody waits for the answer
_RECEIVED: Final = "recv_ts"
_FROM_THE_FIRST: Final = "earliest"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far something is behind the log.

    Args:
        rows: That the log has, and its tables do not.
        seconds: Since the first of those was recorded; 0: there is none.
    """

    rows: int
    seconds: float


class Lags:
    """The lag of each table of a pipeline that is made of the log. For several threads.

    Args:
        clock: Microseconds since 1970.
    """

    def __init__(
        self, pipeline: Pipeline, clock: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._place: Place | None = None  # it stays open from one look to the next
        self._lock = threading.Lock()

    def measure(self) -> dict[str, Lag]:
        """By table; one whose query has not begun, and begins somewhere else, is not in it.

        Raises:
            EleaError: the log cannot be asked, or a checkpoint is of another one.
        """
        with self._lock:
            try:
                return self._measured()
            except BaseException:
                self._place = None  # it may be another log by then
                raise

    def _measured(self) -> dict[str, Lag]:
        queries = list(self._queries())
        if not queries:
            return {}  # it is made of other things
        options = Options(source_options(self._pipeline, self._pipeline.name, ["**"])).stream()
        if self._place is None:
            reach = options.source.reach
            reach = replace(reach, timeout_s=min(reach.timeout_s, _ASK_S))
            self._place = open_place(replace(options.source, reach=reach))
        place, bounds = self._place, self._place.bounds()
        found: dict[str, Lag] = {}
        for checkpoint, tables in queries:
            ends = committed(checkpoint)
            if not ends and options.start.word != _FROM_THE_FIRST:
                continue
            for offset in ends:
                if offset.log_id != place.log_id:
                    reason = f"{checkpoint} is of the log {offset.log_id}, this is {place.log_id}"
                    raise StoreError(f"{reason}: begin with another checkpoint")
            behind = [self._lag(place, bounds, one) for one in ends or [Offset(place.log_id, {})]]
            lag = max(behind, key=lambda one: one.rows)
            for table in tables:
                if table not in found or found[table].rows < lag.rows:
                    found[table] = lag
        return found

    def _lag(self, place: Place, bounds: list[Bounds], offset: Offset) -> Lag:
        rows, received = 0, []
        for shard, one in enumerate(bounds):
            first = max(one.first, offset.ends.get(shard, one.first))
            if first >= one.end:
                continue
            rows += one.end - first
            for _, _, batch in place.read(shard, first, first + 1, [_RECEIVED]):
                received += batch.column(_RECEIVED).cast("int64").to_pylist()
        age_us = self._clock() - min(received, default=self._clock())
        return Lag(rows, max(0, age_us) / 1e6)

    def _queries(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """The checkpoints of the queries that read the log, and the tables they are for."""
        pipeline = self._pipeline
        if pipeline.landed:
            yield landing_checkpoint(pipeline), tuple(one.name for one in pipeline.landed)
        for table in pipeline.tables:
            if isinstance(table, Stream):
                for name in table.flows:
                    yield flow_checkpoint(pipeline, table.name, name), (table.name,)

    def tell(self, board: Board) -> None:
        """Note it, or why it is not known."""
        status = board.status()
        self.put(status)
        board.lag(status)

    def put(self, status: Status) -> None:
        """Bring what a status says of it up to date."""
        try:
            found, status.lag_error = self.measure(), None
        except (EleaError, OSError) as error:
            found, status.lag_error = {}, str(error)
        for name, one in status.tables.items():
            lag = found.get(name)
            one.lag = None if lag is None else lag.rows
            one.lag_s = None if lag is None else round(lag.seconds, 1)

    def watch(self, board: Board, ended: threading.Event) -> None:
        """Note it again and again, until the end."""
        while not ended.is_set():
            self.tell(board)
            ended.wait(_EVERY_S)


def committed(checkpoint: Path) -> list[Offset]:
    """Up to where a query has committed each log that it reads; none: it has committed nothing.

    Raises:
        StoreError: the checkpoint is damaged.
    """
    numbers = [int(one.name) for one in checkpoint.glob("commits/*") if one.name.isdecimal()]
    if not numbers:
        return []
    file = checkpoint / "offsets" / str(max(numbers))
    try:
        _, _, *lines = file.read_text(encoding="utf-8").splitlines()
        return [Offset.from_json(json.loads(line)) for line in lines if line != "-"]
    except (OSError, ValueError, InvalidValueError) as error:
        raise StoreError(f"{file} is no offset of Spark: {error}") from error

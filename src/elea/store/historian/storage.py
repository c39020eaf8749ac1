"""The volume `log`: storages that are kept in logs, and answer as historians do.

Every sample is a row; nothing is replaced. Which value of a key is the current one is found when it
is asked for, by timestamps, so that the order of arrival does not matter and no list of keys is
kept in memory. Samples wait in a line for the one thread that writes; a query has them written
first, so that its asker sees what was put before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from elea.errors import ClosedError, StoreError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.handlers import Callback
from elea.session.session import Session
from elea.store.backend import Backend, OptionsVolume, StorageConfig, VolumeConfig
from elea.store.backends.disk import Place
from elea.store.backends.options import IN_LOG
from elea.store.historian.historian import Historian
from elea.store.historian.source import LogSource
from elea.store.log.log import Log
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Stored
from elea.store.recorder.rows import batch_of, sample_row
from elea.store.rows import samples_of
from elea.store.service import described
from elea.store.stamping import timestamp_of
from elea.timestamp import Timestamp

_LOG: Final = logging.getLogger("elea.store")
_ITEM_LEN: Final = 512  # what one in the line costs beside its payload
_STOP_S: Final = 30.0  # how long an end waits for the disk


class LogVolume(OptionsVolume):
    """Options: `root`, `low_water_percent`; of a storage `dir`, `quota`, `retain`, `retain_age`."""

    def __init__(self, config: VolumeConfig) -> None:
        self._place = Place.of(config)

    def open(self, storage: StorageConfig) -> Backend:
        """It has no backends: `serve` is what it does."""
        raise StoreError(f"storage {storage.name}: a log is served whole")

    def serve(self, session: Session, storage: StorageConfig) -> LogStorage:
        """A storage that runs.

        Raises:
            ConfigError: an option is unknown or not legal.
            StoreError: another process has the log.
        """
        directory, settings = self._read(storage)
        log = Log(directory, settings)
        try:
            return LogStorage(session, storage, log, LogSource(directory, log))
        except BaseException:
            log.close()
            raise

    def directory_of(self, storage: StorageConfig) -> Path:
        return self._place.directory(storage)

    def check_storage(self, storage: StorageConfig) -> None:
        self._read(storage)

    def _read(self, storage: StorageConfig) -> tuple[Path, LogSettings]:
        """Where a log is, and how it is kept."""
        path = f"storages/{storage.name}/volume"
        chosen = IN_LOG.read(storage.options, path)
        settings = LogSettings(
            quota_len=chosen["quota"],
            retain_len=chosen["retain"],
            retain_age_ns=chosen["retain_age"],
            low_water_percent=self._place.low_water_percent,
        )
        return self._place.directory(storage), settings


@dataclass(slots=True)
class Counts:
    """What a storage was given since it was started; its historian counts queries."""

    puts: int = 0
    deletes: int = 0
    stamped: int = 0  # came without a timestamp
    restamped: int = 0  # came from the future
    refused: int = 0  # by a quota or the disk: `last_error` tells
    dropped: int = 0  # the line was full


class LogStorage:
    """A storage in a log, until `stop`."""

    def __init__(
        self,
        session: Session,
        config: StorageConfig,
        log: Log,
        source: LogSource,
        limits: Limits = DEFAULT_LIMITS,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.config = config
        self.counts = Counts()
        self._session = session
        self._log = log
        self._source = source
        self._limits = limits
        self._wall_ns = wall_ns
        self._line: deque[tuple[Sample, int]] = deque()  # with when it came
        self._line_len = 0
        self._waiting = threading.Condition()
        self._writing = threading.Lock()  # rows are appended in the order of the line
        self._stopping = False
        self._last_error: dict[str, Json] | None = None
        log.before_flush.append(self._write)
        self._subscriber = session.declare_subscriber(
            # Called by whoever brings a sample: it only gets in line.
            config.key_expr,
            Callback(self._take, indirect=False),
        )
        self._historian = Historian(
            session, config.key_expr, [source], complete=config.complete, limits=limits
        )
        self._worker = threading.Thread(
            target=self._run, name=f"storage-{config.name}", daemon=True
        )
        self._worker.start()

    def status(self) -> dict[str, Json]:
        """What it keeps, how much, and what went wrong."""
        answers = self._historian.status()
        rows: list[Json] = list(self._log.ends())
        problems = self._source.problems() + [str(one) for one in self._log.report().damage]
        return {
            **described(self.config),
            "state": "Started",
            "history": "all",
            "rows": rows,
            "counts": asdict(self.counts),
            "answers": answers["counts"],
            "last_error": self._last_error or answers["last_error"],
            "problems": [*problems],
        }

    def stop(self) -> None:
        """Take no more, keep what has come, and close the log."""
        with suppress(ClosedError):  # the session went first
            self._subscriber.undeclare()
        self._historian.stop()
        with self._waiting:
            self._stopping = True
            self._waiting.notify()
        self._worker.join(_STOP_S)
        if self._worker.is_alive():
            _LOG.error("storage %s: its disk does not answer; it is left", self.config.name)
        else:
            self._log.close()

    # By whoever brings it.

    def _take(self, sample: Sample) -> None:
        length = _ITEM_LEN + len(sample.payload) + len(sample.attachment or b"")
        with self._waiting:
            if self._line_len + length > self._limits.storage_queue_len or self._stopping:
                self.counts.dropped += 1
                return
            self._line.append((sample, self._wall_ns()))
            self._line_len += length
            self._waiting.notify()

    # By its own thread, and by those that answer queries.

    def _run(self) -> None:
        while True:
            with self._waiting:
                self._waiting.wait_for(lambda: self._line or self._stopping)
                ends = self._stopping and not self._line
            if ends:
                return
            self._write()

    def _write(self) -> None:
        """Append what waits."""
        with self._writing:
            with self._waiting:
                items, self._line, self._line_len = self._line, deque(), 0
            if not items:
                return
            rows: list[tuple[Sample, int]] = []
            for sample, wall_ns in items:
                if _needs_state(sample):
                    self._append(rows)
                    rows = []
                    self._log.flush_written()
                try:
                    rows += [(row, wall_ns) for row in self._rows(sample, wall_ns)]
                except Exception as error:  # whatever it is, the next samples may be kept
                    self._failed(error, 1)
            self._append(rows)

    def _append(self, rows: list[tuple[Sample, int]]) -> None:
        if not rows:
            return
        try:
            batch = batch_of([sample_row(sample, ns // 1_000) for sample, ns in rows])
            done = self._log.append(batch)
            done.add_done_callback(lambda future: self._stored(future, len(rows)))
        except Exception as error:  # as above
            self._failed(error, len(rows))

    def _rows(self, sample: Sample, wall_ns: int) -> Iterator[Sample]:
        """What is kept of a sample: itself, stamped; of one for many keys, one for each."""
        is_put = sample.kind is SampleKind.PUT
        if is_put:
            self.counts.puts += 1
        else:
            self.counts.deletes += 1
        stamp = timestamp_of(sample, self._session, wall_ns, self._newest, self.counts)
        if "*" not in sample.key_text:
            yield _copy(sample, sample.key_text, stamp)
            return
        for batch in self._source.latest(sample.key_text, stamp.time.value):
            for row in samples_of(batch):
                if row.kind is RowKind.PUT:
                    yield _copy(sample, row.key, stamp)

    def _newest(self, key: str) -> int | None:
        stamps = [
            row.timestamp.time.value
            for batch in self._source.latest(key, 1 << 64)
            for row in samples_of(batch)
            if row.timestamp is not None
        ]
        return max(stamps, default=None)

    def _stored(self, done: Future[Stored], count: int) -> None:
        error = done.exception()
        if error is not None:
            self._failed(error, count)

    def _failed(self, error: BaseException, count: int) -> None:
        self.counts.refused += count
        known = self._last_error is not None and self._last_error["text"] == str(error)
        self._last_error = {"text": str(error), "time_ns": self._wall_ns()}
        if not known:
            _LOG.error("storage %s: %s", self.config.name, error)


def _needs_state(sample: Sample) -> bool:
    """Whether what is kept of it depends on what is kept already."""
    is_bare = sample.kind is SampleKind.DELETE and sample.timestamp is None
    return is_bare or "*" in sample.key_text


def _copy(sample: Sample, key: str, stamp: Timestamp) -> Sample:
    return Sample(
        key_expr=key,
        payload=sample.payload,
        kind=sample.kind,
        encoding=sample.encoding,
        timestamp=stamp,
        congestion_control=sample.congestion_control,
        priority=sample.priority,
        express=sample.express,
        attachment=sample.attachment,
        source_info=sample.source_info,
    )

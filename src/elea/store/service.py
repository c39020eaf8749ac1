"""StorageService: a storage on a session. It subscribes, answers queries, and has its own thread.

Samples and queries wait in one line, in the order they came, so that a query sees what its asker
had put before. The thread takes all that waits, applies it, and synchronises once: what a query is
answered survives a crash. A disk that is too slow makes the line long; past its bound samples are
refused and counted, and the router goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from elea.config.kinds import public
from elea.errors import ClosedError, EleaError, SelectorError
from elea.json5 import Json
from elea.limits import DEFAULT_LIMITS, Limits
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.selector import time_range_of
from elea.session.handlers import Callback
from elea.session.query import Query
from elea.session.session import Session
from elea.store.backend import Reports, StorageConfig, Stored
from elea.store.stamping import timestamp_of
from elea.store.storage import Storage
from elea.timerange import TimeRange
from elea.timestamp import NANOS_PER_SECOND

_LOG: Final = logging.getLogger("elea.store")
_ITEM_LEN: Final = 512  # what one in the line costs beside its payload
_LOG_AGAIN_NS: Final = 60 * NANOS_PER_SECOND  # the same failure is logged so often
_STOP_S: Final = 30.0  # how long an end waits for the disk


@dataclass(slots=True)
class Counts:
    """What a storage did since it was started."""

    puts: int = 0
    deletes: int = 0
    outdated: int = 0  # something newer was known
    stamped: int = 0  # came without a timestamp
    restamped: int = 0  # came from the future (T31)
    refused: int = 0  # by a bound, a quota or the backend: `last_error` tells
    dropped: int = 0  # the line was full
    queries: int = 0
    replies: int = 0
    errors: int = 0  # whatever a backend raised, refusals included


class StorageService:
    """A storage that runs, until `stop`.

    Args:
        session: Whose samples and queries it gets; it gives timestamps too.
        config: What it keeps.
        storage: Where; the service closes it.
        reports: Who can tell of damage.
        limits: How long the line may be.
        wall_ns: The time of day.
    """

    def __init__(
        self,
        session: Session,
        config: StorageConfig,
        storage: Storage,
        reports: Reports | None = None,
        limits: Limits = DEFAULT_LIMITS,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.config = config
        self.counts = Counts()
        self._session = session
        self._storage = storage
        self._reports = reports
        self._limits = limits
        self._wall_ns = wall_ns
        self._line: deque[tuple[Sample | Query, int]] = deque()  # with when it came
        self._line_len = 0
        self._waiting = threading.Condition()
        self._stopping = False
        self._is_dirty = False
        self._last_error: dict[str, Json] | None = None
        self._logged = ("", 0)
        for problem in () if reports is None else reports.problems():
            _LOG.error("storage %s: %s", config.name, problem)
        # Called by whoever brings them: they only get in line.
        samples = Callback(self._take, indirect=False)
        self._subscriber = session.declare_subscriber(config.key_expr, samples)
        queries = Callback(self._take, indirect=False)
        self._queryable = session.declare_queryable(
            config.key_expr, queries, complete=config.complete
        )
        self._worker = threading.Thread(
            target=self._run, name=f"storage-{config.name}", daemon=True
        )
        self._worker.start()

    def status(self) -> dict[str, Json]:
        """What it keeps, how much, and what went wrong."""
        problems: list[Json] = [] if self._reports is None else list(self._reports.problems())
        return {
            **described(self.config),
            "state": "Started",
            "history": "all" if self._storage.keeps_history else "latest",
            "keys": len(self._storage),
            "marks": self._storage.marks_count,
            "marks_forgotten": self._storage.forgotten_count,
            "marks_unsaved": self._storage.unsaved_count,
            "foreign": self._storage.foreign_count,
            "counts": asdict(self.counts),
            "last_error": self._last_error,
            "problems": problems,
        }

    def stop(self) -> None:
        """Take no more, keep what has come, and close the backend."""
        for declared in (self._subscriber, self._queryable):
            with suppress(ClosedError):  # the session went first
                declared.undeclare()
        with self._waiting:
            self._stopping = True
            self._waiting.notify()
        self._worker.join(_STOP_S)
        if self._worker.is_alive():
            _LOG.error("storage %s: its disk does not answer; it is left", self.config.name)

    # By whoever brings it.

    def _take(self, item: Sample | Query) -> None:
        length = _ITEM_LEN
        if isinstance(item, Sample):
            length += len(item.payload) + len(item.attachment or b"")
        with self._waiting:
            if self._line_len + length <= self._limits.storage_queue_len and not self._stopping:
                self._line.append((item, self._wall_ns()))
                self._line_len += length
                self._waiting.notify()
                return
        self.counts.dropped += 1
        if isinstance(item, Query):
            with item:
                item.reply_err(f"storage {self.config.name} is behind, ask again later")

    # By its own thread.

    def _run(self) -> None:
        next_ns = time.monotonic_ns() + self.config.gc_period_ns
        while True:
            with self._waiting:
                if not self._line and not self._stopping:
                    wait_s = (next_ns - time.monotonic_ns()) / NANOS_PER_SECOND
                    self._waiting.wait(max(0.0, min(wait_s, threading.TIMEOUT_MAX)))
                items, self._line, self._line_len = self._line, deque(), 0
                ends = self._stopping and not items
            if ends:
                break
            for item, wall_ns in items:
                if isinstance(item, Sample):
                    self._guarded("store", item.key_text, partial(self._store, item, wall_ns))
                else:
                    self._flush()
                    self._guarded("answer", "", partial(self._answer, item))
            if time.monotonic_ns() >= next_ns:
                next_ns = time.monotonic_ns() + self.config.gc_period_ns
                self._guarded("collect", "", self._collect)
            self._flush()
        self._guarded("close", "", self._storage.close)

    def _guarded(self, verb: str, key: str, act: Callable[[], None]) -> None:
        """Do it; if that fails, say so and go on."""
        try:
            act()
        except Exception as error:  # somebody else's backend: it may raise anything
            self._failed(verb, key, error)

    def _store(self, sample: Sample, wall_ns: int) -> None:
        key = sample.key_text
        timestamp = timestamp_of(sample, self._session, wall_ns, self._newest, self.counts)
        self._is_dirty = True
        if sample.kind is SampleKind.DELETE:
            self.counts.deletes += 1
            is_news = self._storage.delete(key, timestamp)
        else:
            self.counts.puts += 1
            attachment = sample.attachment
            value = Stored(
                sample.payload.to_bytes(),
                timestamp,
                sample.encoding,
                None if attachment is None else attachment.to_bytes(),
            )
            is_news = self._storage.put(key, value)
        if not is_news:
            self.counts.outdated += 1

    def _newest(self, key: str) -> int | None:
        newest = self._storage.newest(key)
        return None if newest is None else newest.time.value

    def _answer(self, query: Query) -> None:
        self.counts.queries += 1
        with query:
            try:
                times = time_range_of(query.parameters)
            except SelectorError as error:
                query.reply_err(f"storage {self.config.name}: {error}")
                return
            try:
                for key in self._storage.keys(str(query.key_expr)):
                    self._reply(query, key, times)
            except ClosedError:  # whoever asked is gone, or we go
                return

    def _reply(self, query: Query, key: str, times: TimeRange | None) -> None:
        try:
            values = list(self._storage.values(key, times, self._wall_ns()))
        except Exception as error:  # as in _guarded; the asker is told too
            self._failed("get", key, error)
            query.reply_err(f"storage {self.config.name}: {key}: {error}")
            return
        for value in values:
            query.reply(
                key,
                value.payload,
                encoding=value.encoding,
                timestamp=value.timestamp,
                attachment=value.attachment,
            )
            self.counts.replies += 1

    def _collect(self) -> None:
        if self._storage.collect(self._wall_ns() - self.config.gc_lifespan_ns):
            self._is_dirty = True

    def _flush(self) -> None:
        if self._is_dirty:
            self._is_dirty = False
            self._guarded("synchronise", "", self._storage.flush)

    def _failed(self, verb: str, key: str, error: Exception) -> None:
        self.counts.errors += 1
        if verb == "store":
            self.counts.refused += 1
        text = f"{verb} {key!a}: {error}" if key else f"{verb}: {error}"
        now_ns = self._wall_ns()
        self._last_error = {"text": text, "time_ns": now_ns}
        kind, logged_ns = self._logged
        if kind != verb or now_ns - logged_ns > _LOG_AGAIN_NS:
            self._logged = (verb, now_ns)
            # Those of ours say all there is to say; for others the place helps.
            known = isinstance(error, EleaError)
            _LOG.error("storage %s: %s", self.config.name, text, exc_info=not known)


def described(config: StorageConfig) -> dict[str, Json]:
    """A storage as Eclipse Zenoh shows it, and whether it is complete."""
    options = {name: public(value) for name, value in config.options.items()}
    shown: dict[str, Json] = {"key_expr": config.key_expr}
    if config.strip_prefix is not None:
        shown["strip_prefix"] = config.strip_prefix
    shown["volume"] = {**options, "id": config.volume} if options else config.volume
    shown["complete"] = config.complete
    return shown

"""Log: appended to by many, written by one thread, acknowledged when it is on disk.

While the disk synchronises one group of appends the next one gathers; so the cost of a
synchronisation is shared by all who wait, and one who is alone waits for nobody.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from elea.errors import ClosedError, CorruptLogError, StoreError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log import consumers as consumer_files
from elea.store.log import index
from elea.store.log.disk import Disk, RealDisk
from elea.store.log.manifest import read_manifest
from elea.store.log.settings import LogSettings
from elea.store.log.signal import Signal
from elea.store.log.single import Rows, batch_of, checked_length
from elea.store.log.writer import Report, Stored, Writer

_LOG: Final = logging.getLogger("elea.store.log")
_KEEP_HOUSE_S: Final = 1.0  # how often segments are closed by age, and trimmed


# What this process writes, by directory: who reads the same log can ask for what is not there yet.
_OPEN: Final[weakref.WeakValueDictionary[Path, Log]] = weakref.WeakValueDictionary()


def opened(directory: Path) -> Log | None:
    """The log that this process writes to a directory, if it does."""
    return _OPEN.get(directory.resolve())


class _Append(NamedTuple):
    rows: Rows
    length: int  # in octets
    is_divisible: bool
    future: Future[Stored]


class Log:
    """A durable log of samples.

    Args:
        disk: The directory of the log, made if it does not exist; or a Disk.
        settings: How it is written, and how much of it is kept.
        limits: How much may wait to be written.

    Raises:
        StoreError: another process writes to it, or it is not a log.

    Example:
        >>> import tempfile
        >>> with Log(tempfile.mkdtemp()) as log:
        ...     log.ends()
        [0]
    """

    def __init__(
        self,
        disk: Disk | Path | str,
        settings: LogSettings | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory: Path | None = None
        if isinstance(disk, Path | str):
            self._directory = Path(disk).resolve()
            disk = RealDisk(self._directory, writable=True)
        self.disk: Disk = disk
        self.before_flush: list[Callable[[], object]] = []  # append what is gathered elsewhere
        self._limits = limits
        self._wall_ns = wall_ns
        self._writer = Writer(disk, settings or LogSettings(), wall_ns)
        for damage in self._writer.report.damage:
            _LOG.error("the log is damaged: %s", damage)
        report = self._writer.report
        if report.cut_len and report.damage:  # nothing proves that they were not acknowledged
            _LOG.error("cut %d bytes after the last whole block of a damaged log", report.cut_len)
        elif report.cut_len:
            _LOG.warning("cut %d bytes that were never acknowledged", report.cut_len)
        self._writing = threading.Lock()  # whoever has it uses the writer
        self._packing = threading.Lock()
        # Two sides of one lock: who stores by itself does not wake the thread that writes.
        self._changed = Signal()
        self._lock = self._changed.lock
        self._appended = threading.Condition(self._lock)
        self._queue: deque[_Append] = deque()
        self._queued_len = 0
        self._closing = False
        self._closed = threading.Semaphore(0)
        names = {"elea log": self._run, "elea log house": self._tend}
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True) for name, run in names.items()
        ]
        for thread in self._threads:
            thread.start()
        if self._directory is not None:
            _OPEN[self._directory] = self

    def append(self, rows: Rows, *, wake: bool = True, divisible: bool = False) -> Future[Stored]:
        """Keep rows of `SCHEMA`. The result, when it is there, says where on disk they are.

        Waits while too much is to be written already.

        Args:
            wake: Whether the thread that writes is woken. If not, `finish` is to be called.
            divisible: Whether rows for which there is room are kept without the others, which the
                result names; otherwise all are kept, or none.

        Raises:
            InvalidValueError: the columns are not those of the schema, or a row without a timestamp
                was received before 1970.
            ClosedError: the log was closed.
            StoreError: writing failed before, and the log has to be opened again.
        """
        length = checked_length(rows)
        future: Future[Stored] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._changed.wait_for(self._has_room)
            if self._closing:
                raise ClosedError("the log was closed")
            if self._writer.broken is not None:
                raise StoreError(f"the log cannot be written: {self._writer.broken}; open it again")
            self._queue.append(_Append(rows, length, divisible, future))
            self._queued_len += length
            if wake:
                self._appended.notify()
        return future

    def store(self, rows: Rows) -> Stored:
        """Keep rows, and return when they are on disk: `append` and its result, with less delay.

        Who calls writes, for all who wait, unless somebody is writing already.

        Raises:
            StoreError: they are not kept; and what `append` raises.
        """
        return self.finish(self.append(rows, wake=False))

    def finish(self, future: Future[Stored]) -> Stored:
        """Return when what was appended is on disk; who calls writes, as in `store`."""
        while not future.done() and self._write_group():
            pass
        return future.result()  # else somebody has taken it, and is about to tell

    def claim(self, rows: Rows) -> bool:
        """Whether these rows can go to the disk now, as nobody writes and nothing waits.

        If so, `store_claimed` is to be called next, and soon: nobody else writes until then.

        Raises:
            InvalidValueError: as `append`.
        """
        checked_length(rows)
        if not self._writing.acquire(blocking=False):
            return False
        if self._queue or self._closing or self._writer.broken is not None:
            self._writing.release()
            return False
        return True

    def store_claimed(self, rows: Rows, *, divisible: bool = False) -> Stored:
        """Keep rows for which `claim` was called, and return when they are on disk.

        Args:
            divisible: As of `append`.

        Raises:
            StoreError: they are not kept; or, if the log is broken now, nobody knows.
        """
        try:
            return self._commit_one(rows, divisible=divisible)
        finally:
            self._writing.release()
            with self._lock:  # who waits for rows, or for room in a log that broke
                self._changed.tell()

    def flush(self) -> None:
        """Return when all that was appended before is durable, or refused.

        First, those in `before_flush` append what they have; readers that want to see all of it
        call this.
        """
        for gather in list(self.before_flush):
            gather()
        self.flush_written()

    def flush_written(self) -> None:
        """The same without `before_flush`: for those who are called by it."""
        with self._lock:
            last = self._queue[-1].future if self._queue else None
        while last is not None and not last.done() and self._write_group():
            pass
        with self._writing:  # who took the last group has written it
            return

    def ends(self) -> list[int]:
        """The number of the next row, by shard."""
        return self._writer.ends()

    @property
    def log_id(self) -> uuid.UUID:
        """The name of the log, for ever."""
        return self._writer.manifest.log_id

    @property
    def used_len(self) -> int:
        """The octets it has on disk."""
        return self._writer.used_len

    @property
    def broken(self) -> str | None:
        """Why nothing can be appended any more; None: all is well."""
        return self._writer.broken

    def grown_since(self, ends: Sequence[int]) -> list[int]:
        """Return how many rows each shard has beyond these ends.

        None, if opening found that rows are lost: their offsets are skipped, and show no rows.
        """
        if any(damage.lost_count for damage in self._writer.report.damage):
            return [0] * len(ends)
        return [end - before for end, before in zip(self.ends(), ends, strict=True)]

    def report(self) -> Report:
        """What was found damaged, cut, refused and trimmed since the log was opened."""
        return self._writer.report

    def wait(self, shard: int, seq: int, timeout_s: float | None = None) -> bool:
        """Return when a row is durable, with True; or after a time, or at the end, with False."""
        with self._lock:
            self._changed.wait_for(
                lambda: self._closing or self._writer.ends()[shard] > seq, timeout_s
            )
            return self._writer.ends()[shard] > seq

    def commit_consumer(
        self, name: str, offsets: dict[int, int], lease_ns: int = consumer_files.LEASE_NS
    ) -> None:
        """Say that a consumer has done with all rows below these numbers."""
        log_id = self._writer.manifest.log_id
        consumer_files.commit(
            self.disk, name, log_id, offsets, now_ns=self._wall_ns(), lease_ns=lease_ns
        )

    def close(self) -> None:
        """Write what waits, and give the log to the next writer."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._changed.tell()
            self._appended.notify_all()
        self._closed.release()
        for thread in self._threads:
            thread.join()
        with self._writing:  # somebody may have claimed it
            self._writer.close()
        if self._directory is not None:
            _OPEN.pop(self._directory, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _is_closing(self) -> bool:
        return self._closing

    def _has_room(self) -> bool:
        has_room = self._queued_len < self._limits.log_pending_len
        return has_room or self._closing or self._writer.broken is not None

    def _run(self) -> None:
        """The thread that writes."""
        self._closed.release()  # what a writer before us closed
        kept_house_s = time.monotonic()
        while True:
            with self._lock:
                self._appended.wait_for(lambda: self._queue or self._closing, _KEEP_HOUSE_S)
                if self._closing and not self._queue:
                    return
            self._write_group()
            if time.monotonic() - kept_house_s >= _KEEP_HOUSE_S:
                self.keep_house()
                kept_house_s = time.monotonic()

    def _write_group(self) -> bool:
        """Make what waits durable, as one block per shard, and tell who appended it.

        False: nothing waits. Who is told may do anything: the writer is free again by then.
        """
        with self._writing:
            with self._lock:
                group = self._take()
            if not group:
                return False
            outcomes = self._commit(group)
        for one, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                one.future.set_exception(outcome)
            else:
                one.future.set_result(outcome)
        return True

    def _take(self) -> list[_Append]:
        """What becomes one block: all that waits, within bounds."""
        group: list[_Append] = []
        rows_count = length = 0
        while self._queue:
            rows_count += self._queue[0].rows.num_rows
            length += self._queue[0].length
            if group and (
                rows_count > self._limits.log_block_rows_count
                or length > self._limits.log_block_len
            ):
                break
            group.append(self._queue.popleft())
        return group

    def _commit(self, group: list[_Append]) -> list[Stored | BaseException]:
        """Where the rows are, or why they are not; all that waits has failed if nothing can be."""
        outcomes: list[Stored | BaseException]
        last: BaseException | None = None
        try:
            outcomes = [*self._writer.commit([one.rows for one in group])]
        except BaseException as error:  # whoever appended is told, whatever it is
            last = error
            outcomes = [error for _ in group]
            if isinstance(error, StoreError) and self._writer.broken is None:
                # No room for all of them: there may be for some.
                outcomes = [self._outcome(one) for one in group]
        with self._lock:
            self._queued_len -= sum(one.length for one in group)
            if self._writer.broken is not None:
                group += self._queue
                outcomes += [last or StoreError(self._writer.broken) for _ in self._queue]
                self._queue.clear()
                self._queued_len = 0
            self._changed.tell()
        return outcomes

    def _outcome(self, append: _Append) -> Stored | BaseException:
        try:
            return self._commit_one(append.rows, divisible=append.is_divisible)
        except BaseException as error:  # as above
            return error

    def _commit_one(self, rows: Rows, *, divisible: bool) -> Stored:
        try:
            return self._writer.commit([rows])[0]
        except StoreError:
            if not divisible or rows.num_rows == 1 or self._writer.broken is not None:
                raise
            return self._writer.commit_fitting(batch_of(rows))

    def keep_house(self) -> None:
        """Close segments that are old enough and trim; done every second anyway."""
        if self._writer.broken is not None:
            return
        try:
            with self._writing:
                trimmed = self._writer.trim()
        except OSError as error:
            _LOG.error("trimming failed: %s", error)
            return
        for one in trimmed:
            for name, rows_count in one.unread:
                reason = (one.reason, name, rows_count)
                _LOG.error("data loss: %s; consumer %s had not read %d rows", *reason)
        self._closed.release()

    def _tend(self) -> None:
        """The thread that lists the keys of closed segments, and packs them."""
        while True:
            self._closed.acquire()
            if self._is_closing():
                return
            for segment in self._writer.unlisted():
                try:
                    index.build(self.disk, segment)
                except (FileNotFoundError, CorruptLogError):
                    continue  # trimmed meanwhile
                except OSError as error:
                    _LOG.error("the keys of a segment were not listed: %s", error)
                if self._is_closing():
                    return
            while not self._is_closing() and self.pack():
                pass

    def pack(self) -> bool:
        """Write one closed segment once more, if one is due; done every second anyway.

        False: none was due, or the log is being closed.
        """
        with self._packing:
            with self._writing:
                segment = None if self._writer.broken else self._writer.begin_packing()
            if segment is None:
                return False
            done = False
            try:
                done = self._writer.pack(segment, self._limits, self._is_closing)
            except CorruptLogError as error:
                _LOG.error("a segment is damaged and was not packed: %s", error)
            except Exception as error:  # of disk or Arrow: the segment stays, and the log goes on
                _LOG.error("a segment was not packed: %s", error)
            finally:
                with self._writing:
                    self._writer.end_packing(done=done)
            return True


class Packed(NamedTuple):
    """What packing a log has brought."""

    before_len: int  # octets
    after_len: int
    left: list[str]  # segments that are damaged, or were, and stay as they are


def pack_log(
    disk: Disk, packing: str, progress: Callable[[str, int, int], None] | None = None
) -> Packed:
    """Pack all of a log that nobody writes to, also what is not old.

    Args:
        packing: "zstd" or "lz4".
        progress: Told the segment, and how many are done of how many.

    Raises:
        StoreError: somebody is writing to it, or it is not a log.
    """
    read_manifest(disk)
    settings = LogSettings(packing=packing, pack_age_ns=0, low_water_percent=0)
    writer = Writer(disk, settings, time.time_ns)
    left: list[str] = []
    try:
        writer.roll()
        writer.trim()
        before_len, done_count, total = writer.used_len, 0, writer.packable_count()
        while (segment := writer.begin_packing()) is not None:
            done = False
            try:
                done = writer.pack(segment, DEFAULT_LIMITS)
            except CorruptLogError:
                left.append(segment.stem)
            finally:
                writer.end_packing(done=done)
            done_count += 1
            if progress is not None:
                progress(segment.stem, done_count, total)
    finally:
        writer.close()
    return Packed(before_len, writer.used_len, left)

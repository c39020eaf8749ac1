"""LogShelf: the samples of a spool on disk, in a small log of their own.

How far it was forwarded is the offset of a consumer of that log, written down now and then: after a
crash the last few samples are forwarded again, and the recorder knows them by their source.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from elea.encoding import Encoding
from elea.errors import EleaError, NotStoredError, StoreError
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.session.ack import Entry
from elea.session.convert import wire_encoding
from elea.session.spool_shelf import NAME
from elea.store.log.consumers import load
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind, times_of
from elea.store.log.segment import Damage
from elea.store.log.settings import LogSettings
from elea.store.log.single import Single
from elea.store.log.writer import Stored
from elea.timestamp import TimestampId
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp
from elea.wire.shared_extensions import SourceRef

_LOGGER: Final = logging.getLogger("elea.session")
_LEASE_NS: Final = 100 * 365 * 86_400 * 1_000_000_000  # nothing goes that was not forwarded
_SEGMENT_LEN_MAX: Final = 16 * 1024 * 1024
_SEGMENTS_COUNT: Final = 8  # of a full spool: segments go as a whole once they were forwarded
_UNPUBLISHED: Final = 0x40  # in `qos`, where no quality has a bit: subscribers were not sent it yet
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LogShelf:
    """Samples that wait on disk.

    Args:
        directory: Where; made if it does not exist.
        len_max: Octets of its files together.
        waits: Whether to wait for the disk, and not to have another thread do so.

    Raises:
        StoreError: another process has it, or it is a log that is no spool.
    """

    def __init__(self, directory: Path, len_max: int, waits: bool) -> None:
        segment_len = max(1, min(len_max // _SEGMENTS_COUNT, _SEGMENT_LEN_MAX))
        settings = LogSettings(segment_len=segment_len, retain_consumed=True, quota_len=len_max)
        self._directory = directory
        self._len_max = len_max
        self._waits = waits
        self._disk = RealDisk(directory, writable=True)
        self._log = Log(self._disk, settings)
        try:
            self._reader = LogReader(self._disk, _on_damage)
            self.log: uuid.UUID | None = self._reader.log_id
            self.end = self._log.ends()[0]
            self.first = self._written = self._begin()
        except BaseException:
            self._log.close()
            raise
        self._executor = ThreadPoolExecutor(1, "elea-spool")
        self._length = 0
        self._reading = threading.Lock()  # while the directories are used, or given back
        self._is_closed = False

    def _begin(self) -> int:
        """How far it was forwarded before."""
        assert self.log is not None
        for consumer in load(self._log.disk, self.log).consumers:
            if consumer.name == NAME:
                return max(consumer.offsets.get(0, 0), self._reader.bounds(0).first)
        if self.end:
            raise StoreError(
                f"{self._directory} is a log with {self.end} rows, and no spool; choose another"
                " directory"
            )
        self._log.commit_consumer(NAME, {0: 0}, _LEASE_NS)
        return 0

    def keep(self, entry: Entry, done: Callable[[int | NotStoredError], None]) -> None:
        """Keep one more; `done` is told when it is on disk."""

        def written(future: Future[Stored]) -> None:
            error = future.exception()
            if error is None:
                [(first, end)] = future.result().ranges.values()
                self.end = max(self.end, end)
                done(first)
            else:
                done(_refusal(entry.key, error))

        try:
            future = self._log.append(row_of(entry))
        except EleaError as error:
            done(_refusal(entry.key, error))
            return
        if self._waits:
            future.exception()
        future.add_done_callback(written)

    def read(self, first: int, count: int) -> tuple[list[tuple[int, Entry]], int]:
        """The next ones that are on disk, and the number to go on with."""
        with self._reading:
            end = min(first + count, self._log.ends()[0])
            if self._is_closed or end <= first:
                return [], first
            batches = self._reader.read(0, first, end, position=True)
            rows = [row for batch in batches for row in batch.to_pylist()]
        return [(row["seq"], entry_of(row)) for row in rows], end

    def release(self, first: int) -> None:
        """All below this number were forwarded; written down now and then."""
        is_empty = first == self.end
        self.first = first
        late = first - self._written
        if late >= DEFAULT_LIMITS.spool_commit_count or (late and is_empty):
            self._written = first
            self._executor.submit(self._write_down, first)

    def _write_down(self, first: int) -> None:
        try:
            self._log.commit_consumer(NAME, {0: first}, _LEASE_NS)
        except (OSError, StoreError) as error:
            _LOGGER.error("spool: how far it was forwarded is not written down: %s", error)

    def length(self) -> int:
        """Octets of its files with samples."""
        with self._reading, suppress(EleaError, OSError):  # no descriptor is free: as it was before
            if not self._is_closed:
                self._length = self._reader.stat(0).octets_count
        return self._length

    def close(self) -> None:
        """Give the directory to the next one."""
        self._executor.shutdown()
        if self.first != self._written:
            self._write_down(self.first)
        self._log.close()
        with self._reading:
            self._is_closed = True
            self._disk.close()


def _on_damage(damage: Damage) -> None:
    _LOGGER.error("spool: samples are lost: %s", damage)


def _refusal(key: str, error: BaseException) -> NotStoredError:
    cause = error.__cause__
    is_full = isinstance(error, StoreError) and (
        cause is None or (isinstance(cause, OSError) and cause.errno in _NO_ROOM)
    )
    return NotStoredError(key, NAME, "full" if is_full else "broken", str(error))


def row_of(entry: Entry) -> Single:
    """A sample as a row."""
    body = entry.body
    source, stamp = body.source, body.timestamp
    assert source is not None
    assert stamp is not None
    is_put = isinstance(body, Put)
    encoding = Encoding.ZENOH_BYTES
    if isinstance(body, Put) and body.encoding is not None:
        encoding = Encoding.from_parts(body.encoding.id, body.encoding.schema or None)
    time_us, hlc = times_of(stamp.time)
    return Single(
        key=entry.key,
        kind=int(RowKind.PUT if is_put else RowKind.DELETE),
        payload=body.payload if isinstance(body, Put) else b"",
        attachment=body.attachment,
        encoding=str(encoding),
        time_us=time_us,
        hlc=hlc,
        hlc_id=str(TimestampId(stamp.id)),
        zid=str(ZenohId(source.zid)),
        eid=source.eid,
        sn=source.sn,
        qos=entry.qos if entry.published else entry.qos | _UNPUBLISHED,
        received_us=(entry.kept_ns or time.time_ns()) // 1_000,
    )


def entry_of(row: dict[str, object]) -> Entry:
    """A row as a sample."""
    text, octets, number = _texts(row), _octets(row), _numbers(row)
    source = SourceRef(ZenohId.parse(text["zid"]).to_bytes(), number["eid"], number["sn"])
    clock = ZenohId.parse(text["hlc_id"]).to_bytes()
    stamp = Stamp(number["hlc"] % (1 << 64), clock)
    body: Put | Del
    if number["kind"] == RowKind.DELETE:
        body = Del(stamp, octets.get("attachment"), source)
    else:
        encoding = wire_encoding(text["encoding"])
        body = Put(octets["payload"], stamp, encoding, octets.get("attachment"), source)
    qos, kept = number["qos"], row["recv_ts"]
    assert isinstance(kept, datetime)
    return Entry(
        text["key"],
        body,
        qos & ~_UNPUBLISHED,
        published=not qos & _UNPUBLISHED,
        kept_ns=int(kept.timestamp() * 1e6) * 1_000,
    )


def _texts(row: dict[str, object]) -> dict[str, str]:
    return {name: value for name, value in row.items() if isinstance(value, str)}


def _octets(row: dict[str, object]) -> dict[str, bytes]:
    return {name: value for name, value in row.items() if isinstance(value, bytes)}


def _numbers(row: dict[str, object]) -> dict[str, int]:
    return {name: value for name, value in row.items() if isinstance(value, int)}

"""PersistentStore: samples of devices that survive the gateway, on a storage of Elea (15.2).

The gateway writes, and acknowledges a device only after `flush`: what is acknowledged is on disk.
If `flush` says that something is not, the gateway acknowledges nothing and ends the session.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from elea.errors import LimitError, StoreError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.backend import Backend, KeepsMarks, StorageConfig, Stored, VolumeConfig
from elea.store.backends.sqlite import SqliteVolume
from elea.store.storage import Storage
from elea.timestamp import DRIFT_NS_MAX, NTP64, Timestamp
from elea.xrce.names import from_key
from elea.xrce.qualities import Level
from elea.xrce.samples.durability import TOMBSTONE_NS
from elea.xrce.samples.keys import key_expressions, selects
from elea.xrce.samples.sample import Sample

_LOG: Final = logging.getLogger("elea.devices")
_NAME: Final = "persistent"
_COLLECT_NS: Final = 3_600 * 1_000_000_000


class PersistentStore:
    """The latest persistent sample of each key, in a database below a directory.

    Raises:
        StoreError: It cannot be opened, or another process has it.
    """

    def __init__(self, directory: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        volume = SqliteVolume(VolumeConfig("xrce", "sqlite", {"root": str(directory)}))
        backend = volume.open(StorageConfig(_NAME, "**", "xrce"))
        try:
            _stamp_anew(backend, time.time_ns())
        except StoreError as error:
            _LOG.error("persistent samples: the clock was set back: %s", error)
        self._storage = Storage(backend)
        self._limits = limits
        self._dirty = False
        self._has_failed = False  # since the last flush
        self._collected_ns = time.time_ns()
        self.failed_count = 0  # what could not be written

    def keys(self) -> list[str]:
        """The keys that have a sample."""
        return self._storage.keys("**")

    @property
    def keys_count(self) -> int:
        """Keys that have a sample."""
        return len(self._storage)

    @property
    def is_full(self) -> bool:
        """Whether another key would be refused."""
        return len(self._storage) >= self._limits.xrce_durable_count

    def holds(self, key: str) -> bool:
        """Whether there is a sample of this key."""
        return bool(self._storage.keys(key))

    def write(self, sample: Sample, now_ns: int) -> bool:
        """Keep a sample if it is newer than that of its key; False if there is no room."""
        if self.is_full and not self.holds(sample.key):
            return False
        try:
            self._storage.put(sample.key, Stored(sample.payload, sample.timestamp, sample.encoding))
        except LimitError as error:
            _LOG.error("persistent samples: write: %s", error)
            return False
        except StoreError as error:
            self._failed("write", error)
            return False
        self._dirty = True
        return True

    def delete(self, key: str, timestamp: Timestamp, now_ns: int) -> None:
        """Forget what is older of a key, and what comes late."""
        try:
            self._storage.delete(key, timestamp)
        except StoreError as error:
            self._failed("delete", error)
        self._dirty = True

    def matching(self, path: str) -> list[Sample]:
        """The samples of a path or pattern, by timestamp."""
        found: dict[str, Sample] = {}
        for key_expr in key_expressions(path):
            for key in self._storage.keys(key_expr):
                if key not in found and selects(path, from_key(key).path):
                    found.update((key, one) for one in self._values(key))
        return sorted(found.values(), key=lambda one: one.timestamp)

    def flush(self) -> bool:
        """Return when all that was written since the last time is on disk; False: it is not."""
        if not self._dirty and not self._has_failed:
            return True
        self._dirty = False
        wall_ns = time.time_ns()
        if wall_ns - self._collected_ns > _COLLECT_NS:
            self._collected_ns = wall_ns
            self._storage.collect(wall_ns - TOMBSTONE_NS)
        try:
            self._storage.flush()
        except StoreError as error:
            self._failed("commit", error)
        has_failed, self._has_failed = self._has_failed, False
        if has_failed:  # the samples of before count again
            try:
                self._storage.reload()
            except StoreError as error:
                _LOG.error("persistent samples: list: %s", error)
        return not has_failed

    def close(self) -> None:
        """Flush, and let go of it."""
        self._storage.close()

    def _values(self, key: str) -> list[Sample]:
        try:
            values = list(self._storage.values(key, None, 0))
        except StoreError as error:
            self._failed("read", error)
            return []
        return [
            Sample(
                key=key,
                path=from_key(key).path,
                payload=one.payload,
                timestamp=one.timestamp,
                encoding=one.encoding,
                level=Level.PERSISTENT,
            )
            for one in values
        ]

    def _failed(self, verb: str, error: Exception) -> None:
        self.failed_count += 1
        self._has_failed = True
        _LOG.error("persistent samples: %s: %s", verb, error)


def _stamp_anew(backend: Backend, wall_ns: int) -> None:
    """Let samples of before the clock was set back be replaced by new ones.

    They seem to be of the future, and what devices write now would be older, acknowledged, and not
    kept until that time comes.
    """
    latest_ns = wall_ns + DRIFT_NS_MAX
    count = 0
    for key, timestamp in list(backend.entries()):
        if timestamp.time.as_nanos() <= latest_ns:
            continue
        value = backend.get(key)
        if value is None:
            continue
        backend.delete(key, timestamp)
        backend.put(key, replace(value, timestamp=Timestamp(NTP64(0, wall_ns), timestamp.id)))
        count += 1
    if isinstance(backend, KeepsMarks):
        for mark in list(backend.marks()):
            if mark.timestamp.time.as_nanos() > latest_ns:
                backend.unmark(mark)
                count += 1
    if count:
        backend.flush()
        _LOG.warning("persistent samples: %d are of the future; they count as of now", count)

"""The volume `memory`: values that are gone when the process ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from elea.errors import StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.backend import Backend, OptionsVolume, StorageConfig, Stored, VolumeConfig
from elea.store.backends.options import IN_MEMORY, NONE
from elea.timestamp import Timestamp

_OVERHEAD_LEN: Final = 512  # of one value with its key, its place in the index and its timestamp


class MemoryVolume(OptionsVolume):
    """Options of a storage: `history` (`latest`, `all`) and `quota`, in octets."""

    def __init__(self, config: VolumeConfig) -> None:
        NONE.read(config.options, f"volumes/{config.name}")

    def check_storage(self, storage: StorageConfig) -> None:
        self._read(storage)

    def open(self, storage: StorageConfig) -> Backend:
        bound, keeps_all = self._read(storage)
        return MemoryHistory(bound) if keeps_all else MemoryBackend(bound)

    def _read(self, storage: StorageConfig) -> tuple[int, bool]:
        """How much a storage may hold, and whether it keeps all values of a key."""
        path = f"storages/{storage.name}/volume"
        chosen = IN_MEMORY.read(storage.options, path)
        quota = chosen["quota"]
        bound = DEFAULT_LIMITS.storage_memory_len if quota is None else quota
        return bound, chosen["history"] == "all"


class MemoryBackend(Backend):
    """The newest value of each key, until the process ends.

    Args:
        quota_len: How much it may hold, keys and a fixed cost per value included.
    """

    volatile = True

    def __init__(self, quota_len: int = DEFAULT_LIMITS.storage_memory_len) -> None:
        self._quota_len = quota_len
        self._len = 0
        self._values: dict[str, list[Stored]] = {}  # the oldest first; never empty

    def put(self, key: str, value: Stored) -> None:
        known = self._values.get(key, [])
        self._account(_cost(key, value) - sum(_cost(key, one) for one in known))
        self._values[key] = [value]

    def get(self, key: str) -> Stored | None:
        known = self._values.get(key)
        return None if known is None else known[-1]

    def delete(self, key: str, timestamp: Timestamp) -> None:
        known = self._values.pop(key, [])
        kept = known[bisect_right(known, timestamp, key=_timestamp) :]
        if kept:
            self._values[key] = kept
        self._len -= sum(_cost(key, one) for one in known[: len(known) - len(kept)])

    def entries(self) -> Iterator[tuple[str, Timestamp]]:
        for key, known in self._values.items():
            yield key, known[-1].timestamp

    def _account(self, more: int) -> None:
        if more > 0 and self._len + more > self._quota_len:
            raise StoreError(
                f"memory: {self._len} octets are kept and {more} more asked for, the quota is"
                f" {self._quota_len}; raise `quota` of the storage, or delete something"
            )
        self._len += more


class MemoryHistory(MemoryBackend):
    """Every value of each key."""

    def put(self, key: str, value: Stored) -> None:
        known = self._values.get(key, [])
        at = bisect_left(known, value.timestamp, key=_timestamp)
        replaced = known[at : at + 1] if at < len(known) else []
        if replaced and replaced[0].timestamp != value.timestamp:
            replaced = []
        self._account(_cost(key, value) - sum(_cost(key, one) for one in replaced))
        known[at : at + len(replaced)] = [value]
        self._values[key] = known

    def history(self, key: str, first: int, last: int) -> Iterator[Stored]:
        """The values between two times."""
        for value in self._values.get(key, ()):
            if first <= value.timestamp.time.value <= last:
                yield value


def _cost(key: str, value: Stored) -> int:
    return len(key) + len(value) + _OVERHEAD_LEN


def _timestamp(value: Stored) -> Timestamp:
    return value.timestamp

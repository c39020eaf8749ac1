"""What a storage keeps its values in: the contract for those who write one.

A *volume* is a place that is configured once; it opens one *backend* per storage. A backend is a
dictionary that stays: `put`, `get`, `delete`, `entries`. It need not know of key expressions, of
who wins, or of threads: one thread calls it, with keys that are plain and updates that are wanted.
`elea.store.testing` holds the laws that a backend keeps.

Two more abilities are found by their methods. `KeepsHistory` keeps every value of a key, not the
newest alone. `KeepsMarks` remembers deletions beyond a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from elea.config.kinds import Value
from elea.encoding import Encoding
from elea.json5 import Json
from elea.session.session import Session
from elea.timestamp import Timestamp

Options: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Stored:
    """A value as it is kept."""

    payload: bytes
    timestamp: Timestamp
    encoding: Encoding = Encoding.ZENOH_BYTES
    attachment: bytes | None = None

    def __len__(self) -> int:
        """The octets that the application gave."""
        return len(self.payload) + (0 if self.attachment is None else len(self.attachment))


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered although no key has it: a deletion, or an update of many keys."""

    key: str  # a whole key or key expression, no prefix taken off
    timestamp: Timestamp
    value: Stored | None = None  # None: a deletion


@dataclass(frozen=True, slots=True)
class VolumeConfig:
    """A volume as it is configured."""

    name: str
    backend: str
    options: Options = field(default_factory=dict)  # whatever the backend defines


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """A storage as it is configured."""

    name: str
    key_expr: str
    volume: str
    options: Options = field(default_factory=dict)  # whatever the backend defines
    strip_prefix: str | None = None
    complete: bool = False
    gc_period_ns: int = 30 * 1_000_000_000
    gc_lifespan_ns: int = 86_400 * 1_000_000_000


class Backend(Protocol):
    """The values of one storage. Inherit it to get `flush` and `close` that do nothing.

    A key is a plain key without the storage's `strip_prefix`; it is empty for the prefix itself.
    Whatever is raised is counted, logged and shown in the storage's status; a `StoreError` is
    worded for operators.
    """

    def put(self, key: str, value: Stored) -> None:
        """Keep a value, in place of the one that was there."""

    def get(self, key: str) -> Stored | None:
        """The newest value of a key, or None."""

    def delete(self, key: str, timestamp: Timestamp) -> None:
        """Forget the values of a key that are not newer; none at all is no error."""

    def entries(self) -> Iterable[tuple[str, Timestamp]]:
        """Every key with the timestamp of its newest value."""

    def flush(self) -> None:
        """Return when all that was put and deleted survives a crash.

        It is called after each batch and before a query is answered. If it raises, the storage
        reads `entries` again to learn what is there.
        """
        return

    def close(self) -> None:
        """No more calls come."""
        return


@runtime_checkable
class KeepsHistory(Protocol):
    """A backend whose `put` adds a value and whose `delete` takes all that are not newer."""

    def history(self, key: str, first: int, last: int) -> Iterable[Stored]:
        """The values between two times, both included, as 64 bits; the oldest first."""


@runtime_checkable
class KeepsMarks(Protocol):
    """A backend that remembers what was deleted; a mark takes the place of one of its kind."""

    def mark(self, mark: Mark) -> None:
        """Remember a mark, in place of one with the same key that is a deletion as it is."""

    def unmark(self, mark: Mark) -> None:
        """Forget it."""

    def marks(self) -> Iterable[Mark]:
        """All that are remembered."""


@runtime_checkable
class Reports(Protocol):
    """A backend that can tell what is wrong with what it keeps."""

    def problems(self) -> Sequence[str]:
        """One line each, for operators; known after `entries`."""


class Volume(Protocol):
    """A place for values. Inherit it to get a `close` that does nothing."""

    def open(self, storage: StorageConfig) -> Backend:
        """The values of one storage.

        Raises:
            ConfigError: an option of the storage is unknown or not legal.
            StoreError: they cannot be had.
        """

    def close(self) -> None:
        """All its backends are closed; no more calls come."""
        return


class OptionsVolume(Volume):
    """A volume that opens nothing before `open`: its options can be checked without it."""

    def check_storage(self, storage: StorageConfig) -> None:
        """Read the options of a storage.

        Raises:
            ConfigError: an option is unknown or not legal.
        """

    def directory_of(self, storage: StorageConfig) -> Path | None:
        """Return the directory of a storage, which no other storage may have; None: none.

        Raises:
            ConfigError: an option is not legal.
        """
        return None

    @classmethod
    def check(cls, config: VolumeConfig, storages: Iterable[StorageConfig]) -> None:
        """Check the options of a volume and of its storages; nothing is opened.

        Raises:
            ConfigError: an option is unknown or not legal.
            StoreError: this system cannot have such a volume.
        """
        volume = cls(config)  # type: ignore[call-arg]  # as every volume is made
        for storage in storages:
            volume.check_storage(storage)

    @classmethod
    def directories(
        cls, config: VolumeConfig, storages: Iterable[StorageConfig]
    ) -> Mapping[str, Path]:
        """Return the directories of storages that have one, by their names; raises as `check`."""
        volume = cls(config)  # type: ignore[call-arg]  # as above
        found = ((one.name, volume.directory_of(one)) for one in storages)
        return {name: directory for name, directory in found if directory is not None}


@runtime_checkable
class ChecksOptions(Protocol):
    """What opens volumes, and checks their options without opening any."""

    def check(self, config: VolumeConfig, storages: Iterable[StorageConfig]) -> None:
        """Raise as that of `OptionsVolume`."""


@runtime_checkable
class HasDirectories(Protocol):
    """What opens volumes that keep each storage in a directory of its own."""

    def directories(
        self, config: VolumeConfig, storages: Iterable[StorageConfig]
    ) -> Mapping[str, Path]:
        """Return them as that of `OptionsVolume`."""


class Served(Protocol):
    """A storage that runs."""

    config: StorageConfig

    def status(self) -> dict[str, Json]:
        """What it keeps, how much, and what went wrong."""

    def stop(self) -> None:
        """Take no more, keep what has come, and close everything."""


@runtime_checkable
class Serves(Protocol):
    """A volume that subscribes and answers by itself; it has no backends."""

    def serve(self, session: Session, storage: StorageConfig) -> Served:
        """A storage that runs; raises as `open`."""


# What an entry point of the group `elea.storages` is: called once per configured volume.
OpenVolume: TypeAlias = Callable[[VolumeConfig], Volume]

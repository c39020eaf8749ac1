"""Where volumes that keep files may write, and how much."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from elea.errors import ConfigError, StoreError
from elea.store.backend import StorageConfig, VolumeConfig
from elea.store.backends.options import DIR, ON_DISK, QUOTA

ROOT_ENV: Final = "ZENOH_BACKEND_FS_ROOT"  # Eclipse's name for the same thing

Usage = Callable[[Path], tuple[int, int, int]]  # total, used, free


@dataclass(frozen=True, slots=True)
class Place:
    """The directory below which a volume writes, and what it leaves free."""

    root: Path
    low_water_percent: float

    @classmethod
    def of(cls, config: VolumeConfig) -> Place:
        """What the options `root` and `low_water_percent` of a volume say."""
        chosen = ON_DISK.read(config.options, f"volumes/{config.name}")
        root = chosen["root"] or os.environ.get(ROOT_ENV)
        if not root:
            state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
            root = str(Path(state) / "elea" / config.backend)
        return cls(Path(root).absolute(), chosen["low_water_percent"])

    def directory(self, storage: StorageConfig) -> Path:
        """Where a storage is: its option `dir`, by default its name, never outside of the root."""
        path = f"storages/{storage.name}/volume"
        chosen = DIR.of(storage.options, path)
        name = storage.name if chosen is None else chosen
        parts = PurePath(name).parts
        if not parts or PurePath(name).is_absolute() or ".." in parts or "\0" in name:
            legal = f"expected a relative path without '..', which is below {self.root}"
            raise ConfigError(f"{path}/dir", f"{legal}, got {name!a}")
        return self.root.joinpath(*parts)

    def room(self, storage: StorageConfig) -> Room:
        """How much a storage may write."""
        quota = QUOTA.of(storage.options, f"storages/{storage.name}/volume")
        return Room(self.directory(storage), quota, self.low_water_percent)


def check_directory(directory: Path, path: str) -> None:
    """Check that a directory can be made, or be written to if it is there; nothing is made.

    Args:
        directory: The directory.
        path: Of the key that names it.

    Raises:
        ConfigError: it cannot.
    """
    directory = directory.absolute()
    above = (directory, *directory.parents)
    there = next((one for one in above if os.path.lexists(one)), directory)
    if not there.is_dir():
        reason = f"{directory} cannot be made: {there} is not a directory; name another one"
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f"{directory} cannot be written: no permission for {there}; name another one"
    else:
        return
    raise ConfigError(path, reason)


class Room:
    """Refuses what would fill the disk, before the disk does.

    Args:
        directory: On the disk in question.
        quota_len: What the storage may hold, if there is a bound.
        low_water_percent: Of the disk, that is to stay free.
        copies_count: How often what is written is on the disk for a while.
        usage: Tells total, used and free octets of a disk.
    """

    __slots__ = (
        "_copies_count",
        "_directory",
        "_low_water",
        "_quota_len",
        "_unsettled_len",
        "_usage",
        "used_len",
    )

    def __init__(
        self,
        directory: Path,
        quota_len: int | None,
        low_water_percent: float,
        copies_count: int = 1,
        usage: Usage = shutil.disk_usage,
    ) -> None:
        self._directory = directory
        self._quota_len = quota_len
        self._low_water = low_water_percent
        self._copies_count = copies_count
        self._usage = usage
        self._unsettled_len = 0  # not on the disk yet
        self.used_len = 0  # what the storage holds

    def take(self, more: int) -> None:
        """Account for octets that are about to be written; negative ones are given back.

        Raises:
            StoreError: there is no room for them.
        """
        if more > 0:
            if self._quota_len is not None and self.used_len + more > self._quota_len:
                raise StoreError(
                    f"{self._directory}: {self.used_len} octets are kept and {more} more asked"
                    f" for, the quota is {self._quota_len}; raise `quota`, or delete something"
                )
            total, _, free = self._usage(self._directory)
            due = (self._unsettled_len + more) * self._copies_count
            if free - due < total * self._low_water / 100:
                raise StoreError(
                    f"{self._directory}: {free} of {total} octets of the disk are free, and"
                    f" {self._low_water:g} % are to stay so (`low_water_percent` of the volume)"
                )
            self._unsettled_len += more
        self.used_len += more

    def settled(self) -> None:
        """All is on the disk."""
        self._unsettled_len = 0

"""Which volumes there are: those that Elea brings, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias

from elea.errors import StoreError
from elea.store.backend import OpenVolume

GROUP: Final = "elea.storages"
_BUILT_IN: Final = {
    "memory": "elea.store.backends.memory:MemoryVolume",
    "fs": "elea.store.backends.files:FilesVolume",
    "sqlite": "elea.store.backends.sqlite:SqliteVolume",
    "log": "elea.store.historian.storage:LogVolume",
}

Find: TypeAlias = Callable[[str], EntryPoint]


def find(name: str) -> EntryPoint:
    """The volume of a name; one that Elea brings cannot be replaced.

    Raises:
        StoreError: there is none.
    """
    if name in _BUILT_IN:
        return EntryPoint(name, _BUILT_IN[name], GROUP)
    found = {one.name: one for one in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*_BUILT_IN, *found}))
        raise StoreError(
            f"no volume {name!a} is installed; there are {known}. Others are Python packages with"
            f" an entry point in the group {GROUP}"
        )
    return found[name]


def load(entry: EntryPoint) -> OpenVolume:
    """What opens volumes.

    Raises:
        StoreError: the package cannot be used.
    """
    try:
        made: OpenVolume = entry.load()
    except Exception as error:  # whatever a foreign package does while it is imported
        raise StoreError(
            f"the volume {entry.name} of {entry.value} cannot be used: {error}"
        ) from error
    return made

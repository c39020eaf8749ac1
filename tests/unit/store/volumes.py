"""The volumes that Elea brings, opened for a test."""

from __future__ import annotations

from pathlib import Path

from elea.config.kinds import Value
from elea.store import volumes
from elea.store.backend import Backend, StorageConfig, VolumeConfig

ALL = ("memory", "memory all", "fs", "sqlite", "sqlite all")
DURABLE = ("fs", "sqlite", "sqlite all")


def opened(kind: str, root: Path, **options: int | str) -> Backend:
    """A backend of a kind, below a directory."""
    name, _, history = kind.partition(" ")
    chosen: dict[str, int | str] = {"history": history} if history else {}
    place: dict[str, Value] = (
        {} if name == "memory" else {"root": str(root), "low_water_percent": 0}
    )
    volume = volumes.load(volumes.find(name))(VolumeConfig(name, name, place))
    return volume.open(StorageConfig("demo", "**", name, {**chosen, **options}))

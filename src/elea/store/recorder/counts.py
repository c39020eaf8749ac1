"""What became of samples, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counts:
    """What became of the samples of a log since it is recorded to."""

    rows: int = 0  # samples on disk; gaps and drops are noted beside them, and not counted
    duplicates: int = 0  # samples that are recorded already, by number, key, timestamp, payload
    unchecked: int = 0  # samples that may be, and were not compared with all: too many to look at
    acknowledged: int = 0  # samples of which somebody was told the place
    gaps: int = 0  # samples that nobody has
    filled: int = 0  # samples that caches and storages had
    dropped: int = 0  # received and not recorded: no room, or the reader was too slow
    reopened: int = 0  # times that the log had to be opened again

    def add(self, other: Counts) -> None:
        """Count what another counted."""
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)

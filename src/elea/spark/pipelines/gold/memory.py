"""What a gold table remembers from one round to the next, in a file beside its rows.

The file is named after the number of the table's last change. A round that changes the table first
writes the file of the next number, which counts once the table has that number: so the table and
what is remembered belong together after any crash. A round that changes nothing replaces the file.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.ipc as ipc

from elea.atomic_file import replacing
from elea.errors import StoreError

LOCK: Final = "round.lock"
_MARK: Final = b"elea.mark"


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a source was read.

    Args:
        ends: By log and shard, the number after the last row.
        files: Files that do not tell which rows they hold, and were looked at.
    """

    ends: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """All that is remembered.

    Args:
        definition: What the table was made by.
        seen: How far each source was read.
        mark: What the kind remembers, as numbers by name,
        state: and as rows.
    """

    definition: str = ""
    seen: Sequence[Seen] = ()
    mark: Mapping[str, int] = field(default_factory=dict)
    state: pa.Table | None = None

    def to_table(self) -> pa.Table:
        """As it is written."""
        told = {
            "definition": self.definition,
            "seen": [{"ends": one.ends, "files": list(one.files)} for one in self.seen],
            "mark": dict(self.mark),
            "has_state": self.state is not None,
        }
        rows = pa.table({}) if self.state is None else self.state
        return rows.replace_schema_metadata({_MARK: json.dumps(told).encode()})

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """The same."""
        told = json.loads(table.schema.metadata[_MARK])
        seen = [Seen(one["ends"], tuple(one["files"])) for one in told["seen"]]
        state = table.replace_schema_metadata(None) if told["has_state"] else None
        return cls(told["definition"], seen, told["mark"], state)


def write_durably(path: Path, table: pa.Table) -> None:
    """Put rows in place of a file; it is the old or the new one after any crash."""
    with (
        replacing(path) as partial,
        partial.open("wb") as file,
        ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


class Memory:
    """The files of one table."""

    def __init__(self, root: Path) -> None:
        self._directory = root / "_elea"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One round or back-fill of a table at a time, of all processes of a host."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def load(self, number: int) -> Remembered | None:
        """What was remembered with a change; None: nothing was.

        Raises:
            StoreError: the file is missing or damaged, and there is a table.
        """
        path = self._path(number)
        try:
            with ipc.open_file(path) as reader:
                return Remembered.from_table(reader.read_all())
        except FileNotFoundError as error:
            if number == 0:
                return None
            raise StoreError(f"{path} is missing: make the table anew") from error
        except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise StoreError(f"{path} is damaged, make the table anew: {error}") from error

    def store(self, number: int, remembered: Remembered) -> None:
        """Durable when it returns."""
        self._directory.mkdir(parents=True, exist_ok=True)
        write_durably(self._path(number), remembered.to_table())

    def forget(self, before: int) -> None:
        """Of changes before one, nothing is needed any more."""
        for path in self._directory.glob("round-*.arrow"):
            if path.name < self._path(before).name:
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._directory / f"round-{number:012d}.arrow"

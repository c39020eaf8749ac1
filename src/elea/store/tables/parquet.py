"""Tables of plain Parquet files: nothing but directories, for readers who know no other format.

Files that are written wait in `_staging`, which readers pass. A commit is one file, the journal: it
says which files move to their places, which go, and what the table says of itself then. Once it is
there the commit is done; the next process that looks at the table does what it says, as often as
needed. A reader may see a part of a commit, as the files move one after the other.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from elea.atomic_file import replace_text, sync
from elea.errors import StoreError
from elea.store.tables.catalog import (
    CHANGES,
    Change,
    Design,
    Snapshot,
    missing_columns,
    offsets_mark,
    outdated,
    refuse_smaller,
)
from elea.store.tables.files import DataFile, Stats
from elea.store.tables.layout import BUCKET, DATE, STAGING, Layout, stats_of

_OWN: Final = "_elea"
_TABLE: Final = "table.json"
_JOURNAL: Final = "journal.json"
_ENDS: Final = "ends.json"  # the marks of version 1
_VERSION: Final = 2
_PLACES: Final = (f"{DATE}=*/**/*.parquet", "rows/*.parquet")


class ParquetCatalog:
    """As `Catalog`."""

    format = "parquet"

    def __init__(self, root: Path, design: Design) -> None:
        self.root = root
        self._own = root / _OWN
        self._design = design

    def snapshot(self) -> Snapshot:
        """As `Catalog`."""
        with self._locked():
            return self._snapshot()

    def commit(self, base: Snapshot, change: Change) -> None:
        """As `Catalog`."""
        self._own.mkdir(parents=True, exist_ok=True)
        with self._locked():
            here = self._snapshot()
            if here.version != base.version:
                raise outdated(self.root, base)
            refuse_smaller(self.root, here, change.marks)
            missing = missing_columns(here.schema, change.schema)
            columns = pa.schema([*(here.schema or ()), *missing])
            state = here.own or {"buckets": dict(self._design.buckets), "marks": {}}
            removes = [file.path for file in change.remove]
            if "files" in state:  # of version 1: here others are none, from now on their place is
                removes += sorted({*self._paths({})} - {*self._paths(state)})
            new_marks = {
                name: {str(index): number for index, number in numbers.items()}
                for name, numbers in change.marks.items()
            }
            state = {
                "version": _VERSION,
                "commit": here.version + 1,
                "buckets": state["buckets"],
                "columns": _hex(columns),
                "marks": state["marks"] | new_marks,
            }
            moves = [file.path for file in change.add]
            journal = {"moves": moves, "removes": removes, "state": state}
            self._write(_JOURNAL, journal)
            self._apply(journal)

    def forget(self, before_s: float) -> None:
        """As `Catalog`: there are no versions."""

    def unlisted(self, before_s: float) -> list[str]:
        """As `Catalog`: what has its place is of the table."""
        with self._locked():
            staged = self.root.glob(f"{STAGING}/**/*.parquet")
            old = (file for file in staged if file.stat().st_mtime < before_s)
            return [str(file.relative_to(self.root)) for file in old]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time, of all processes; what a killed one left undone is done first."""
        if not os.access(self._own, os.W_OK):  # there is no table, or this process only reads
            yield
            return
        with (self._own / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            journal = self._read(_JOURNAL)
            if journal is not None:
                self._apply(journal)
            yield

    def _apply(self, journal: Mapping[str, Any]) -> None:
        changed = {self.root}
        for path in journal["moves"]:
            staged, file = self.root / path, self.root / path.removeprefix(f"{STAGING}/")
            if staged.exists():  # else it was moved before
                file.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(file)
            changed.update(self.root / parent for parent in file.relative_to(self.root).parents)
        for path in journal["removes"]:
            file = self.root / path
            file.unlink(missing_ok=True)
            changed.add(file.parent)
        for directory in changed:
            sync(directory)
        if journal.get("ends") is not None:  # a journal of version 1
            self._write(_ENDS, journal["ends"])
        if "state" in journal:
            self._write(_TABLE, journal["state"])
            (self._own / _ENDS).unlink(missing_ok=True)
        (self._own / _JOURNAL).unlink()
        sync(self._own)

    def _snapshot(self) -> Snapshot:
        state = self._state()
        if state is None:
            return Snapshot()
        return Snapshot(
            state["commit"],
            ipc.read_schema(pa.py_buffer(bytes.fromhex(state["columns"]))),
            state["buckets"],
            self._files,
            lambda name: {int(at): one for at, one in state["marks"].get(name, {}).items()},
            state,
        )

    def _files(self) -> list[DataFile]:
        """Those of now, as nothing keeps those of before."""
        with self._locked():
            paths = self._paths(self._state())
        found = (_file(str(self.root), path) for path in paths)
        return [file for file in found if file is not None]

    def _paths(self, state: Mapping[str, Any] | None) -> list[str]:
        if state is not None and "files" in state:
            return [file["path"] for file in state["files"]]
        found = (file for place in _PLACES for file in self.root.glob(place))
        return sorted(str(file.relative_to(self.root)) for file in found)

    def _state(self) -> dict[str, Any] | None:
        state = self._read(_TABLE)
        if state is None:
            return None
        if state.get("version") not in (1, _VERSION):
            seen = state.get("version")
            reason = f"saw version {seen}; this release knows 1 and {_VERSION}"
            raise StoreError(f"{self.root}: {reason}")
        if state["version"] == 1:
            state = self._upgraded(state)
        # Also beside version 2, if an older release wrote it meanwhile. Marks only grow.
        for consumer, logs in (self._read(_ENDS) or {}).items():
            for log, ends in logs.items():
                marks = state["marks"].setdefault(offsets_mark(consumer, log), {})
                marks |= {shard: max(end, marks.get(shard, end)) for shard, end in ends.items()}
        return state

    def _upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        """Version 1: a table of rows without its marks, or one of results with all of its files."""
        if "files" not in state:
            layout = Layout(str(self.root), state["buckets"], staged=True)
            columns = state["columns"] or _hex(layout.table_schema())
            return {"commit": 0, "buckets": state["buckets"], "columns": columns, "marks": {}}
        marks = {CHANGES: {"0": state["number"]}}
        about = {"commit": state["number"], "buckets": {}, "marks": marks}
        return about | {"columns": state["columns"], "files": state["files"]}

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._own / name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StoreError(f"{self._own / name} is damaged: {error}") from error
        return found

    def _write(self, name: str, value: object) -> None:
        replace_text(self._own / name, json.dumps(value))


def _hex(schema: pa.Schema) -> str:
    octets: bytes = schema.serialize().to_pybytes()
    return octets.hex()


@lru_cache(maxsize=65_536)  # what has its name never changes, and to open it costs a millisecond
def _file(root: str, path: str) -> DataFile | None:
    try:
        file = Path(root) / path
        metadata = pq.read_metadata(file)
        length = file.stat().st_size
    except FileNotFoundError:  # compacted meanwhile
        return None
    values = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    stats = stats_of(metadata) if DATE in values else Stats()
    return DataFile(
        path, metadata.num_rows, length, values.get(DATE, ""), values.get(BUCKET), stats
    )

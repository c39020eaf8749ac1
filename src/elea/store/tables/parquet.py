"""Tables of plain Parquet files: nothing but directories, for readers who know no other format.

Files that are written wait in `_staging`, which readers pass. A commit is one file, the journal: it
says which files move to their places, which go, and how far the consumer has come then. Once it is
there the commit is done; whoever finds it does what it says, as often as needed. A reader may see a
part of a commit, as the files move one after the other.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from elea import crash
from elea.atomic_file import replace_text, sync
from elea.errors import StoreError
from elea.store.tables.files import DataFile, Part, pruned
from elea.store.tables.layout import (
    BUCKET,
    COLUMNS,
    DATE,
    STAGING,
    Layout,
    discard,
    old_partials,
    stats_of,
)
from elea.store.tables.table import advanced, check_types, log_of

_OWN: Final = "_elea"
_TABLE: Final = "table.json"
_ENDS: Final = "ends.json"
_JOURNAL: Final = "journal.json"
_VERSION: Final = 1


class PlainParquet:
    """A table of plain Parquet files."""

    format = "parquet"

    def __init__(
        self, root: Path, buckets: Mapping[str, str] | None, columns: pa.Schema = COLUMNS
    ) -> None:
        self._root = root
        self._own = root / _OWN
        self._own.mkdir(parents=True, exist_ok=True)
        with self._locked():
            about = self._read(_TABLE)
            if about is None:
                made = Layout(str(root), dict(buckets or {}), staged=True)
                told = "" if columns == COLUMNS else _hex(made.table_schema(columns))
                about = {"version": _VERSION, "buckets": made.buckets, "columns": told}
                self._write(_TABLE, about)
            if about["version"] != _VERSION:
                reason = f"saw version {about['version']}; this release knows {_VERSION}"
                raise StoreError(f"{root}: {reason}")
        self.layout = Layout(str(root), about["buckets"], staged=True)

    def ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        """As `Table`."""
        with self._locked():
            return self._ends(consumer, log_id)

    def commit(self, consumer: str, parts: Sequence[Part], *, lossy: bool = False) -> bool:
        """As `Table`."""
        if not parts:
            return False
        log_id = log_of(parts)
        files = [file for part in parts for file in part.files]
        with self._locked():
            ends = self._ends(consumer, log_id)
            after = advanced(ends, parts, lossy=lossy)
            if after is None:
                discard(str(self._root), files)  # staged: none of them is in the table
                return False
            told = {str(shard): end for shard, end in (ends | after).items()}
            everything = self._read(_ENDS) or {}
            everything.setdefault(consumer, {})[str(log_id)] = told
            crash.point("table.before_commit")
            self._do({"ends": everything, "moves": [file.path for file in files], "removes": []})
            crash.point("table.after_commit")
        return True

    def files(self, key_expr: str = "**", since: int = 0, until: int = 2**64) -> list[DataFile]:
        """As `Table`."""
        names = sorted(self._root.glob(f"{DATE}=*/**/*.parquet"))
        found = (_file(str(self._root), str(name.relative_to(self._root))) for name in names)
        return pruned((file for file in found if file is not None), key_expr, since, until)

    def schema(self) -> pa.Schema:
        """As `Table`."""
        with self._locked():
            return self._schema(self._read(_TABLE) or {})

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """As `Table`."""
        with self._locked():
            gone = [file.path for file in old if not (self._root / file.path).exists()]
            if gone:
                raise StoreError(f"{self._root}: {gone[0]} is not in the table any more")
            moves, removes = [file.path for file in new], [file.path for file in old]
            self._do({"ends": None, "moves": moves, "removes": removes})

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """As `Table`; files have the columns they were written with."""
        with self._locked():
            about = self._read(_TABLE) or {}
            have = self._schema(about)
            missing = check_types(have, fields)
            if missing:
                self._write(_TABLE, about | {"columns": _hex(pa.schema([*have, *missing]))})

    def vacuum(self, older_than_s: int, *, dry_run: bool = False) -> list[str]:
        """As `Table`."""
        before_s = time.time() - older_than_s
        with self._locked():
            staged = self._root.glob(f"{STAGING}/**/*.parquet")
            old = (file for file in staged if file.stat().st_mtime < before_s)
            found = [str(file.relative_to(self._root)) for file in old]
            found += old_partials(self._root, before_s)
            if not dry_run:
                for path in found:
                    (self._root / path).unlink(missing_ok=True)
        return sorted(found)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time, of all processes; what another one left undone is done first."""
        with (self._own / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            journal = self._read(_JOURNAL)
            if journal is not None:
                self._apply(journal)
            yield

    def _do(self, journal: dict[str, object]) -> None:
        self._write(_JOURNAL, journal)
        self._apply(journal)

    def _apply(self, journal: Mapping[str, object]) -> None:
        moves, removes = journal["moves"], journal["removes"]
        assert isinstance(moves, list)
        assert isinstance(removes, list)
        changed = set()
        for path in moves:
            staged = self._root / path
            file = self._root / path.removeprefix(f"{STAGING}/")
            if staged.exists():  # else it was moved before
                file.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(file)
            changed.add(file.parent)
        for path in removes:
            file = self._root / path
            file.unlink(missing_ok=True)
            changed.add(file.parent)
        for directory in (*changed, self._root):
            sync(directory)
        if journal["ends"] is not None:
            self._write(_ENDS, journal["ends"])
        (self._own / _JOURNAL).unlink()
        sync(self._own)

    def _schema(self, about: Mapping[str, Any]) -> pa.Schema:
        octets = bytes.fromhex(about["columns"])
        return ipc.read_schema(pa.py_buffer(octets)) if octets else self.layout.table_schema()

    def _ends(self, consumer: str, log_id: UUID) -> dict[int, int]:
        told = (self._read(_ENDS) or {}).get(consumer, {}).get(str(log_id), {})
        return {int(shard): int(end) for shard, end in told.items()}

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
    values = dict(part.split("=", 1) for part in path.split("/")[:-1])
    return DataFile(
        path, metadata.num_rows, length, values[DATE], values.get(BUCKET), stats_of(metadata)
    )

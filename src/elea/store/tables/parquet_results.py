"""Results as plain Parquet files: `_elea/table.json` says which files are of the table.

Who reads the directory without asking it may see a change in part, as files come and go one after
the other.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc as ipc

from elea.atomic_file import replace_text
from elea.errors import StoreError
from elea.store.tables.results import DATA, File

_OWN: Final = "_elea"
_TABLE: Final = "table.json"
_VERSION: Final = 1


class ParquetCatalog:
    """As `Catalog`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._own = root / _OWN

    def number(self) -> int:
        """As `Catalog`."""
        return int(self._read().get("number", 0))

    def schema(self) -> pa.Schema | None:
        """As `Catalog`."""
        text = self._read().get("columns")
        return None if text is None else ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))

    def files(self) -> list[File]:
        """As `Catalog`."""
        return [File(**one) for one in self._read().get("files", ())]

    def commit(
        self, number: int, gone: Sequence[File], come: Sequence[File], schema: pa.Schema
    ) -> bool:
        """As `Catalog`."""
        with self._locked():
            about = self._read()
            if about.get("number", 0) != number - 1:
                return False
            files = [File(**one) for one in about.get("files", ())]
            kept = [*(file for file in files if file not in gone), *come]
            kept.sort(key=lambda file: file.path)
            self._write(
                {
                    "version": _VERSION,
                    "number": number,
                    "columns": schema.serialize().to_pybytes().hex(),
                    "files": [asdict(file) for file in kept],
                }
            )
            # Also what a change left behind that did not come to its end.
            used = {file.path for file in kept}
            for path in (self.root / DATA).glob("*.parquet"):
                if f"{DATA}/{path.name}" not in used:
                    path.unlink(missing_ok=True)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._own.mkdir(parents=True, exist_ok=True)
        with (self._own / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._own / _TABLE).read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise StoreError(f"{self._own / _TABLE} is damaged: {error}") from error
        if found.get("version") != _VERSION or "files" not in found:
            raise StoreError(f"{self.root} is no table of results of version {_VERSION}")
        return found

    def _write(self, about: dict[str, object]) -> None:
        replace_text(self._own / _TABLE, json.dumps(about))

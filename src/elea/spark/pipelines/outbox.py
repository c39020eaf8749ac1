"""Outbox: rows of a table that are to be published, kept until they are sent.

They are kept before the table has them, with the number of the change that brings them, and sent
once it has. After a crash the number of the table tells what became of them. What it does not have
was not sent, and is forgotten. What it has is sent, once more if need be: the same rows, from the
same source, with the same numbers and timestamps. So whoever knows repeats gets each row once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.ipc as ipc

from elea.errors import StoreError
from elea.spark.pipelines.gold.memory import write_durably

_NUMBER: Final = b"elea.number"
_AT: Final = b"elea.at_ns"


def kept_at_ns(rows: pa.Table) -> int | None:
    """When rows of an outbox were kept: the same however often they are sent."""
    at = (rows.schema.metadata or {}).get(_AT)
    return None if at is None else int(at)


class Outbox:
    """What one table has to publish. One change at a time is on its way.

    Args:
        path: Of the file.
        send: Sends rows that a change of some number brought; it returns when they are sent.
    """

    def __init__(self, path: Path, send: Callable[[pa.Table, int], object]) -> None:
        self._path = path
        self._send = send

    def keep(self, rows: pa.Table, number: int) -> None:
        """Rows that a change will bring; durable when it returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        about = {_NUMBER: str(number).encode(), _AT: str(time.time_ns()).encode()}
        write_durably(self._path, rows.replace_schema_metadata(about))

    def deliver(self, number: int) -> None:
        """Send what is kept, if the table, whose last change has this number, has it.

        Raises:
            StoreError: the file is damaged.
            LinkError: nobody can be reached; it is kept.
        """
        try:
            with ipc.open_file(self._path) as reader:
                rows = reader.read_all()
            kept = int(rows.schema.metadata[_NUMBER])
        except FileNotFoundError:
            return
        except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
            reason = "remove it, and what was to be published then is not"
            raise StoreError(f"{self._path} is damaged: {error}; {reason}") from error
        if kept <= number:
            at = rows.schema.metadata.get(_AT)
            about = None if at is None else {_AT: at}
            self._send(rows.replace_schema_metadata(about), kept)
        self.clear()

    def clear(self) -> None:
        """Forget what is kept."""
        self._path.unlink(missing_ok=True)

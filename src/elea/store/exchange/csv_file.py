"""CSV: for people and spreadsheets; one way, with losses.

Lost are: whether an attachment was empty or absent, and the difference between line ends inside of
texts if a reader changes them. `hlc` is written as digits, which spreadsheets round.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa

from elea.store.exchange.jsonl_file import row_json
from elea.store.exchange.rows import plain_rows


class CsvRows:
    """Writes rows as CSV with a header; octets that are no text are in `payload_base64`."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str]) -> None:
        self._text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        names = []
        for name in columns:
            names += [name, f"{name}_base64"] if name in ("payload", "attachment") else [name]
        self._writer = csv.DictWriter(self._text, names, restval="", extrasaction="ignore")
        self._writer.writeheader()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self._writer.writerows(row_json(row) for row in plain_rows(batch))

    def finish(self) -> None:
        """Write what is left; the stream stays open."""
        self._text.flush()
        self._text.detach()

"""Rows of a stream's batches, appended to a table of results once each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea.spark.pipelines.gold.memory import Memory, Remembered
from elea.store.tables.results import open_results

_DEFINITION: Final = "flows"
_LOCK: Final = threading.Lock()  # several flows may have one table


def append(path: Path, format: str, flow: str, number: int, rows: pa.Table) -> bool:
    """Append the rows of a batch; False: the table has them already.

    Args:
        flow: Who brings them: a stream, which numbers its batches.
        number: Of the batch.

    Raises:
        StoreError: the rows have other columns than the table.
    """
    with _LOCK:
        results = open_results(path, format)
        memory = Memory(results.root)
        last = results.number()
        known = memory.load(last) or Remembered(_DEFINITION)
        if known.mark.get(flow, -1) >= number:
            return False
        if not rows.num_rows and results.schema() is not None:
            return False
        memory.store(last + 1, Remembered(_DEFINITION, mark={**known.mark, flow: number}))
        results.change(last + 1, rows)
        memory.forget(last + 1)
        return True
